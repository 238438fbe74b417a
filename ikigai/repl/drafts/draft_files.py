"""Save unsent input to private files while it is typed, so that it outlives a killed program.

Each agent that a program has a draft for has a file in the state folder. The program holds a lock on it, which is free
as soon as the program has died. The next program that opens the agent takes the draft over, with its file. Files are
written in a thread, a moment after a key and not with every one. A draft that holds a key or password of the
environment is not written, and no line with /login and a word, which may be a key.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
from collections.abc import Mapping
from pathlib import Path

from ikigai.core.commands.table import LOGIN_LINE
from ikigai.core.secrets.secret_variables import without_secrets
from ikigai.system import paths

log = logging.getLogger(__name__)

_MIN_SECRET_CHARACTERS = 8
"""Shortest value, in characters, that counts as a secret: shorter ones stand in any text."""


class DraftFiles:
    """The drafts of one program, by agent id."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self._folder = folder
        harmless = without_secrets(environ)
        self._secrets = [
            value for name, value in environ.items() if name not in harmless and len(value) >= _MIN_SECRET_CHARACTERS
        ]
        self._texts: dict[str, str] = {}  # to be written
        self._written: dict[str, str] = {}
        self._files: dict[str, tuple[int, Path]] = {}  # open, and locked by this process
        self._lock = asyncio.Lock()

    async def save(self, agent: str, text: str) -> None:
        """Save `text` as the agent's draft; an empty draft has no file."""
        self._texts[agent] = "" if any(secret in text for secret in self._secrets) else LOGIN_LINE.sub("", text)
        # Also where the caller is cancelled: the thread goes on, and the next save has to come after it.
        await asyncio.shield(self._write_newest(agent))

    async def _write_newest(self, agent: str) -> None:
        async with self._lock:
            if self._written.get(agent, "") != self._texts[agent]:
                await asyncio.to_thread(self._write, agent, self._texts[agent])

    async def take(self, agent: str) -> tuple[str, float]:
        """Take over the draft that a program which has died left for `agent`.

        Return its text, or "", and when it was written, in seconds since 1970.
        """
        async with self._lock:
            return await asyncio.to_thread(self._take_over, agent)

    def close(self) -> None:
        """Release the locks; drafts that are left stay for the next program."""
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
                descriptor, _ = self._files.get(agent) or self._create_file(agent)
                data = text.encode(errors="replace")
                os.pwrite(descriptor, data, 0)
                os.ftruncate(descriptor, len(data))
            self._written[agent] = text
        except OSError as error:
            log.info("a draft could not be stored: %s", error)

    def _create_file(self, agent: str) -> tuple[int, Path]:
        path = paths.make_private(self._folder) / f"unsent-{agent}-{os.getpid()}.txt"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._files[agent] = descriptor, path
        return descriptor, path

    def _take_over(self, agent: str) -> tuple[str, float]:
        texts, written, joined = list[str](), 0.0, list[tuple[int, Path]]()
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
                    joined.append((descriptor, path))
                else:
                    self._files[agent] = descriptor, path
                    self._written[agent] = texts[-1]
        if joined:  # the others go once this one holds their text: a kill may leave it twice, and never not at all
            text = "\n".join(filter(None, (*texts, "" if mine is None else self._written.get(agent))))
            self._write(agent, text)
            is_stored = self._written.get(agent) == text
            for descriptor, path in joined:
                if is_stored:
                    path.unlink(missing_ok=True)
                os.close(descriptor)
        return "\n".join(filter(None, texts)), written
