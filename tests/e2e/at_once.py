"""Run the real program with a progress line from the first moment on; with HOLD an export stops behind its first page.

Else a fast machine would be done before anything could be seen or stopped.
"""

import asyncio
import os
import sys
from typing import Any

from ikigai.cli import main as cli
from ikigai.store.transfer import transfer
from ikigai.system import progress

read_page = transfer.Export._page


async def read_first_page(source: transfer.Export, member: Any, first: int) -> Any:
    if first != member.first:
        await asyncio.Event().wait()
    return await read_page(source, member, first)


if __name__ == "__main__":
    progress.QUIET_SECONDS = 0.0
    if "HOLD" in os.environ:
        transfer.Export._page = read_first_page  # type: ignore[method-assign]
    sys.exit(cli.main())
