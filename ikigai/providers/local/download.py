"""Download one large file: continue after an interruption, and check it against the server's checksum.

A later download continues with Range. With If-Range, or by the same checksum, no parts of two different files are
joined.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import shlex
import shutil
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from ikigai.core.errors import ConfigError, IkigaiError
from ikigai.core.events.record import Record
from ikigai.providers.http.failures import RequestTarget, failure_of_exception
from ikigai.providers.local.named_checksum import content_range, named_sha256, strong_validator
from ikigai.providers.local.part_file import PartFile, PartState
from ikigai.system import paths
from ikigai.system.progress import format_size
from ikigai.system.proxies import client_options

if TYPE_CHECKING:
    import httpx2

MAX_REDIRECTS = 8
"""Redirects that are followed; file hosts send a client to their storage with one or two."""
CONNECT_SECONDS, READ_SECONDS = 15.0, 60.0
"""Seconds that a server may take to be reached, and to send the next piece."""
MAX_TRIES = 5
"""Tries in a row that bring nothing, after which a download that had begun ends."""
SPARE_BYTES = 64 << 20
"""Bytes that stay free on the disk."""
HEAD_BYTES = 4096
"""Bytes of a file that are looked at before any is stored."""
CHECKED_BYTES = 8 << 20
"""Bytes of a file that are read at once for its checksum: between them Ctrl+C is seen."""
SIZE = re.compile(r"[0-9]{1,18}")
"""The size of a file in a header; a longer number is none."""
REDIRECTS = frozenset({301, 302, 303, 307, 308})
BUSY = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Answers after which the same request may succeed a moment later."""

DownloadReport = Callable[[int, int | None], None]
"""Called with the bytes so far and the bytes in all, None if unknown."""


class Remote(Record, frozen=True):
    """A file on a server. `token` goes to the server of `url` alone; `plain_etag` says that its ETag is a checksum."""

    url: str
    token: str = ""
    plain_etag: bool = False


class DownloadFailed(IkigaiError):
    """A download that ended early; what came stays for the next one unless it was wrong."""


class _Interrupted(Exception):
    """The connection ended, or the server is busy; `reason` says which, `remedy` helps where nothing came."""

    def __init__(self, reason: str, remedy: str = "Try again later.") -> None:
        super().__init__(reason)
        self.reason, self.remedy = reason, remedy


class Downloader:
    """Downloads `remote` to `target`. `accept` raises IkigaiError for first bytes that no wanted file has.

    `pause` is the time in seconds before the second try; it doubles with each further one.
    """

    def __init__(
        self, remote: Remote, target: Path, accept: Callable[[bytes], None], report: DownloadReport, pause: float = 1.0
    ) -> None:
        self._remote, self._target, self._accept, self._report = remote, target, accept, report
        self._pause = pause
        self._part = PartFile(target)
        self._has_begun = False
        self.sha256 = ""
        """The checksum that the server named; "" for none."""

    @property
    def next_step(self) -> str:
        """How to go on after an interruption."""
        if not self._part.size:
            return "Run the command again."
        if not self._part.read_state()[1]:
            return "Run the command again. It begins anew: the server does not name the version of the file."
        return "Run the command again: it continues."

    async def run(self) -> None:
        """Download the file, unless it is there already; wait while another program does. Raise IkigaiError, and say
        how to go on.
        """
        try:
            async with self._part.locked(lambda: self._report(self._part.size, None)):
                await self._run_tries()
        except OSError as error:
            raise DownloadFailed(
                f"{self._target} cannot be written: {error.strerror or error}.",
                f"Correct that. {self.next_step}",
            ) from None

    async def _run_tries(self) -> None:
        failures, largest = 0, self._part.size
        while True:
            try:
                await self._try()
                return
            except _Interrupted as interrupted:
                failures = 0 if self._part.size > largest else failures + 1
                largest = max(largest, self._part.size)
                if not self._has_begun or failures >= MAX_TRIES:
                    raise self._failure(interrupted) from None
                await asyncio.sleep(self._pause * 2**failures)

    async def _try(self) -> None:
        import httpx2

        limits = httpx2.Timeout(READ_SECONDS, connect=CONNECT_SECONDS)
        try:
            async with httpx2.AsyncClient(timeout=limits, **client_options(self._remote.url)) as client:
                await self._transfer(client)
        except ConfigError as error:
            raise DownloadFailed(error.what, error.remedy) from None
        except (httpx2.UnsupportedProtocol, httpx2.InvalidURL):
            raise DownloadFailed("The address is not one of http:// or https://.", "Correct it.") from None
        except httpx2.TransportError as error:
            raise _lost_connection(error) from None

    async def _transfer(self, client: httpx2.AsyncClient) -> None:
        """Make one request, and store what comes."""
        state, have = self._part.read_state()
        async with self._opened(client, state, have) as (answer, named):
            self.sha256 = named.sha256
            if self._target.is_file():
                await self._compare(named)
                return
            if have and (
                (answer.status_code != 206 and answer.status_code != 416)
                or not self._continues(answer.headers, state, named, have)
            ):
                if answer.status_code in (206, 416):
                    self._part.discard()
                    self._has_begun = True
                    raise _Interrupted("The file on the server has changed.")
                have = 0
            if answer.status_code in (206, 416) and not have:
                raise DownloadFailed("The server sent a part of the file, not the file.", "Try another address.")
            self._has_begun = True
            if answer.status_code != 416:
                self._check_space(named.size - have if named.size else 0)
                self._part.write_state(named)
                have = await self._store(answer, named, have)
        if named.size and have < named.size:
            raise _Interrupted("The connection ended early.")
        await self._finish(named)

    @asynccontextmanager
    async def _opened(
        self, client: httpx2.AsyncClient, state: PartState, have: int
    ) -> AsyncGenerator[tuple[httpx2.Response, PartState]]:
        """Open the answer behind all redirects; yield it with what its headers name."""
        import httpx2

        url, named = httpx2.URL(self._remote.url), PartState()
        home = _origin(url)
        for _ in range(MAX_REDIRECTS + 1):
            headers = {"Accept-Encoding": "identity", "User-Agent": "ikigai"}
            if have:
                headers["Range"] = f"bytes={have}-"
                if state.validator and not (named.sha256 and named.sha256 == state.sha256):
                    headers["If-Range"] = state.validator
            if self._remote.token and _origin(url) == home:
                headers["Authorization"] = f"Bearer {self._remote.token}"
            answer = await client.send(client.build_request("GET", url, headers=headers), stream=True)
            try:
                at_home = self._remote.plain_etag and _origin(url) == home
                named = _merged(named, answer.headers, answer.status_code, at_home)
                if answer.status_code not in REDIRECTS:
                    _check_status(answer.status_code, url, bool(self._remote.token))
                    yield answer, named
                    return
                following = url.join(answer.headers.get("location", ""))
            finally:
                await answer.aclose()
            if url.scheme == "https" and following.scheme != "https":
                raise DownloadFailed(
                    f"{url.host} sends the download to an address without TLS ({following.host}).",
                    "Nothing was downloaded from there. Try another address.",
                )
            url = following
        raise DownloadFailed(f"{url.host} redirects more than {MAX_REDIRECTS} times.", "Try another address.")

    def _continues(self, headers: Mapping[str, str], state: PartState, named: PartState, have: int) -> bool:
        """Return True if this answer has the rest of the file that is here in part."""
        if state.sha256 and named.sha256 and state.sha256 != named.sha256:
            return False
        first, total = content_range(headers)
        return first in (have, None) and (first is not None or total == have) and state.size in (0, total)

    async def _store(self, answer: httpx2.Response, named: PartState, have: int) -> int:
        """Append the body to the part; return the size of the part."""
        head = b""
        with paths.open_private(self._part.path, "ab" if have else "wb") as file:
            self._report(have, named.size or None)
            async with aclosing(answer.aiter_raw()) as pieces:
                async for piece in pieces:
                    if not have:
                        head += piece
                        if len(head) < HEAD_BYTES:
                            continue
                        self._check_head(head)
                        piece = head
                    have = self._add(file, piece, named, have)
            if not have:
                self._check_head(head)
                have = self._add(file, head, named, have)
        return have

    def _add(self, file: BinaryIO, piece: bytes, named: PartState, have: int) -> int:
        """Append a piece to the part; return the size of the part."""
        _write(file, piece)
        have += len(piece)
        self._report(have, named.size or None)
        if named.size and have > named.size:
            self._part.discard()
            raise DownloadFailed("The server sent more than the file.", "Try another address.")
        return have

    def _check_head(self, head: bytes) -> None:
        try:
            self._accept(head)
        except IkigaiError:
            self._part.discard()
            raise

    async def _finish(self, named: PartState) -> None:
        """Check the whole file and give it its name."""
        if named.sha256 and await _sha256(self._part.path) != named.sha256:
            self._part.discard()
            raise DownloadFailed(
                f"{self._target.name} does not have the checksum that the server names; it was deleted.",
                "Run the command again. If that repeats itself, the file on the server is damaged.",
            )
        with self._part.path.open("rb+") as file:
            os.fsync(file.fileno())
        self._part.finish()

    async def _compare(self, named: PartState) -> None:
        """Raise IkigaiError if the file that is here is not the one on the server."""
        if named.sha256:
            same = await _sha256(self._target) == named.sha256
        else:
            same = named.size in (0, self._target.stat().st_size)
        if not same:
            raise DownloadFailed(
                f"{self._target} is here already, and differs from the file on the server.",
                "To download that one, delete or rename the file first.",
            )

    def _check_space(self, needed: int) -> None:
        folder = self._target.parent
        free = shutil.disk_usage(folder).free
        if needed and free < needed + SPARE_BYTES:
            raise DownloadFailed(
                f"{folder} has {format_size(free)} free, and the download needs {format_size(needed + SPARE_BYTES)}.",
                f"Free some space there. {self.next_step}",
            )

    def _failure(self, interrupted: _Interrupted) -> DownloadFailed:
        if size := self._part.size:
            return DownloadFailed(f"The download stopped at {size / 1e6:,.1f} MB. {interrupted.reason}", self.next_step)
        remedy = interrupted.remedy
        if self._target.is_file():
            remedy = f"The file is here. To use it: ikigai setup --model {shlex.quote(str(self._target))}"
        return DownloadFailed(f"Nothing was downloaded. {interrupted.reason}", remedy)


def _lost_connection(error: httpx2.TransportError) -> _Interrupted:
    """Return the interruption for an error of the connection, in words."""
    import httpx2

    url = error.request.url
    if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.ProxyError):
        target = RequestTarget("The server", "", f"{url.scheme}://{url.netloc.decode()}")
        failure = failure_of_exception(target, error, begun=False)
        return _Interrupted(failure.text, failure.remedy)
    if isinstance(error, httpx2.TimeoutException):
        return _Interrupted(f"{url.host} sent nothing for {READ_SECONDS:g} seconds.")
    return _Interrupted(f"The connection to {url.host} was cut.")


async def _sha256(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as opened:
        while piece := opened.read(CHECKED_BYTES):
            digest.update(piece)
            await asyncio.sleep(0)
    return digest.hexdigest()


def _write(file: BinaryIO, piece: bytes) -> None:
    file.write(piece)
    file.flush()  # a killed process leaves all that it has reported


def _merged(before: PartState, headers: Mapping[str, str], status: int, plain_etag: bool) -> PartState:
    """Return the checksum and validator named so far, with those that this answer names: the first checksum counts, and
    the last validator.
    """
    sha256 = before.sha256 or named_sha256(headers, status, plain_etag)
    linked = headers.get("x-linked-size", "")
    length = headers.get("content-length", "") if status == 200 else ""
    size = content_range(headers)[1] or next((int(text) for text in (length, linked) if SIZE.fullmatch(text)), 0)
    return PartState(size or before.size, sha256, strong_validator(headers) if status not in REDIRECTS else "")


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _check_status(status: int, url: httpx2.URL, has_token: bool) -> None:
    """Raise for an answer that is not a file."""
    if status in (200, 206, 416):
        return
    if status in BUSY:
        raise _Interrupted(f"{url.host} answered with HTTP {status}.")
    remedy = "Check the address."
    if status in (401, 403):
        remedy = (
            "Check the token in HF_TOKEN, and accept the terms of the model on its page."
            if has_token
            else "Check the address. If the file needs an account there, put a token into HF_TOKEN (for hf: addresses)."
        )
    what = "has no such file" if status in (404, 410) else "refused the download"
    raise DownloadFailed(f"{url.host} {what} (HTTP {status}).", remedy)
