"""Serve a file over HTTP as hosts of large files do, and as broken ones do; record the requests."""

import re
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self


@dataclass
class Hosted:
    """One file, or an answer in its place.

    `cut`: only so many bytes of the body are sent, then the connection ends; with `hang` it stays open until the client
    goes. `cuts` is how many requests are cut, None for all. `etag` and `headers` go with it; without `ranges` every
    answer is the whole file.
    """

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    etag: str = ""
    ranges: bool = True
    sized: bool = True
    cut: int | None = None
    cuts: int | None = None
    hang: bool = False


class FileServer(ThreadingHTTPServer):
    """Serves `files` by their paths on a free loopback port, while the context is open."""

    daemon_threads = True

    def __init__(self, files: dict[str, Hosted] | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files = files or {}
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.hanging = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FileServer

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        sent = {name.lower(): value for name, value in self.headers.items()}
        self.server.requests.append((self.path, sent))
        hosted = self.server.files.get(path, Hosted(b"no such file", 404))
        status, body, headers = hosted.status, hosted.body, dict(hosted.headers)
        if hosted.etag:
            headers["ETag"] = hosted.etag
        found = re.fullmatch(r"bytes=(\d+)-", sent.get("range", ""))
        if found and status == 200 and hosted.ranges and sent.get("if-range", hosted.etag) == hosted.etag:
            first = int(found[1])
            if first >= len(body):
                status, headers["Content-Range"], body = 416, f"bytes */{len(body)}", b""
            else:
                headers["Content-Range"] = f"bytes {first}-{len(body) - 1}/{len(body)}"
                status, body = 206, body[first:]
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header(*(("Content-Length", str(len(body))) if hosted.sized else ("Connection", "close")))
        self.end_headers()
        is_cut = hosted.cut is not None and hosted.cuts != 0
        self.wfile.write(body[: hosted.cut] if is_cut else body)
        if is_cut and hosted.cuts:
            hosted.cuts -= 1
        if is_cut and hosted.hang:
            self.wfile.flush()
            self.server.hanging.set()
            self.connection.recv(1)
        self.close_connection = is_cut or not hosted.sized

    def log_message(self, format: str, *args: object) -> None: ...
