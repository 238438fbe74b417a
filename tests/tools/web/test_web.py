"""web_fetch and web_search against real servers on this machine: what is fetched, and above all what is not."""

import asyncio
import datetime
import gzip
import io
import ipaddress
import json
import socket
import ssl
import time
import zlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image as Pillow

from ikigai import images
from ikigai.tools.base import ToolOutput
from ikigai.tools.web.addresses import describe_private, is_public
from ikigai.tools.web.factory import web_tools
from ikigai.tools.web.fetch import WebFetch
from ikigai.tools.web.http import FetchedPage, Fetcher, NotPublic
from ikigai.tools.web.page_text import decode_page
from ikigai.tools.web.search import WebSearch
from tests.support.starting import children
from tests.support.wire_server import Answer, WireServer
from tests.tools.files.hands import preview, run

HTML = {"Content-Type": "text/html; charset=utf-8"}


def page(body: str | bytes, kind: str = "text/html", **more: Any) -> Answer:
    data = body.encode() if isinstance(body, str) else body
    return Answer(data, headers={"Content-Type": kind, **more.pop("headers", {})}, **more)


def redirect(to: str, status: int = 302) -> Answer:
    return Answer(b"", status, {"Location": to})


async def fetched(*answers: Answer, path: str = "/", **limits: Any) -> ToolOutput:
    """Return the output for a page of this machine, which the user allows."""
    async with WireServer(answers) as server:
        tool = WebFetch(Path.cwd(), Fetcher(["127.0.0.1"], **limits), images.read_picture)
        return await run(tool, url=f"http://127.0.0.1:{server.port}{path}")


# -- addresses ------------------------------------------------------------------------------------------------------

NOT_PUBLIC = (
    *("127.0.0.1", "127.1.2.3", "0.0.0.0", "0.1.2.3", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1"),
    *("169.254.169.254", "100.64.0.1", "100.127.255.255", "192.0.0.8", "192.0.2.1", "198.18.0.1", "198.51.100.1"),
    *("203.0.113.1", "224.0.0.1", "239.255.255.250", "240.0.0.1", "255.255.255.255", "::1", "::", "fe80::1"),
    *("fe80::1%eth0", "fc00::1", "fd12:3456::1", "fec0::1", "ff02::1", "2001:db8::1", "::ffff:127.0.0.1"),
    *("::ffff:10.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe"),
    *("64:ff9b:1::1", "2002:7f00:1::1", "2002:5db8:d822::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "100::1"),
    *("localhost", "2130706433", ""),
)
PUBLIC = (
    *("93.184.216.34", "1.1.1.1", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "::ffff:93.184.216.34"),
    "64:ff9b::5db8:d822",
)


@pytest.mark.parametrize("address", NOT_PUBLIC)
def test_private_address_is_not_public(address: str):
    assert not is_public(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_internet_address_is_public(address: str):
    assert is_public(address)


@given(st.ip_addresses(v=4))
def test_address_means_the_same_when_it_is_wrapped(address: ipaddress.IPv4Address):
    assert is_public(f"::ffff:{address}") == is_public(str(address))
    assert not is_public(str(address)) or address.is_global


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "localhost", "localhost.", "LOCALHOST", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "0"),
        *("[::1]", "[::ffff:127.0.0.1]", "[::]", "127。0。0。1", "[::ffff:7f00:1]"),
    ],
)
async def test_this_machine_is_not_fetched_by_any_of_its_names(host: str):
    async with WireServer([page("<p>inside</p>")]) as server:
        with pytest.raises((OSError, ValueError), match=r"not on the public internet|cannot be found|is not a URL"):
            await Fetcher().get(f"http://{host}:{server.port}/")
        assert not server.requests and not server.got_one.is_set()


@pytest.mark.parametrize(
    "url",
    [
        *("file:///etc/passwd", "ftp://example.com/", "gopher://x/", "javascript:alert(1)", "data:text/html,x"),
        *("//example.com/", "example.com", "http://", "http:///x", "https://user:pass@example.com/", "http://h:99999/"),
        *(
            "http://ex\0ample.com/",
            "http://h:0/",
            "http://[::1/",
            "x" * 3_000,
            "http://" + "a" * 3_000,
            "\u202ehttp://x/",
        ),
    ],
)
async def test_invalid_url_is_refused(url: str):
    tool = WebFetch(Path.cwd(), Fetcher())
    for do in (preview, run):
        with pytest.raises(ValueError) as caught:
            await do(tool, url=url)
        assert type(caught.value) is ValueError and len(str(caught.value)) < 400


async def test_preview_makes_no_request():
    asked = list[str]()

    async def resolve(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return ["127.0.0.1"]

    tool = WebFetch(Path("/work"), Fetcher(resolve=resolve))
    effect = await preview(tool, url="HTTP://Bücher.example:80/a b?c=ü#part")
    assert (effect.kind, effect.shown) == ("network", "http://xn--bcher-kva.example/a%20b?c=%C3%BC")
    assert (effect.directory, effect.paths, effect.inside, asked) == ("/work", (), False, [])
    private = await preview(tool, url="http://10.0.0.1/")
    assert (private.origin, private.setting) == ("http://10.0.0.1", '[tools] private_hosts = ["10.0.0.1"]')
    with pytest.raises(NotPublic, match=r"^2130706433 is not on the public internet\. The user can allow it: \["):
        await preview(tool, url="http://2130706433/")
    with pytest.raises(NotPublic, match=r"bücher\.example \(127\.0\.0\.1\) is not on the public internet"):
        await run(tool, url="http://bücher.example/")
    assert asked == ["xn--bcher-kva.example"]


@pytest.mark.parametrize(
    ("host", "whose"),
    [
        *((host, "your own machine") for host in ("127.0.0.1", "localhost", "LOCALHOST.", "a.localhost", "[::1]")),
        *((host, "your own machine") for host in ("0.0.0.0", "127.8.9.1", "[::ffff:127.0.0.1]", "127。0。0。1")),
        *((host, "a private address") for host in ("10.0.0.1", "192.168.1.5", "172.16.0.1", "[fd00::1]")),
        *((host, "a link-local address, where clouds give out keys") for host in ("169.254.169.254", "[fe80::1]")),
        *((host, "") for host in ("93.184.216.34", "example.com", "localhost.example.com", "notlocalhost")),
    ],
)
async def test_preview_knows_what_is_no_public_address_by_its_name(host: str, whose: str):
    async def resolve(host: str, port: int) -> Sequence[str]:
        raise AssertionError("a name server was asked")

    effect = await preview(WebFetch(Path("/work"), Fetcher(resolve=resolve)), url=f"http://{host}:81/x?y#z")
    assert bool(effect.origin) is bool(whose) and effect.shown.startswith(effect.origin)
    assert not whose or describe_private(urlsplit(effect.origin).hostname or "") == whose
    configured = await preview(WebFetch(Path("/work"), Fetcher(["*"], resolve)), url=f"http://{host}:81/")
    assert (configured.origin, configured.setting) == ("", "")


async def test_yes_to_an_address_holds_for_no_other():
    async with WireServer() as server, WireServer([page("inside")]) as other:

        async def resolve(host: str, port: int) -> Sequence[str]:
            return {"localhost": ["10.0.0.7"], "public.test": ["127.0.0.1"]}.get(host, [host])

        origin = f"http://127.0.0.1:{server.port}"
        fetcher = Fetcher(resolve=resolve)
        server.script.extend([page("one", "text/plain"), redirect("/two"), page("two", "text/plain")])
        assert [(await fetcher.get(f"{origin}/", origin)).body for _ in range(2)] == [b"one", b"two"]
        asked = len(server.requests)
        for url in (
            *(
                f"http://127.0.0.1:{other.port}/",
                f"https://127.0.0.1:{server.port}/",
                f"http://127.0.0.2:{server.port}/",
            ),
            *(f"http://public.test:{server.port}/", f"http://localhost:{server.port}/"),
        ):
            with pytest.raises(NotPublic, match="not on the public internet"):
                await fetcher.get(url, origin)
        with pytest.raises(NotPublic, match=r"localhost \(10\.0\.0\.7\)"):  # its name says another thing
            await fetcher.get(f"http://localhost:{server.port}/", f"http://localhost:{server.port}")
        for to in (f"http://127.0.0.1:{other.port}/", "http://169.254.169.254/", f"http://[::1]:{server.port}/"):
            server.script.append(redirect(to))
            with pytest.raises(NotPublic, match="not on the public internet"):
                await fetcher.get(f"{origin}/", origin)
        assert len(server.requests) == asked + 3 and not other.requests


async def test_redirect_from_the_internet_does_not_come_in_after_a_yes(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ikigai.tools.web.http.is_public", lambda address: address == "127.0.0.1")
    async with WireServer() as outside, WireServer([page("inside")]) as inside:
        origin = f"http://127.0.0.2:{inside.port}"
        outside.script.append(redirect(f"{origin}/"))
        with pytest.raises(NotPublic, match=r"a redirect from the internet leads to 127\.0\.0\.2"):
            await Fetcher().get(f"http://127.0.0.1:{outside.port}/", origin)
        assert not inside.requests


async def test_address_that_was_checked_is_the_one_that_is_connected_to():
    """A name that means something else each time it is asked for: it is asked for once, and that address is used."""
    async with WireServer([page("one", "text/plain"), page("two", "text/plain")]) as server:
        answers = iter([["127.0.0.1"], ["10.0.0.1"], ["93.184.216.34", "127.0.0.1"]])

        async def resolve(host: str, port: int) -> Sequence[str]:
            assert (host, port) == ("rebind.test", server.port)
            return next(answers)

        url = f"http://rebind.test:{server.port}/x"
        got = await Fetcher(["rebind.test"], resolve).get(url)
        assert (got.body, got.url) == (b"one", url)
        assert server.requests[0].headers["host"] == f"rebind.test:{server.port}"
        for address in (r"10\.0\.0\.1", r"127\.0\.0\.1"):
            with pytest.raises(NotPublic, match=address):
                await Fetcher(resolve=resolve).get(url)
        assert len(server.requests) == 1


async def test_of_several_addresses_the_next_is_tried():
    async with WireServer([page("here", "text/plain")]) as server:

        async def resolve(host: str, port: int) -> Sequence[str]:
            return ["127.0.0.77", "127.0.0.1"]  # nobody listens on the first

        assert (await Fetcher(["a.test"], resolve).get(f"http://a.test:{server.port}/")).body == b"here"


# -- redirects ------------------------------------------------------------------------------------------------------


async def test_redirects_are_followed_and_told():
    output = await fetched(redirect("/b?x=1", 301), redirect("c#part", 307), page("<p>there</p>"), path="/a/")
    head, body = output.text.split("\n")
    assert head.startswith("[200 X, http://127.0.0.1:") and head.endswith("/c, text/html]") and body == "there"


@pytest.mark.parametrize(
    ("to", "words"),
    [
        ("http://169.254.169.254/latest/meta-data/", "169.254.169.254 is not on the public internet"),
        ("http://[::1]/", "::1 is not on the public internet"),
        ("//localhost/x", "localhost .* is not on the public internet"),
        ("http://2130706433/", "2130706433 is not on the public internet"),
        ("file:///etc/passwd", "a redirect cannot be followed: .* begin with"),
        ("gopher://x/", "cannot be followed"),
        ("http://user:secret@127.0.0.1/", "cannot be followed: a URL with a user name"),
        ("http://h:99999/", "cannot be followed"),
        ("http://[", "cannot be followed"),
    ],
)
async def test_redirects_are_checked_like_the_first_request(to: str, words: str):
    with pytest.raises(OSError, match=words):
        await fetched(redirect(to))


async def test_redirect_from_the_internet_does_not_come_in(monkeypatch: pytest.MonkeyPatch):
    """Also where the user allowed the host it leads to: nobody was shown that."""
    monkeypatch.setattr(
        "ikigai.tools.web.http.is_public", lambda address: address == "127.0.0.1"
    )  # stands for one outside
    async with WireServer() as outside, WireServer([page("inside")]) as inside:
        outside.script.append(redirect(f"http://127.0.0.2:{inside.port}/"))
        with pytest.raises(NotPublic, match=r"a redirect from the internet leads to 127\.0\.0\.2"):
            await Fetcher(["127.0.0.2"]).get(f"http://127.0.0.1:{outside.port}/")
        assert not inside.requests


async def test_redirects_end():
    with pytest.raises(OSError, match="more than 5 redirects"):
        await fetched(*[redirect("/again")] * 10)
    assert "there" in (await fetched(*[redirect("/again")] * 5, page("there"))).text
    assert "no place" in (await fetched(Answer(b"no place", 302, {"Content-Type": "text/plain"}))).text


async def test_no_cookie_goes_along():
    async with WireServer([Answer(b"", 302, {"Location": "/b", "Set-Cookie": "a=b"}), page("x")]) as server:
        await Fetcher(["127.0.0.1"]).get(f"http://127.0.0.1:{server.port}/")
        assert "cookie" not in server.requests[1].headers and "authorization" not in server.requests[1].headers


# -- limits ---------------------------------------------------------------------------------------------------------


async def test_page_that_is_too_large_is_cut():
    output = await fetched(page("x" * 300_000, "text/plain"), max_bytes=100_000)
    _, body, end = output.text.split("\n")
    assert body == "x" * 100_000 and end == "[the page is longer: only its first 100,000 bytes were read]"
    exact = await fetched(page("x" * 100_000, "text/plain"), max_bytes=100_000)
    assert exact.text.endswith("x" * 100)


async def test_bomb_is_not_unpacked():
    bomb = zlib.compressobj(9, wbits=31)
    first, block = (bomb.compress(bytes(1 << 20)) + bomb.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
    packed = first + block * 499 + bomb.flush()  # after a full flush each block is packed as the one before
    assert len(packed) < 600_000
    began = time.monotonic()
    with pytest.raises(ValueError, match="is not text"):
        await fetched(page(packed, "text/plain", headers={"Content-Encoding": "gzip"}))
    assert time.monotonic() - began < 25
    plain = await fetched(page(gzip.compress(b"hello"), "text/plain", headers={"Content-Encoding": "gzip"}))
    assert plain.text.endswith("\nhello")
    for packing, data in (("br", b"x"), ("gzip", b"no gzip"), ("gzip, gzip", b"x")):
        with pytest.raises(OSError, match=r"which is not supported|was cut off"):
            await fetched(page(data, "text/plain", headers={"Content-Encoding": packing}))


async def test_server_that_is_slow_or_silent():
    for answer in (page("x\n\n" * 100, "text/plain", pause=0.2), page("x", "text/plain", end="hang")):
        began = time.monotonic()
        with pytest.raises(TimeoutError, match=r"127\.0\.0\.1 did not answer completely within 1 s"):
            await fetched(answer, seconds=1.0)
        assert time.monotonic() - began < 25


async def test_server_that_breaks_off_or_is_not_there():
    with pytest.raises(OSError, match=r"the answer of 127\.0\.0\.1 was cut off"):
        await fetched(page("x" * 1_000, "text/plain", cut=10, end="reset"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/"
        with pytest.raises(OSError, match=r"127\.0\.0\.1 cannot be reached"):
            await Fetcher(["*"]).get(url)
    with pytest.raises(OSError, match=r"no-such-host\.invalid cannot be found"):
        await Fetcher().get("http://no-such-host.invalid/")


async def test_fetch_that_is_cancelled_hangs_up():
    async with WireServer([page("x", end="hang")]) as server:
        fetching = asyncio.create_task(Fetcher(["127.0.0.1"]).get(f"http://127.0.0.1:{server.port}/"))
        await asyncio.wait_for(server.got_one.wait(), 60)
        fetching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await fetching
        await asyncio.wait_for(server.hung_up.wait(), 60)


async def test_error_page_is_an_error_that_can_be_read():
    output = await fetched(page("<h1>Not here</h1>", status=404))
    assert output.failed and output.text.startswith("[404 X, http") and "# Not here" in output.text
    empty = await fetched(Answer(b"", 204, {}))
    assert empty.text.endswith("\n[the page is empty]") and not empty.failed


# -- TLS ------------------------------------------------------------------------------------------------------------


def certificate(folder: Path, name: str) -> Path:
    """A self-signed certificate for this name, and its key, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "pem").write_bytes(made.public_bytes(serialization.Encoding.PEM) + private)
    return folder / "pem"


@asynccontextmanager
async def secured(pem: Path) -> AsyncIterator[tuple[int, list[str], list[bytes]]]:
    """An HTTPS server: its port, the server names that clients gave, and what they asked."""
    names, asked = list[str](), list[bytes]()
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pem)
    context.sni_callback = lambda _, name, __: names.append(name)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 6\r\n\r\nsecure")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    async with server:
        yield server.sockets[0].getsockname()[1], names, asked


async def test_certificate_must_be_that_of_the_name(tmp_path: Path):
    pem = certificate(tmp_path, "site.test")
    trusted = ssl.create_default_context(cafile=str(pem))

    async def resolve(host: str, port: int) -> Sequence[str]:
        return ["127.0.0.1"]

    async with secured(pem) as (port, names, asked):
        fetcher = Fetcher(["*"], resolve, certificates=trusted)
        assert (await fetcher.get(f"https://site.test:{port}/x")).body == b"secure"
        assert names == ["site.test"] and f"host: site.test:{port}\r\n".encode() in asked[0].lower()
        for url, certificates in ((f"https://other.test:{port}/", trusted), (f"https://site.test:{port}/", None)):
            with pytest.raises(OSError, match=r"cannot be reached: .*(?i:certificate)"):
                await Fetcher(["*"], resolve, certificates=certificates).get(url)
        assert len(asked) == 1


# -- what a page says -----------------------------------------------------------------------------------------------

ARTICLE = """<!DOCTYPE html><html><head><title> An
 article </title><style>p {color: red}</style><script>alert("script")</script></head><body>
<nav><a href="/home">Home</a></nav><h1>Heading</h1><p>Words with <b>bold</b>, a <a href="../other?a=b#c">link</a>,
<a href="javascript:alert(1)">no link</a> and snake_case * star.</p><ul><li>one</li><li>two</li></ul>
<pre><code>x = 1
  y = 2</code></pre><table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>
<img src="pic.png" alt="A picture"><img src="data:image/png;base64,AAAA" alt="inline"><noscript>none</noscript>
<form><p>in a form</p></form></body></html>"""


async def test_html_becomes_markdown():
    text = (await fetched(page(ARTICLE), path="/blog/post")).text
    for words in (
        "Title: An article\n",
        "\n# Heading\n",
        "**bold**",
        "/other?a=b#c)",
        "[Home](http://127.0.0.1:",
        "no link and snake",
        "- one\n- two",
        "x = 1\n  y = 2",
        "| a | b |",
        "![A picture](http://127.0.0.1:",
        "inline",
        "in a form",
    ):
        assert words in text, words
    for words in ("script", "javascript", "color: red", "base64", "<p>", "noscript"):
        assert words not in text, words


@pytest.mark.long
async def test_pages_that_cannot_be_made_into_markdown_quickly():
    began = time.monotonic()
    deep = (await fetched(page("<div>" * 30_000 + "deep" + "</div>" * 30_000))).text
    assert "deep" in deep
    assert time.monotonic() - began < 25
    wide = (await fetched(page("<p>a <b>b</b></p>" * 20_000))).text
    assert "a **b**" in wide and "could not" not in wide


async def test_page_that_takes_too_long_is_given_as_it_is(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("ikigai.tools.web.page_text.CONVERSION_TIMEOUT", 0.5)
    html = "<p>a <b>b</b></p>" * 60_000
    _, note, body = (await fetched(page(html))).text.split("\n")
    assert (note, body) == ("[the page could not be converted to Markdown; this is its HTML]", html)
    assert not children()


@pytest.mark.long
async def test_loop_goes_on_while_a_page_is_made_into_markdown():
    longest, last = 0.0, time.monotonic()
    fetching = asyncio.create_task(fetched(page("<p>a <b>b</b> <i>c</i></p>" * 20_000)))
    while not fetching.done():
        await asyncio.sleep(0.005)
        longest, last = max(longest, time.monotonic() - last), time.monotonic()
    assert "**b**" in (await fetching).text and longest < 0.5


@pytest.mark.parametrize(
    ("data", "kind", "text"),
    [
        ("é".encode(), "text/plain; charset=utf-8", "é"),
        ("é".encode("latin-1"), "text/plain; charset=ISO-8859-1", "é"),
        (b"\x80", "text/plain; charset=iso-8859-1", "€"),  # as browsers have it
        ("日本".encode("shift_jis"), 'text/html; charset="Shift_JIS"', "日本"),
        ("日本".encode("euc-jp"), "text/plain;charset=EUC-JP", "日本"),
        ('<meta charset="windows-1251"><p>да'.encode("cp1251"), "text/html", '<meta charset="windows-1251"><p>да'),
        ("é".encode(), "text/plain", "é"),
        ("é".encode("latin-1"), "text/plain", "é"),
        ("é".encode(), "text/plain; charset=no-such-thing", "é"),
        ("é".encode(), "text/plain; charset=zip", "é"),
        ("é".encode(), "text/plain; charset=unicode_escape", "é"),
        ("\ufeffé".encode("utf-16-le"), "text/plain; charset=utf-8", "é"),
        (
            b"<?xml version='1.0' encoding='iso-8859-2'?>\xb1",
            "text/xml",
            "<?xml version='1.0' encoding='iso-8859-2'?>ą",
        ),
        (b"\xff\xfea", "text/plain; charset=utf-16", "\ufffd"),
        (b"a\xffb", "text/plain; charset=utf-8", "a\ufffdb"),
    ],
)
def test_text_is_decoded_as_it_is_declared(data: bytes, kind: str, text: str):
    assert decode_page(FetchedPage("http://x/", 200, "", kind, data, cut=False)) == text


@given(st.binary(max_size=300), st.text(max_size=30))
def test_nothing_cannot_be_decoded(data: bytes, label: str):
    decode_page(FetchedPage("http://x/", 200, "", f"text/html; charset={label}", data, cut=False))


async def test_other_types():
    for kind in (
        "application/json",
        "application/ld+json",
        "text/csv",
        "image/svg+xml",
        "application/octet-stream",
        "",
    ):
        headers = {"Content-Type": kind} if kind else {}
        assert (await fetched(Answer(b'{"a": 1}', headers=headers))).text.endswith('\n{"a": 1}'), kind
    assert "# Hello" in (await fetched(Answer(b" <!DOCTYPE HTML><h1>Hello</h1>", headers={}))).text
    for kind, data in (("application/pdf", b"%PDF-1.7"), ("", b"\0\1\2"), ("video/mp4", b"x"), ("text/plain", b"a\0b")):
        with pytest.raises(ValueError, match=r"is not text: .*, \d bytes\."):
            await fetched(Answer(data, headers={"Content-Type": kind} if kind else {}))


async def test_image_is_shown():
    data = io.BytesIO()
    Pillow.new("RGB", (30, 20)).save(data, "PNG")
    output = await fetched(page(data.getvalue(), "image/png"), path="/a/pic.png?x=/y")
    assert output.images[0].name == "pic.png" and "[image, 30 × 20 pixels as shown]" in output.text


# -- web_search -----------------------------------------------------------------------------------------------------

RESULTS = {
    "type": "search",
    "query": {"original": "x", "more_results_available": True},
    "web": {
        "type": "search",
        "results": [
            {
                "title": "The <strong>first</strong> &amp; best",
                "url": "https://example.com/1",
                "description": "Words\nwith <strong>bold</strong> &lt;tags&gt;",
                "age": "2 days ago",
                "extra_snippets": ["more words"],
            },
            {"title": "Second", "url": "https://example.com/2", "age": None},
            {"title": "Without an address"},
        ],
    },
}
KEY = "BSA-canary-key-5e0c"


def results(value: object, status: int = 200) -> Answer:
    return Answer(json.dumps(value).encode(), status, {"Content-Type": "application/json"})


async def searched(answer: Answer, **arguments: Any) -> tuple[ToolOutput, WireServer]:
    async with WireServer([answer]) as server:
        tool = WebSearch(Path.cwd(), KEY, server.base_url)
        return await run(tool, **({"query": "x y"} | arguments)), server


async def test_web_is_searched():
    output, server = await searched(results(RESULTS), count=5, page=2)
    assert output.text == (
        "6. The first & best (2 days ago)\n   https://example.com/1\n   Words with bold <tags>\n   more words\n\n"
        "7. Second\n   https://example.com/2"
    )
    assert server.requests[0].path == "/v1/web/search?q=x+y&count=5&offset=1"
    assert server.requests[0].headers["x-subscription-token"] == KEY
    effect = await preview(WebSearch(Path("/work"), KEY), query="x y")
    assert (effect.kind, effect.shown) == ("network", "x y (at api.search.brave.com)")


async def test_searches_that_find_nothing_or_fail():
    for empty in ({}, {"web": None}, {"web": {"results": []}}):
        assert (await searched(results(empty)))[0].text == "[nothing was found]"
    for answer, words in (
        (results({"error": KEY}, 401), "key was not accepted"),
        (results({}, 429), "too many searches"),
        (results({}, 500), r"the search failed \(HTTP 500\)"),
        (redirect("http://127.0.0.1:1/"), r"the search failed \(HTTP 302\)"),
        (Answer(b"<html>", headers=HTML), "not answer with a list of results"),
        (results({"web": {"results": "x"}}), "not answer with a list of results"),
        (Answer(b"x" * 5_000_000), "larger than"),
        (Answer(b"{", end="reset"), "cannot be reached"),
    ):
        with pytest.raises(OSError, match=words) as caught:
            await searched(answer)
        assert KEY not in str(caught.value)
    with pytest.raises(ValueError, match="50 words"):
        await searched(results({}), query="a " * 60)
    for arguments in ({"query": ""}, {"query": "x" * 401}, {"query": "x", "count": 21}, {"query": "x", "page": 0}):
        with pytest.raises(msgspec.ValidationError):
            await searched(results({}), **arguments)


def test_without_a_key_there_is_no_search():
    assert [tool.name for tool in web_tools(Path.cwd())] == ["web_fetch"]
    assert [tool.name for tool in web_tools(Path.cwd(), brave_key=KEY)] == ["web_fetch", "web_search"]
