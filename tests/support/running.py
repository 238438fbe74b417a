"""Run an agent loop while a test talks to it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ikigai.agent.loop import AgentLoop


@asynccontextmanager
async def running(runtime: AgentLoop) -> AsyncIterator[None]:
    """Run the loop until the block ends, and then until its work has ended too."""
    task = asyncio.create_task(runtime.run())
    try:
        yield
    finally:
        runtime.inbox.put_nowait(None)
        await task
