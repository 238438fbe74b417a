"""A loop that runs while a test talks to it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ikigai.agent.loop import Runtime


@asynccontextmanager
async def running(runtime: Runtime) -> AsyncIterator[None]:
    """Until the block ends, and what is under way then has ended too."""
    task = asyncio.create_task(runtime.run())
    try:
        yield
    finally:
        runtime.inbox.put_nowait(None)
        await task
