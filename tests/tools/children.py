"""Find the child processes that the tests of tools leave running."""

import asyncio
import contextlib
import os
import time
import uuid
from pathlib import Path

PATH = os.environ.get("PATH", "/usr/bin:/bin")


class Witness:
    """Finder of the processes with its token in their environment or arguments, whatever their parents are.

    `environment` is for the commands of a test; `token` goes into the arguments of what has no environment.
    """

    def __init__(self) -> None:
        self.token = uuid.uuid4().hex
        self.environment = {"PATH": PATH, "HOME": "/", "LANG": "C.UTF-8", "WITNESS": self.token}

    def alive(self) -> dict[int, str]:
        """Return the command lines of the running ones by pid."""
        found = dict[int, str]()
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (folder / "cmdline").read_bytes()
                if self.token.encode() in words + (folder / "environ").read_bytes() and words:
                    found[int(folder.name)] = words.replace(b"\0", b" ").decode(errors="replace").strip()
        return found

    async def see(self, number: int, seconds: float = 60) -> dict[int, str]:
        """Wait until at least `number` of them run, or, for 0, none."""
        until = time.monotonic() + seconds
        while not self._agrees(found := self.alive(), number) and time.monotonic() < until:
            await asyncio.sleep(0.02)
        assert self._agrees(found, number), found
        return found

    @staticmethod
    def _agrees(found: dict[int, str], number: int) -> bool:
        return len(found) >= number if number else not found
