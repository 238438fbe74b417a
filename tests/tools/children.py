"""Real children for the tests of tools, and a witness who knows which of them are still there."""

import asyncio
import contextlib
import os
import time
import uuid
from pathlib import Path

PATH = os.environ.get("PATH", "/usr/bin:/bin")


class Witness:
    """Knows the processes that have its token in their environment or among their arguments, whoever their parents are.

    `environment` is for the commands of a test; `token` goes into the arguments of what has no environment.
    """

    def __init__(self) -> None:
        self.token = uuid.uuid4().hex
        self.environment = {"PATH": PATH, "HOME": "/", "LANG": "C.UTF-8", "WITNESS": self.token}

    def alive(self) -> dict[int, str]:
        """Pid → command line."""
        found = dict[int, str]()
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (folder / "cmdline").read_bytes()
                if self.token.encode() in words + (folder / "environ").read_bytes() and words:
                    found[int(folder.name)] = words.replace(b"\0", b" ").decode(errors="replace").strip()
        return found

    async def see(self, number: int, seconds: float = 30) -> dict[int, str]:
        """Wait until at least so many are there, or, for 0, none."""
        until = time.monotonic() + seconds
        while not self._agrees(found := self.alive(), number) and time.monotonic() < until:
            await asyncio.sleep(0.02)
        assert self._agrees(found, number), found
        return found

    @staticmethod
    def _agrees(found: dict[int, str], number: int) -> bool:
        return len(found) >= number if number else not found
