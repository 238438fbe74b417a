"""A long test that kills MCP servers and ikigai, and counts the processes that are left."""

import os

import pytest

from tests.tools.mcp import kills


@pytest.mark.long
@pytest.mark.timeout(0)
def test_no_process_is_left_after_many_kills() -> None:
    wanted = int(os.environ.get("IKIGAI_LONG_KILLS", "1000"))
    assert kills.run(wanted, seed=1) >= wanted
