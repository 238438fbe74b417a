"""Run the real program, which has its process for MCP servers forked from one that has loaded the SDK."""

import os
import sys
from collections.abc import Mapping
from typing import Any

from ikigai.cli import main as cli
from ikigai.tools.mcp import servers

ADDRESS_VARIABLE = "IKIGAI_TEST_HOSTS"
init = servers.McpServers.__init__


def init_forking(self: servers.McpServers, found: Any, environment: Mapping[str, str], *more: Any) -> None:
    init(self, found, {**environment, **address}, *more)


if __name__ == "__main__":
    address = {ADDRESS_VARIABLE: os.environ.pop(ADDRESS_VARIABLE)}
    servers.HOST_MODULE = "tests.tools.mcp.forked_host"
    servers.McpServers.__init__ = init_forking
    sys.exit(cli.main())
