"""Tests of MCP servers over HTTP: logins by OAuth, tokens that expire, wrong certificates, sessions that end."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from ikigai.tools.mcp.host_messages import MAX_MESSAGE_BYTES, CallTool, LoginPage, ServerLaunch
from ikigai.tools.mcp.servers import McpServer, McpServers
from tests.providers.certificates import signed_itself
from tests.tools.mcp.conftest import host_environment
from tests.tools.mcp.http_server import ScriptedHttpServer, serving

NAME = "tracker"


@asynccontextmanager
async def connected(folder: Path, url: str, login: bool = False, **launch: str) -> AsyncIterator[McpServers]:
    """Connect to the server, in a program of its own; with `login` a browser logs in where it is sent."""
    server = McpServer(ServerLaunch(NAME, url=url, token_file=str(folder / "logins.json"), **launch))
    servers = McpServers({NAME: server}, host_environment(), folder / "known.json")
    visits = set[asyncio.Task[None]]()

    async def visit(page: str) -> None:
        async with httpx.AsyncClient() as browser:
            answer = await browser.get(page)
        servers.complete_login(NAME, answer.headers["location"])

    def on_login(page: LoginPage) -> None:
        visits.add(asyncio.create_task(visit(page.url)))

    servers.on_login = on_login
    servers.start(login=NAME if login else "")
    try:
        await asyncio.wait_for(servers.wait_settled(NAME), 60)
        yield servers
    finally:
        await servers.close()


async def add(servers: McpServers) -> str:
    return (await servers.carry_out(CallTool(servers.next_id(), NAME, "add"))).text


def state(servers: McpServers) -> tuple[str, str]:
    return servers.statuses[NAME].state, servers.statuses[NAME].detail


def grants(server: ScriptedHttpServer) -> list[str]:
    return [asked for path, asked in server.requests if path == "/token"]


async def test_login_is_kept_and_an_expired_token_is_refreshed_before_the_next_run(tmp_path: Path) -> None:
    with serving(seconds=20) as server:  # less than the time before its end at which a token is refreshed
        async with connected(tmp_path, server.url) as servers:
            assert state(servers) == ("login", "it wants a login")
        async with connected(tmp_path, server.url, login=True) as servers:
            assert state(servers) == ("ready", "") and await add(servers) == "added"
        assert grants(server) == ["authorization_code"]
        assert (tmp_path / "logins.json").stat().st_mode & 0o077 == 0
        server.tokens.clear()
        async with connected(tmp_path, server.url) as servers:
            assert state(servers) == ("ready", "") and await add(servers) == "added"
        assert grants(server)[1] == "refresh_token"


async def test_token_that_is_no_longer_accepted_asks_for_a_login(tmp_path: Path) -> None:
    with serving() as server:
        async with connected(tmp_path, server.url, login=True) as servers:
            assert state(servers) == ("ready", "")
        notices = list[str]()
        async with connected(tmp_path, server.url) as servers:
            assert state(servers) == ("ready", "")
            servers.on_notice = notices.append
            server.tokens.clear()
            assert await add(servers) == f"The connection to the MCP server {NAME} ended: it wants a new login."
            async with asyncio.timeout(60):
                while not notices:
                    await asyncio.sleep(0.02)
        assert notices == [f"The MCP server {NAME} wants a login. Run: ikigai mcp login {NAME}"]


async def test_client_secret_logs_in_without_a_user_and_again_when_its_token_has_ended(tmp_path: Path) -> None:
    with serving() as server:
        credentials = {"client_id": "me", "client_secret": "s", "issuer": server.address}
        async with connected(tmp_path, server.url, **credentials) as servers:
            assert state(servers) == ("ready", "")
            server.tokens.clear()
            assert await add(servers) == "added"
        assert grants(server) == ["client_credentials", "client_credentials"]
        credentials["issuer"] = "https://elsewhere.example"
        async with connected(tmp_path / "other", server.url, **credentials) as servers:
            assert state(servers)[0] == "failed" and "issuer" in state(servers)[1]
        assert len(grants(server)) == 2, "another server does not get the secret"


@pytest.mark.parametrize(
    "make", [lambda: ec.generate_private_key(ec.SECP256R1()), lambda: rsa.generate_private_key(65537, 2048)]
)
async def test_private_key_logs_in_without_a_user(
    tmp_path: Path, make: Callable[[], ec.EllipticCurvePrivateKey]
) -> None:
    key = tmp_path / "key.pem"
    key.write_bytes(make().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    with serving() as server:
        credentials = {"client_id": "me", "issuer": server.address}
        async with connected(tmp_path, server.url, client_key=str(key), **credentials) as servers:
            assert state(servers) == ("ready", "") and await add(servers) == "added"


async def test_key_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    key = tmp_path / "key.pem"
    with serving() as server:
        credentials = {"client_id": "me", "issuer": server.address}
        for bad, why in (("no key", "is no private key in PEM without a passphrase"), ("", "no such file")):
            key.write_text(bad) if bad else key.unlink()
            async with connected(tmp_path / "other", server.url, client_key=str(key), **credentials) as servers:
                assert state(servers)[0] == "failed" and f"{key} {why}" in state(servers)[1].replace(
                    "cannot be read: No", "no"
                )


@pytest.mark.parametrize(
    ("client", "known_as"),
    [("", "registered"), ("mine", "mine"), ("https://me.example/client", "https://me.example/client")],
)
async def test_login_is_that_of_the_configured_client(tmp_path: Path, client: str, known_as: str) -> None:
    with serving() as server:
        async with connected(tmp_path, server.url, login=True, client_id=client) as servers:
            assert state(servers) == ("ready", "")
        assert [asked for path, asked in server.requests if path == "/authorize"] == [known_as]
        if not client:
            async with connected(tmp_path, f"{server.url}?other", client_id=client) as servers:
                assert state(servers)[0] == "login", "a login holds for one address"


async def test_server_that_is_started_again_is_connected_to_again(tmp_path: Path) -> None:
    with serving() as server:
        server.tokens.add("")
        async with connected(tmp_path, server.url) as servers:
            assert await add(servers) == "added"
            server.sessions.clear()
            assert await add(servers) == f"The connection to the MCP server {NAME} ended: it has ended the session."
            assert (await servers.wait_ready(NAME)).state == "ready" and await add(servers) == "added"


async def test_answer_is_bounded_and_never_compressed(tmp_path: Path) -> None:
    with serving() as server:
        server.tokens.add("")
        server.text = "x" * (MAX_MESSAGE_BYTES + 1)
        async with connected(tmp_path, server.url) as servers:
            assert "its answer is longer than 32 MiB" in await add(servers)
        assert server.encodings == {"identity"}


async def test_server_with_a_wrong_certificate_fails_with_the_reason(tmp_path: Path) -> None:
    _, tls = signed_itself(tmp_path)
    with serving(tls=tls) as server:
        async with connected(tmp_path, server.url) as servers:
            failed, detail = state(servers)
            assert failed == "failed" and "certificate" in detail.lower()
            assert not server.requests, "nothing was sent to it"
