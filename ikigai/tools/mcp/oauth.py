"""Log in to MCP servers by OAuth, and keep their tokens in a private file.

The SDK does the protocol: discovery, registration, PKCE, refresh. A login needs the user: in the browser, or, where
that runs on another machine, by pasting the address to which it was sent. Without one `LoginNeeded` is raised.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
)
from pydantic import AnyUrl

from ikigai.tools.mcp.client_credentials import client_credentials
from ikigai.tools.mcp.host_messages import LoginPage, Report, ServerLaunch
from ikigai.tools.mcp.stored_logins import CALLBACK_PATH, CALLBACK_PORT, StoredLogin, change_login, read_login

LOGIN_SECONDS = 600.0
EARLY_SECONDS = 30.0
"""Seconds before its end at which a token is refreshed."""
_PAGE = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nConnection: close\r\n\r\n"
    b"<!doctype html><title>ikigai</title><p>You can close this page and go back to the terminal.</p>\n"
)


class LoginNeeded(Exception):
    """The server wants a login of the user."""


class LoginFile:
    """The login of one server in the file of all; the SDK's `TokenStorage`."""

    def __init__(self, file: Path, server: str, url: str) -> None:
        self._file, self._server, self._url = file, server, url

    def read(self) -> StoredLogin:
        return read_login(self._file, self._server, self._url)

    def change(self, **values: str | float) -> None:
        change_login(self._file, self._server, self._url, **values)

    async def get_tokens(self) -> OAuthToken | None:
        text = self.read().tokens
        return OAuthToken.model_validate_json(text) if text else None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        expires = time.time() + tokens.expires_in if tokens.expires_in else 0
        self.change(tokens=tokens.model_dump_json(exclude_none=True), expires=expires)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        text = self.read().client
        return OAuthClientInformationFull.model_validate_json(text) if text else None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.change(client=client_info.model_dump_json(exclude_none=True))


class Login:
    """The login to the server of a launch. With `asks` the user can be asked; `report` passes on the page to open."""

    def __init__(self, launch: ServerLaunch, report: Callable[[Report], None], asks: bool) -> None:
        self._launch, self._report, self._asks = launch, report, asks
        self._file = LoginFile(Path(launch.token_file), launch.name, launch.url)
        self._address: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._callback: asyncio.Server | None = None
        self.auth = _LazyAuth(self._make)

    async def _make(self) -> httpx2.Auth:
        """Return the authentication of the server's requests."""
        if self._launch.issuer:
            return await asyncio.to_thread(client_credentials, self._launch, self._file)
        stored = await asyncio.to_thread(self._file.read)
        if not (self._asks or stored.tokens):
            return _Refusing()
        redirect = await self._listen() if self._asks else stored.redirect
        metadata = OAuthClientMetadata(
            redirect_uris=[AnyUrl(redirect)],
            client_name="ikigai",
            scope=self._launch.scopes or None,
        )
        document = self._launch.client_id if self._launch.client_id.startswith("https://") else None
        provider = OAuthClientProvider(
            self._launch.url, metadata, self._file, self._open_page, self._wait_for_page, document
        )
        if self._launch.client_id and not document:
            client = OAuthClientInformationFull(
                client_id=self._launch.client_id,
                client_secret=self._launch.client_secret or None,
                redirect_uris=[AnyUrl(redirect)],
                token_endpoint_auth_method="client_secret_basic" if self._launch.client_secret else "none",
            )
            await self._file.set_client_info(client)
        elif self._asks and redirect != stored.redirect:
            self._file.change(client="", redirect=redirect)  # it was registered for another port
        # The SDK keeps neither over a restart: an expired token would end in a login, and not in a refresh.
        if stored.expires:
            provider.context.token_expiry_time = stored.expires - EARLY_SECONDS
        if stored.metadata:
            provider.context.oauth_metadata = OAuthMetadata.model_validate_json(stored.metadata)
        return _Remembering(provider, self._file)

    async def _listen(self) -> str:
        """Begin to receive the browser; return the address for it."""
        for port in (CALLBACK_PORT, 0):
            with contextlib.suppress(OSError):
                self._callback = await asyncio.start_server(self._receive, "127.0.0.1", port)
                port = self._callback.sockets[0].getsockname()[1]
                return f"http://127.0.0.1:{port}{CALLBACK_PATH}"
        raise LoginNeeded("no port of this machine can be used to receive the browser")

    def close(self) -> None:
        if self._callback:
            self._callback.close()

    async def _receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, ValueError, asyncio.IncompleteReadError, TimeoutError):
            async with asyncio.timeout(10):
                line = await reader.readline()
            target = line.split(b" ")[1].decode() if line.count(b" ") >= 2 else ""
            writer.write(_PAGE)
            await writer.drain()
            if urlsplit(target).path == CALLBACK_PATH:
                self.complete(f"http://127.0.0.1{target}")
        writer.close()

    def complete(self, address: str) -> None:
        """Take the address to which the browser was sent."""
        if not self._address.done() and ("code=" in address or "error=" in address):
            self._address.set_result(address)

    async def _open_page(self, url: str) -> None:
        if not self._asks:
            raise LoginNeeded("it wants a new login")
        self._address = asyncio.get_running_loop().create_future()  # a server can ask for more than one login
        self._report(LoginPage(self._launch.name, url))

    async def _wait_for_page(self) -> AuthorizationCodeResult:
        async with asyncio.timeout(LOGIN_SECONDS):
            address = await self._address
        query = {name: values[0] for name, values in parse_qs(urlsplit(address.strip()).query).items()}
        if "code" not in query:
            why = query.get("error_description") or query.get("error") or "no code"
            raise LoginNeeded(f"the login was refused: {why[:200]}")
        return AuthorizationCodeResult(code=query["code"], state=query.get("state"), iss=query.get("iss"))


class _LazyAuth(httpx2.Auth):
    """Makes the authentication with the first request."""

    requires_response_body = True

    def __init__(self, make: Callable[[], object]) -> None:
        self._make, self._made = make, None

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        if self._made is None:
            self._made = await self._make()  # type: ignore[misc]
        flow = self._made.async_auth_flow(request)
        try:
            outgoing = await anext(flow)
            while True:
                outgoing = await flow.asend((yield outgoing))
        except StopAsyncIteration:
            return
        finally:
            await flow.aclose()


class _Refusing(httpx2.Auth):
    """Raises LoginNeeded where the server wants a login."""

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        response = yield request
        if response.status_code == 401:
            raise LoginNeeded("it wants a login")


class _Remembering(httpx2.Auth):
    """Stores what the SDK has found out about the authorization server: a refresh after a restart needs it."""

    requires_response_body = True

    def __init__(self, provider: OAuthClientProvider, file: LoginFile) -> None:
        self._provider, self._file, self._stored = provider, file, ""

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        flow = self._provider.async_auth_flow(request)
        try:
            outgoing = await anext(flow)
            while True:
                outgoing = await flow.asend((yield outgoing))
        except StopAsyncIteration:
            metadata = self._provider.context.oauth_metadata
            text = metadata.model_dump_json(exclude_none=True) if metadata else ""
            if text and text != self._stored:
                self._stored = text
                self._file.change(metadata=text)
        finally:
            await flow.aclose()
