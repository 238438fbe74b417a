"""Fetch a page by HTTP from public addresses only, with limits on redirects, bytes and seconds.

The name of a host is resolved once for each request. Its addresses are checked, and the connection goes to one of them.
A connection by name would resolve it again, which could yield another address by then. The Host header and the TLS
server name keep the name of the host. Each redirect is a new request of this kind.
"""

from __future__ import annotations

import asyncio
import re
import ssl
import zlib
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from ikigai import __version__
from ikigai.tools.web.addresses import describe_private, is_public, resolve_host

if TYPE_CHECKING:
    import httpx

Resolve: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""Function from a host and a port to the addresses of the host."""

TIMEOUT_SECONDS, MAX_BYTES, MAX_REDIRECTS = 30.0, 5_000_000, 5
"""Limits of one page with all its redirects: seconds, bytes of the unpacked body, redirects."""
_CONNECT_SECONDS = 10.0
_REDIRECTED = (301, 302, 303, 307, 308)
_HOST = re.compile(r"[\w.-]{1,254}|[0-9a-fA-F:.]{2,45}", re.ASCII)
"""A name that DNS accepts, or an address."""
_HEADERS = {
    "User-Agent": f"ikigai/{__version__}",
    "Accept": "text/markdown, text/html, application/xhtml+xml;q=0.9, text/*;q=0.8, application/json;q=0.8, */*;q=0.1",
    "Accept-Encoding": "gzip",
}


class NotPublic(OSError):
    """The address is not public, or there are too many redirects or an invalid one."""


class FetchedPage(NamedTuple):
    """Response to a request. `url` is its address after all redirects; `cut` is True if the body was longer."""

    url: str
    status: int
    reason: str
    type: str
    body: bytes
    cut: bool


class Fetcher:
    """HTTP client for pages.

    `private` are hosts, as URLs name them, that may have an address that is not public; "*" stands for all hosts.
    """

    def __init__(
        self,
        private: Collection[str] = (),
        resolve: Resolve = resolve_host,
        *,
        seconds: float = TIMEOUT_SECONDS,
        max_bytes: int = MAX_BYTES,
        redirects: int = MAX_REDIRECTS,
        certificates: ssl.SSLContext | None = None,
    ) -> None:
        self._private, self._resolve = frozenset(each.lower() for each in private), resolve
        self._seconds, self._max_bytes, self._redirects = seconds, max_bytes, redirects
        self._certificates = certificates

    def check_url(self, url: str, agreed: str = "") -> httpx.URL:
        """Return the URL as it would be requested. Raise ValueError or NotPublic, in words, if it is not allowed.

        No name server is asked. `agreed` is the origin off the public internet that the user has agreed to.
        """
        parsed = self._parse_url(url)
        host = parsed.raw_host.decode("ascii")
        if _literal(host) and not is_public(host) and not self._may_be_private(parsed, agreed, host):
            raise NotPublic(_not_public(host, host))
        return parsed

    def private_origin(self, url: str) -> str:
        """Return scheme, host and port of a URL that names this machine or an address of its network, and is fetched
        only if the user agrees; "" for any other. Raise ValueError for an invalid URL. No name server is asked.
        """
        parsed = self._parse_url(url)
        host = parsed.raw_host.decode("ascii")
        return "" if self._may_be_private(parsed, "", host) or not describe_private(host) else _origin(parsed)

    def _parse_url(self, url: str) -> httpx.URL:
        import httpx

        try:
            parsed = httpx.URL(url)
        except (httpx.InvalidURL, UnicodeError, TypeError) as error:
            raise ValueError(f"{_short(url)} is not a URL: {error}.") from None
        if parsed.scheme not in ("http", "https") or not parsed.raw_host:
            raise ValueError(f"{_short(url)} does not begin with http:// or https://.")
        if parsed.userinfo:
            raise ValueError("a URL with a user name or a password is not fetched.")
        if parsed.port is not None and not 0 < parsed.port < 65536:
            raise ValueError(f"{_short(url)} has an invalid port.")
        host = parsed.raw_host.decode("ascii")
        if not _HOST.fullmatch(host):
            raise ValueError(f"{_short(url)} has an invalid host.")
        return parsed.copy_with(fragment=None)

    async def get(self, url: str, agreed: str = "") -> FetchedPage:
        """Fetch a page. Raise ValueError or OSError (NotPublic, TimeoutError), all in words.

        `agreed` is the origin off the public internet that the user has agreed to, as `private_origin` returns it.
        """
        import httpx

        target = self.check_url(url, agreed)
        certificates = self._certificates or await asyncio.to_thread(httpx.create_ssl_context)
        try:
            async with (
                asyncio.timeout(self._seconds),
                httpx.AsyncClient(
                    verify=certificates,
                    trust_env=False,  # a proxy would resolve the name again
                    follow_redirects=False,
                    timeout=httpx.Timeout(None, connect=_CONNECT_SECONDS),
                    headers=_HEADERS,
                ) as client,
            ):
                return await self._follow(client, target, agreed)
        except TimeoutError:
            raise TimeoutError(f"{target.host} did not answer completely within {self._seconds:g} s.") from None

    async def _follow(self, client: httpx.AsyncClient, url: httpx.URL, agreed: str) -> FetchedPage:
        import httpx

        was_private = False
        for number in range(self._redirects + 1):
            addresses = await self._addresses(url, agreed)
            private = not all(map(is_public, addresses))
            if private and number and not was_private:
                raise NotPublic(
                    f"a redirect from the internet leads to {url.host}, which is not public; it was not followed."
                )
            was_private = private
            response = await self._request(client, url, addresses)
            try:
                to = response.headers.get("location")
                if response.status_code not in _REDIRECTED or not to:
                    return await self._read(response, url)
            finally:
                await response.aclose()
            client.cookies.clear()
            try:
                url = self.check_url(str(url.join(to)), agreed)
            except (httpx.InvalidURL, ValueError) as error:
                raise NotPublic(f"a redirect cannot be followed: {error}") from None
        raise NotPublic(f"more than {self._redirects} redirects, the last one to {_short(str(url))}.")

    async def _addresses(self, url: httpx.URL, agreed: str) -> Sequence[str]:
        host = url.raw_host.decode("ascii")
        try:
            addresses = await self._resolve(host, url.port or (443 if url.scheme == "https" else 80))
        except (OSError, UnicodeError) as error:
            raise OSError(f"{url.host} cannot be found: {getattr(error, 'strerror', '') or error}.") from None
        if not addresses:
            raise OSError(f"{url.host} cannot be found.")
        for address in addresses:
            if not is_public(address) and not self._may_be_private(url, agreed, address):
                raise NotPublic(_not_public(url.host, address))
        return addresses

    def _may_be_private(self, url: httpx.URL, agreed: str, address: str) -> bool:
        """Return True if the configuration allows the host, or the user has agreed to it and it is what it says."""
        host = url.raw_host.decode("ascii")
        if _origin(url) == agreed and describe_private(address) == describe_private(host):
            return True
        return not self._private.isdisjoint(("*", host.lower().rstrip(".")))

    async def _request(self, client: httpx.AsyncClient, url: httpx.URL, addresses: Sequence[str]) -> httpx.Response:
        """Return the response of the first address that accepts a connection, its body not yet read."""
        import httpx

        host = url.raw_host.decode("ascii")
        failure: Exception | None = None
        for address in addresses:
            request = client.build_request(
                "GET",
                url.copy_with(host=address),
                headers={"Host": url.netloc.decode("ascii")},
                extensions={"sni_hostname": host},
            )
            try:
                return await client.send(request, stream=True)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                failure = error
            except httpx.HTTPError as error:
                raise OSError(f"{url.host} did not answer: {_why(error)}.") from None
        raise OSError(f"{url.host} cannot be reached: {_why(failure)}.")

    async def _read(self, response: httpx.Response, url: httpx.URL) -> FetchedPage:
        """Read and unpack the body up to the limit: a few kilobytes can unpack to gigabytes."""
        import httpx

        packed = response.headers.get("content-encoding", "identity").strip().lower()
        if packed not in ("identity", "", "gzip", "x-gzip", "deflate"):
            raise OSError(f"{url.host} sent an answer in the encoding {_short(packed)}, which is not supported.")
        inflate = None if packed in ("identity", "") else zlib.decompressobj(wbits=47)  # gzip or zlib
        body, cut = bytearray(), False
        try:
            async for piece in response.aiter_raw():
                room = self._max_bytes + 1 - len(body)
                body += inflate.decompress(piece, room) if inflate else piece[:room]
                if len(body) > self._max_bytes:
                    cut = True
                    break
        except (httpx.HTTPError, zlib.error) as error:
            raise OSError(f"the answer of {url.host} was cut off: {_why(error)}.") from None
        kind = response.headers.get("content-type", "")
        reason = response.reason_phrase
        return FetchedPage(str(url), response.status_code, reason, kind, bytes(body[: self._max_bytes]), cut)


def _literal(host: str) -> bool:
    return ":" in host or host.replace(".", "").isdigit()


def _origin(url: httpx.URL) -> str:
    return f"{url.scheme}://{url.netloc.decode('ascii')}"


def _not_public(host: str, address: str) -> str:
    resolved = "" if host == address else f" ({address})"
    key = f'[tools] private_hosts = ["{host}"]'
    return f"{host}{resolved} is not on the public internet. The user can allow it: {key}."


def _why(error: Exception | None) -> str:
    text = str(error) or type(error).__name__
    return text.rstrip(".")


def _short(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:200]}…"
