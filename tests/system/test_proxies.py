"""Tests of the proxy on the way to a server, as the environment names it."""

import asyncio
import importlib.util

import httpx
import httpx2
import pytest

from ikigai.core.errors import ConfigError
from ikigai.system import proxies
from ikigai.system.proxies import client_options, find_proxy

VARIABLES = [f"{scheme}_proxy" for scheme in ("http", "https", "all", "no")]


@pytest.fixture(autouse=True)
def no_proxy_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


UNUSABLE = {
    "ftp://proxy.x:21": "ftp:// is not a scheme of proxies for web servers",
    "socks4://proxy.x:1080": "socks4:// is not a scheme",
    "socks://proxy.x:1080": "socks:// is not a scheme",
    "gopher://me:hush@proxy.x": "gopher:// is not a scheme",
    "http://me:hush@proxy.x:no": "its address is not a URL",
    "http://[::1": "its address is not a URL",
    "http://": "its address has no host",
    "http://me:hush@999.1.1.1:1": "its address is not a URL",
    "http://[v1.x]:1": "its address is not a URL",
    "http://me:hush@pro\u200bxy:1": "its address is not a URL",
    "http://me:hush@pro xy:1": "its address is not a URL",
    "http://pro\nxy:1": "its address is not a URL",
}


@pytest.mark.parametrize("name", ["ALL_PROXY", "all_proxy", "HTTPS_PROXY", "https_proxy"])
@pytest.mark.parametrize("proxy", UNUSABLE)
def test_unusable_proxy_is_named_with_the_way_out(monkeypatch: pytest.MonkeyPatch, name: str, proxy: str) -> None:
    monkeypatch.setenv(name, proxy)
    with pytest.raises(ConfigError) as error:
        client_options("https://api.x/v1")
    assert error.value.what.startswith(f"The proxy in {name} cannot be used: {UNUSABLE[proxy]}")
    assert error.value.remedy == f"Correct or unset {name}, or set NO_PROXY=api.x to reach api.x without a proxy."
    assert "hush" not in str(error.value)
    for host in ("localhost", "127.0.0.1", "127.1.2.3", "[::1]", "0.0.0.0"):
        assert client_options(f"https://{host}:1/v1")["proxy"] is None


def test_socks_proxy_without_its_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5h://proxy.x:1080")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError) as error:
        client_options("https://api.x")
    assert "ALL_PROXY cannot be used: a SOCKS proxy needs the package socksio" in error.value.what
    assert "ikigai-chat[socks]" in error.value.remedy and "NO_PROXY=api.x" in error.value.remedy


@pytest.mark.parametrize(
    ("environment", "address", "proxy"),
    [
        ({}, "https://api.x", ""),
        ({"https_proxy": "proxy.x:3128"}, "https://api.x", "http://proxy.x:3128"),
        ({"ALL_PROXY": "http://a:1", "HTTPS_PROXY": "http://b:1"}, "https://api.x", "http://b:1"),
        ({"ALL_PROXY": "http://a:1"}, "http://api.x", "http://a:1"),
        ({"ALL_PROXY": " http://a:1\n"}, "http://api.x", "http://a:1"),
        ({"ALL_PROXY": "http://a:1"}, "http://127.evil.x", "http://a:1"),
        ({"HTTP_PROXY": "ftp://a:1", "HTTPS_PROXY": "http://b:1"}, "https://api.x", "http://b:1"),
        ({"ALL_PROXY": "ftp://a:1", "NO_PROXY": "api.x"}, "https://api.x", ""),
        ({"ALL_PROXY": "ftp://a:1", "NO_PROXY": ".x"}, "https://api.x", ""),
        ({"ALL_PROXY": "ftp://a:1", "no_proxy": "y, *.x"}, "https://api.x", ""),
        ({"ALL_PROXY": "ftp://a:1", "NO_PROXY": "*"}, "https://api.x", ""),
        ({"ALL_PROXY": "ftp://a:1", "NO_PROXY": "y,10.0.0.0/8"}, "https://10.1.2.3", ""),
        ({"ALL_PROXY": "ftp://a:1", "NO_PROXY": "fd00::/8"}, "https://[fd00::1]:8", ""),
        ({"ALL_PROXY": "http://a:1", "NO_PROXY": "10.0.0.0/8,no/where"}, "https://11.1.2.3", "http://a:1"),
    ],
)
def test_proxy_is_that_of_the_address(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], address: str, proxy: str
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert find_proxy(address).url == proxy
    assert client_options(address) == {"trust_env": False, "proxy": proxy or None}


@pytest.mark.parametrize("client", [httpx.AsyncClient, httpx2.AsyncClient])
@pytest.mark.parametrize("scheme", proxies.SOCKS_SCHEMES)
async def test_socks_proxy_is_used(
    monkeypatch: pytest.MonkeyPatch,
    client: type[httpx.AsyncClient] | type[httpx2.AsyncClient],
    scheme: str,
) -> None:
    pytest.importorskip("socksio")
    asked = list[bytes]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer as a SOCKS5 proxy that takes every client, and as the server behind it."""
        await reader.readexactly((await reader.readexactly(2))[1])
        writer.write(b"\x05\x00")
        head = await reader.readexactly(5)
        asked.append(await reader.readexactly(head[4]))
        await reader.readexactly(2)
        writer.write(b"\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00")
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nHi")
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    monkeypatch.setenv("ALL_PROXY", f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    async with client(**client_options("http://models.invalid")) as made:
        answer = await made.get("http://models.invalid/v1/models")
    assert answer.text == "Hi" and asked == [b"models.invalid"]
    server.close()
