"""One page from the web by HTTP, with bounds: no address that is not public, so many redirects, bytes and seconds.

A host's name is resolved once for each request. Its addresses are checked, and the connection goes to one of those
and not to the name again, which could mean another address by then; Host and the TLS server name stay the host's.
Each redirect is such a request anew.
"""

from __future__ import annotations

import asyncio
import re
import ssl
import zlib
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from ikigai import __version__
from ikigai.tools.web.addresses import public, resolved

if TYPE_CHECKING:
    import httpx

Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""Host and port → the host's addresses."""

SECONDS, MOST, REDIRECTS = 30.0, 5_000_000, 5
"""For one page with all its redirects: seconds, bytes of its body unpacked, redirects."""
_CONNECT = 10.0
_REDIRECTED = (301, 302, 303, 307, 308)
_HOST = re.compile(r"[\w.-]{1,254}|[0-9a-fA-F:.]{2,45}", re.ASCII)
"""A name as DNS takes it, or an address."""
_HEADERS = {
    "User-Agent": f"ikigai/{__version__}",
    "Accept": "text/markdown, text/html, application/xhtml+xml;q=0.9, text/*;q=0.8, application/json;q=0.8, */*;q=0.1",
    "Accept-Encoding": "gzip",
}


class Refused(OSError):
    """An address that is not public, or a redirect that goes too far."""


class Fetched(NamedTuple):
    """An answer. `url` is where it came from after all redirects; `cut` says that the body went on."""

    url: str
    status: int
    reason: str
    type: str
    body: bytes
    cut: bool


class Fetcher:
    """`private`: hosts, as URLs name them, that may have an address that is not public; "*" for every one."""

    def __init__(
        self,
        private: Collection[str] = (),
        resolve: Resolve = resolved,
        *,
        seconds: float = SECONDS,
        most: int = MOST,
        redirects: int = REDIRECTS,
        certificates: ssl.SSLContext | None = None,
    ) -> None:
        self._private, self._resolve = frozenset(each.lower() for each in private), resolve
        self._seconds, self._most, self._redirects = seconds, most, redirects
        self._certificates = certificates

    def checked(self, url: str) -> httpx.URL:
        """The URL as it would be asked for; ValueError or Refused, in words, when it would not. Asks no name server."""
        import httpx

        try:
            found = httpx.URL(url)
        except (httpx.InvalidURL, UnicodeError, TypeError) as error:
            raise ValueError(f"{_short(url)} is no URL: {error}.") from None
        if found.scheme not in ("http", "https") or not found.raw_host:
            raise ValueError(f"{_short(url)} is no URL that begins with http:// or https://.")
        if found.userinfo:
            raise ValueError("a URL with a user's name or password in it is not fetched.")
        if found.port is not None and not 0 < found.port < 65536:
            raise ValueError(f"{_short(url)} names a port that cannot be.")
        host = found.raw_host.decode("ascii")
        if not _HOST.fullmatch(host):
            raise ValueError(f"{_short(url)} names a host that cannot be.")
        if _literal(host) and not public(host) and not self._may_be_private(host):
            raise Refused(_not_public(host, host))
        return found.copy_with(fragment=None)

    async def get(self, url: str) -> Fetched:
        """ValueError, OSError (Refused, TimeoutError), all in words."""
        import httpx

        at = self.checked(url)
        certificates = self._certificates or await asyncio.to_thread(httpx.create_ssl_context)
        try:
            async with (
                asyncio.timeout(self._seconds),
                httpx.AsyncClient(
                    verify=certificates,
                    trust_env=False,  # a proxy would resolve the name again
                    follow_redirects=False,
                    timeout=httpx.Timeout(None, connect=_CONNECT),
                    headers=_HEADERS,
                ) as client,
            ):
                return await self._followed(client, at)
        except TimeoutError:
            raise TimeoutError(f"{at.host} gave no whole answer within {self._seconds:g} s.") from None

    async def _followed(self, client: httpx.AsyncClient, at: httpx.URL) -> Fetched:
        import httpx

        inside = False
        for number in range(self._redirects + 1):
            addresses = await self._addresses(at)
            private = not all(map(public, addresses))
            if private and number and not inside:
                raise Refused(f"a redirect from the internet leads to {at.host}, which is not on it: not followed.")
            inside = private
            response = await self._asked(client, at, addresses)
            try:
                to = response.headers.get("location")
                if response.status_code not in _REDIRECTED or not to:
                    return await self._read(response, at)
            finally:
                await response.aclose()
            client.cookies.clear()
            try:
                at = self.checked(str(at.join(to)))
            except (httpx.InvalidURL, ValueError) as error:
                raise Refused(f"a redirect that cannot be followed: {error}") from None
        raise Refused(f"more than {self._redirects} redirects, the last one to {_short(str(at))}.")

    async def _addresses(self, at: httpx.URL) -> Sequence[str]:
        host = at.raw_host.decode("ascii")
        try:
            addresses = await self._resolve(host, at.port or (443 if at.scheme == "https" else 80))
        except (OSError, UnicodeError) as error:
            raise OSError(f"{at.host} cannot be found: {getattr(error, 'strerror', '') or error}.") from None
        if not addresses:
            raise OSError(f"{at.host} cannot be found.")
        for address in addresses:
            if not public(address) and not self._may_be_private(host):
                raise Refused(_not_public(at.host, address))
        return addresses

    def _may_be_private(self, host: str) -> bool:
        return not self._private.isdisjoint(("*", host.lower().rstrip(".")))

    async def _asked(self, client: httpx.AsyncClient, at: httpx.URL, addresses: Sequence[str]) -> httpx.Response:
        """The answer of the first address that takes a connection, its body yet to be read."""
        import httpx

        host = at.raw_host.decode("ascii")
        failure: Exception | None = None
        for address in addresses:
            request = client.build_request(
                "GET",
                at.copy_with(host=address),
                headers={"Host": at.netloc.decode("ascii")},
                extensions={"sni_hostname": host},
            )
            try:
                return await client.send(request, stream=True)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                failure = error
            except httpx.HTTPError as error:
                raise OSError(f"{at.host} gave no answer: {_why(error)}.") from None
        raise OSError(f"{at.host} cannot be reached: {_why(failure)}.")

    async def _read(self, response: httpx.Response, at: httpx.URL) -> Fetched:
        """The body, unpacked here: a few kilobytes can be packed that unpack to gigabytes."""
        import httpx

        packed = response.headers.get("content-encoding", "identity").strip().lower()
        if packed not in ("identity", "", "gzip", "x-gzip", "deflate"):
            raise OSError(f"{at.host} sent its answer packed as {_short(packed)}, which nobody asked for.")
        inflate = None if packed in ("identity", "") else zlib.decompressobj(wbits=47)  # gzip or zlib
        body, cut = bytearray(), False
        try:
            async for piece in response.aiter_raw():
                room = self._most + 1 - len(body)
                body += inflate.decompress(piece, room) if inflate else piece[:room]
                if len(body) > self._most:
                    cut = True
                    break
        except (httpx.HTTPError, zlib.error) as error:
            raise OSError(f"the answer of {at.host} broke off: {_why(error)}.") from None
        kind = response.headers.get("content-type", "")
        reason = response.reason_phrase
        return Fetched(str(at), response.status_code, reason, kind, bytes(body[: self._most]), cut)


def _literal(host: str) -> bool:
    return ":" in host or host.replace(".", "").isdigit()


def _not_public(host: str, address: str) -> str:
    known = "" if host == address else f" ({address})"
    return f"{host}{known} is not on the public internet, and is not fetched unless the user allows this host."


def _why(error: Exception | None) -> str:
    text = str(error) or type(error).__name__
    return text.rstrip(".")


def _short(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:200]}…"
