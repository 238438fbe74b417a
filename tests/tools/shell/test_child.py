"""A child process ends with its block, whatever it was doing."""

import asyncio

import pytest

from ikigai.tools.shell.child import ChildProcess
from tests.support.starting import children


@pytest.mark.parametrize("script", ["exec yes", "yes >&2 & exec yes", "yes & exec sleep 300"])
async def test_child_whose_output_was_not_read_to_its_end_ends_with_its_block(script: str) -> None:
    """More was printed than asyncio keeps, so it stopped reading and would not see the end of the pipe."""
    async with asyncio.timeout(60):
        async with ChildProcess(("/bin/sh", "-c", script), 60) as child:
            assert await child.read()
            await asyncio.sleep(0.3)
        assert not children()
