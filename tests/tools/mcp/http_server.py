"""A scripted MCP server over streamable HTTP with an authorization server of its own, for one test.

It says that tokens live `seconds`, and accepts those in `tokens`; "" in them is for requests without one. `requests`
are pairs of a path and what was asked for there: the method of a message, the grant of a token, or the client that logs
in. `sessions` are those that it knows. `text` is the result of its tool; `encodings` are those that requests accept.
"""

import contextlib
import json
import ssl
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit


class ScriptedHttpServer:
    def __init__(self, seconds: int, tls: ssl.SSLContext | None = None) -> None:
        self.seconds, self.requests = seconds, list[tuple[str, str]]()
        self.tokens, self.issued = set[str](), 0
        self.sessions, self.text, self.encodings = set[str](), "added", set[str]()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                server.handle(self, b"")

            def do_POST(self) -> None:
                server.handle(self, self.rfile.read(int(self.headers["Content-Length"] or 0)))

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        if tls:
            self.http.socket = tls.wrap_socket(self.http.socket, server_side=True)
        self.address = f"http{'s' * bool(tls)}://127.0.0.1:{self.http.server_address[1]}"

    @property
    def url(self) -> str:
        return f"{self.address}/mcp"

    def handle(self, to: BaseHTTPRequestHandler, body: bytes) -> None:
        place = urlsplit(to.path)
        query = {name: values[0] for name, values in parse_qs(place.query or body.decode(errors="replace")).items()}
        match place.path:
            case "/.well-known/oauth-protected-resource/mcp":
                reply(to, {"resource": self.url, "authorization_servers": [self.address]})
            case "/.well-known/oauth-authorization-server":
                reply(to, self._metadata())
            case "/register":
                reply(to, {**json.loads(body), "client_id": "registered"}, 201)
            case "/authorize":
                self.requests.append((place.path, query["client_id"]))
                to.send_response(302)
                to.send_header("Location", f"{query['redirect_uri']}?code=c&state={query['state']}")
                to.send_header("Content-Length", "0")
                to.end_headers()
            case "/token":
                self.requests.append((place.path, query["grant_type"]))
                self.issued += 1
                token = f"token{self.issued}"
                self.tokens.add(token)
                given = {"access_token": token, "token_type": "Bearer", "expires_in": self.seconds}
                reply(to, given if query["grant_type"] == "client_credentials" else {**given, "refresh_token": "r"})
            case "/mcp" if body:
                self._message(to, json.loads(body))
            case _:
                reply(to, {}, 404 if place.path != "/mcp" else 405)

    def _metadata(self) -> dict[str, Any]:
        return {
            "issuer": self.address,
            "authorization_endpoint": f"{self.address}/authorize",
            "token_endpoint": f"{self.address}/token",
            "registration_endpoint": f"{self.address}/register",
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code", "refresh_token", "client_credentials"],
            "token_endpoint_auth_methods_supported": ["none", "client_secret_basic", "private_key_jwt"],
            "code_challenge_methods_supported": ["S256"],
            "client_id_metadata_document_supported": True,
        }

    def _message(self, to: BaseHTTPRequestHandler, message: dict[str, Any]) -> None:
        token = to.headers.get("Authorization", "").removeprefix("Bearer ")
        if token not in self.tokens:
            where = f'Bearer resource_metadata="{self.address}/.well-known/oauth-protected-resource/mcp"'
            reply(to, {}, 401, {"WWW-Authenticate": where})
            return
        method, id = message.get("method", ""), message.get("id")
        self.requests.append(("/mcp", method))
        self.encodings.add(to.headers.get("Accept-Encoding", ""))
        session = to.headers.get("Mcp-Session-Id")
        if session and session not in self.sessions:
            reply(to, {"jsonrpc": "2.0", "id": "none", "error": {"code": -32600, "message": "Session not found"}}, 404)
            return
        about = {"name": "scripted", "version": "1"}
        results: dict[str, Any] = {
            "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": about},
            "tools/list": {"tools": [{"name": "add", "inputSchema": {"type": "object"}}]},
            "tools/call": {"content": [{"type": "text", "text": self.text}]},
        }
        if id is None:
            reply(to, None, 202)
        elif method in results:
            headers = dict[str, str]()
            if method == "initialize":
                self.sessions.add(session := f"session{len(self.requests)}")
                headers["Mcp-Session-Id"] = session
            reply(to, {"jsonrpc": "2.0", "id": id, "result": results[method]}, headers=headers)
        else:
            error = {"code": -32601, "message": f"no {method}"}
            reply(to, {"jsonrpc": "2.0", "id": id, "error": error}, 400 if method == "server/discover" else 200)


def reply(to: BaseHTTPRequestHandler, value: object, status: int = 200, headers: dict[str, str] | None = None) -> None:
    body = b"" if value is None else json.dumps(value).encode()
    to.send_response(status)
    for name, text in {"Content-Type": "application/json", "Content-Length": str(len(body)), **(headers or {})}.items():
        to.send_header(name, text)
    to.end_headers()
    to.wfile.write(body)


@contextlib.contextmanager
def serving(seconds: int = 3600, tls: ssl.SSLContext | None = None) -> Iterator[ScriptedHttpServer]:
    server = ScriptedHttpServer(seconds, tls)
    thread = Thread(target=server.http.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield server
    finally:
        server.http.shutdown()
        thread.join()
        server.http.server_close()
