"""Speak as clouds do: AWS's binary framing and its signatures, and endpoints that hand out tokens."""

import base64
import json
import struct
from binascii import crc32
from typing import Any

from tests.support.wire_server import Answer, Received

AWS_KEY, AWS_SECRET, AWS_TOKEN = "AKIDEXAMPLE", "wJalrXUtnFEMI-not-a-real-one", "session-token-of-a-role"


def frame(headers: dict[str, str], payload: bytes) -> bytes:
    """Return one message of application/vnd.amazon.eventstream."""
    written = b"".join(
        bytes([len(name)]) + name.encode() + b"\x07" + struct.pack(">H", len(value)) + value.encode()
        for name, value in headers.items()
    )
    prelude = struct.pack(">II", 16 + len(written) + len(payload), len(written))
    prelude += struct.pack(">I", crc32(prelude))
    return (message := prelude + written + payload) + struct.pack(">I", crc32(message))


def event_frame(chunk: dict[str, Any]) -> bytes:
    """Return an event of a Messages stream as Bedrock wraps it."""
    payload = {"bytes": base64.b64encode(json.dumps(chunk).encode()).decode(), "p": "abcd"}
    headers = {":event-type": "chunk", ":content-type": "application/json", ":message-type": "event"}
    return frame(headers, json.dumps(payload).encode())


def exception_frame(name: str, message: str) -> bytes:
    headers = {":exception-type": name, ":content-type": "application/json", ":message-type": "exception"}
    return frame(headers, json.dumps({"message": message}).encode())


def event_stream(*frames: bytes) -> Answer:
    return Answer(b"".join(frames), headers={"Content-Type": "application/vnd.amazon.eventstream"})


def aws_refusal(status: int, name: str, message: str) -> Answer:
    headers = {"Content-Type": "application/json", "x-amzn-ErrorType": f"{name}:http://internal.amazon.com/"}
    return Answer(json.dumps({"message": message}).encode(), status, headers)


def signature_of(request: Received, port: int, service: str) -> str:
    """Return the Authorization that AWS computes for a request as it came, with the secret of this module."""
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    scope, signed = (part.partition("=")[2] for part in request.headers["authorization"].split(", ")[:2])
    signing = SigV4Auth(Credentials(AWS_KEY, AWS_SECRET, AWS_TOKEN), service, scope.split("/")[2])
    headers = {name: request.headers[name] for name in signed.split(";")}
    asked = AWSRequest("POST", f"http://127.0.0.1:{port}{request.path}", headers=headers, data=request.body)
    asked.context["timestamp"] = request.headers["x-amz-date"]
    text = signing.string_to_sign(asked, signing.canonical_request(asked))
    return f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders={signed}, Signature={signing.signature(text, asked)}"


def token_answer(token: str) -> Answer:
    """Return what a token endpoint of Google or of a managed identity says."""
    body = {"access_token": token, "expires_in": 3600, "expires_on": "4102444800", "token_type": "Bearer"}
    return Answer(json.dumps(body | {"resource": "x"}).encode(), headers={"Content-Type": "application/json"})
