"""Fork the process for MCP servers: loading the SDK takes more than a second of processor time."""

import os

import pytest

from ikigai.tools.mcp import servers
from tests.support import starting

HOST = "ikigai.tools.mcp.host"
ADDRESS_VARIABLE = "IKIGAI_TEST_HOSTS"


@pytest.fixture(autouse=True)
def forked_host(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fork it but for tests of its processes, which start it as the program does."""
    if starting.own_interpreter or any(map(request.node.get_closest_marker, ("own_interpreter", "long"))):
        return
    monkeypatch.setenv(ADDRESS_VARIABLE, starting.address(HOST))
    monkeypatch.setattr(servers, "HOST_MODULE", "tests.tools.mcp.forked_host")


def host_environment() -> dict[str, str]:
    """Return the environment of the process."""
    names = ("PATH", "HOME", "LD_LIBRARY_PATH", ADDRESS_VARIABLE)
    return {name: os.environ[name] for name in names if name in os.environ}
