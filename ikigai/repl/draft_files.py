"""What has been typed and not been sent, kept in a private file while it is typed: it outlives a killed program.

One file of the state folder for each agent that a program has a draft for. The program holds a lock on it, which no
program that died does: whoever opens the agent next takes the draft over, file and all. Files are written in a thread,
a moment after a key and not with every one. A draft that holds a key or password of the environment is not written.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
from collections.abc import Mapping
from pathlib import Path

from ikigai.core.secrets import without_secrets
from ikigai.system import paths

log = logging.getLogger(__name__)

_SHORTEST = 8
"""Characters of a value that is taken for a secret: shorter ones stand in any text."""


class Unsent:
    """The drafts of one program, by the ids of agents."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self._folder = folder
        harmless = without_secrets(environ)
        self._secrets = [value for name, value in environ.items() if name not in harmless and len(value) >= _SHORTEST]
        self._texts: dict[str, str] = {}  # as they are to be
        self._written: dict[str, str] = {}
        self._files: dict[str, tuple[int, Path]] = {}  # open, and locked by this
        self._turn = asyncio.Lock()

    async def keep(self, agent: str, text: str) -> None:
        """Let this be the agent's draft; an empty one has no file."""
        self._texts[agent] = "" if any(secret in text for secret in self._secrets) else text
        async with self._turn:
            if self._written.get(agent, "") != self._texts[agent]:
                await asyncio.to_thread(self._write, agent, self._texts[agent])

    async def take(self, agent: str) -> tuple[str, float]:
        """The draft that a program had which has died, "" if there is none; and when it was written, in seconds since
        1970. It is this program's from now on.
        """
        async with self._turn:
            return await asyncio.to_thread(self._taken, agent)

    def close(self) -> None:
        """Drafts that are left stay for who comes next."""
        for descriptor, _ in self._files.values():
            os.close(descriptor)
        self._files.clear()

    def _write(self, agent: str, text: str) -> None:
        try:
            if not text:
                if agent in self._files:
                    descriptor, path = self._files.pop(agent)
                    path.unlink(missing_ok=True)
                    os.close(descriptor)
            else:
                descriptor, _ = self._files.get(agent) or self._made(agent)
                data = text.encode(errors="replace")
                os.pwrite(descriptor, data, 0)
                os.ftruncate(descriptor, len(data))
            self._written[agent] = text
        except OSError as error:
            log.info("a draft could not be kept: %s", error)

    def _made(self, agent: str) -> tuple[int, Path]:
        path = paths.private(self._folder) / f"unsent-{agent}-{os.getpid()}.txt"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._files[agent] = descriptor, path
        return descriptor, path

    def _taken(self, agent: str) -> tuple[str, float]:
        texts, written = list[str](), 0.0
        mine = self._files.get(agent, (0, None))[1]
        for path in sorted(self._folder.glob(f"unsent-{agent}-*.txt")):
            if path == mine:
                continue
            with contextlib.suppress(OSError):
                descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    with os.fdopen(os.dup(descriptor), "rb") as file:
                        texts.append(file.read().decode(errors="replace"))
                    written = max(written, os.fstat(descriptor).st_mtime)
                except OSError:  # its program is alive
                    os.close(descriptor)
                    continue
                if agent in self._files:
                    path.unlink()
                    os.close(descriptor)
                else:
                    self._files[agent] = descriptor, path
                    self._written[agent] = texts[-1]
        return "\n".join(filter(None, texts)), written
