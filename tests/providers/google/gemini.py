"""Make the Gemini API's answers: events of streamGenerateContent and errors."""

import json
from typing import Any

from tests.support.wire_server import Answer

USAGE = {"promptTokenCount": 12, "candidatesTokenCount": 5, "totalTokenCount": 17}


def chunk(*parts: dict[str, Any], finish: str = "", **more: Any) -> dict[str, Any]:
    """One GenerateContentResponse; `more` are its other fields."""
    candidate: dict[str, Any] = {"content": {"parts": list(parts), "role": "model"}} if parts else {}
    if finish:
        candidate["finishReason"] = finish
    candidate["index"] = 0
    return {"candidates": [candidate], "modelVersion": "gemini-3.8-flash", "responseId": "resp-1", **more}


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"text": words, **more}


def thought(words: str) -> dict[str, Any]:
    return {"text": words, "thought": True}


def call(name: str, args: dict[str, Any] | None = None, id: str = "", **more: Any) -> dict[str, Any]:
    function = {"name": name, **({"args": args} if args is not None else {}), **({"id": id} if id else {})}
    return {"functionCall": function, **more}


def sse(*chunks: object) -> bytes:
    """The body of a stream: Google ends its lines with CR LF. Bytes go out as they are."""
    return b"".join(c if isinstance(c, bytes) else b"data: %b\r\n\r\n" % json.dumps(c).encode() for c in chunks)


def stream(*chunks: object, **more: Any) -> Answer:
    return Answer(sse(*chunks), **more)


def said(words: str = "Hi") -> Answer:
    return stream(chunk(text(words), finish="STOP", usageMetadata=USAGE))


def failed(code: int, message: str = "", status: str = "", *details: dict[str, Any], **headers: str) -> Answer:
    """An error; in `details` the type is written without its prefix."""
    error: dict[str, Any] = {"code": code, "message": message, "status": status}
    if details:
        error["details"] = [
            {**detail, "@type": f"type.googleapis.com/google.rpc.{detail['@type']}"} for detail in details
        ]
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    body = json.dumps({"error": error}, indent=2).encode()
    return Answer(body, code, {"Content-Type": "application/json; charset=UTF-8", **named})


def quota(*ids: str) -> dict[str, Any]:
    return {"@type": "QuotaFailure", "violations": [{"quotaMetric": "requests", "quotaId": id} for id in ids]}


def delay(seconds: str) -> dict[str, Any]:
    return {"@type": "RetryInfo", "retryDelay": seconds}


BAD_KEY = failed(
    400,
    "API key not valid. Please pass a valid API key.",
    "INVALID_ARGUMENT",
    {"@type": "ErrorInfo", "reason": "API_KEY_INVALID", "domain": "googleapis.com"},
)
PLAN = "You exceeded your current quota, please check your plan and billing details."
