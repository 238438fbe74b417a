"""Keys and addresses over every adapter: what cannot be one is refused, neither goes astray, and no key is shown."""

import platform
from typing import Any

import pytest

from ikigai.core.errors import ConfigError, IkigaiError
from ikigai.core.events.messages import StopReason, Text
from ikigai.core.request.reply import FailureKind, StreamFailed
from ikigai.providers.vendor import MACHINE_HEADERS
from tests.providers.conftest import KEY, ask, collect
from tests.providers.formats import Format
from tests.support.wire_server import Answer, WireServer


@pytest.mark.parametrize("key", ["sk-1\n", "sk 1", "sk-\x00", "sk-é", "\ufeffsk-1"])
def test_key_that_no_header_can_hold(form: Format, key: str):
    with pytest.raises(ConfigError) as caught:
        form.make(form.provider, "", key)
    assert key not in str(caught.value)


@pytest.mark.parametrize(
    "address",
    [
        "localhost:8080/v1",
        "api.openai.com",
        "ftp://x/v1",
        "http://",
        "http:///v1",
        "http://[::1/v1",
        "http://x:y/v1",
        "http://a b/v1",
        "a b",
        "http://x/v1\n",
        "http://x/v1#y",
    ],
)
def test_address_that_is_none(form: Format, address: str):
    with pytest.raises(ConfigError) as caught:
        form.make(form.provider, address, KEY)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_redirects_are_not_followed(vendor: Any, wire_server: WireServer, status: int):
    async with WireServer() as elsewhere:
        wire_server.script = [Answer(b"", status, {"Location": f"{elsewhere.base_url}/x"}) for _ in range(3)]
        [broke] = await collect(vendor)
        assert isinstance(broke, StreamFailed)
        assert broke.kind is FailureKind.NOT_FOUND
        assert await vendor.count(ask()) is None
        with pytest.raises(IkigaiError):
            await vendor.models()
        assert elsewhere.requests == []


@pytest.mark.parametrize("status", [200, 400, 401])
async def test_key_shows_nowhere(
    form: Format,
    vendor: Any,
    wire_server: WireServer,
    status: int,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
):
    caplog.set_level("DEBUG")
    wire_server.script = [form.refusal(status, f"Incorrect API key\nprovided: {KEY}.", "") for _ in range(3)]
    [broke] = await collect(vendor)
    assert isinstance(broke, StreamFailed)
    assert "Incorrect API key provided: [key]." in broke.text
    assert await vendor.count(ask()) is None
    with pytest.raises(IkigaiError) as caught:
        await vendor.models()
    shown = repr(vendor) + str(broke) + str(caught.value) + caplog.text + "".join(capfd.readouterr())
    assert KEY not in shown


@pytest.mark.parametrize(
    "form", ["messages", "responses", "chat"], indirect=True
)  # Google's SDK names Python's version
async def test_request_does_not_name_the_users_machine(vendor: Any, form: Format, wire_server: WireServer) -> None:
    wire_server.script = [Answer(form.stream((Text("Hello"),), StopReason.END))]
    await collect(vendor)
    [request] = wire_server.requests
    told = {name.lower() for name in request.headers}
    assert not told & {name.lower() for name in MACHINE_HEADERS}
    machine = {platform.machine(), platform.system(), platform.python_version()}
    assert not [value for value in request.headers.values() if any(name in value for name in machine)]
