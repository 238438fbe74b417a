"""The files that an @ in the input can mean: listed behind the loop's back, looked through a slice at a time.

A list of a hundred thousand paths takes git a fraction of a second and is kept for a while. What is typed is looked for
in it for a few milliseconds at once, so that there is an answer with the key; the rest is looked through between keys,
and `changed` is called when that found more.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from ikigai.core.search.fuzzy import Names, Search
from ikigai.images import mention

log = logging.getLogger(__name__)

AT_ONCE = 0.006
"""Seconds that a key waits for what it finds: a third of a frame."""
SLICE = 0.002
"""Seconds between two looks at what else there is to do."""
PAUSE = 0.05
"""Seconds between two frames that show more."""
FRESH = 5.0
"""Seconds for which a list is believed: then an @ has another one made."""
OFFERED = 50
MOST = 500_000
"""Paths that are kept of one folder."""
_OUTSIDE = re.compile(r"(/|~|\.\.?/)")
_SAID = re.compile(r"""@(?:"([^"\n]+)"|'([^'\n]+)'|(\S+))""")


class Mentions:
    """Of one folder. `said` gives what was written before, the newest first: what it mentions comes first again."""

    def __init__(self, folder: Path, said: Callable[[], Iterable[str]], changed: Callable[[], object]) -> None:
        self._folder, self._said, self._changed = folder, said, changed
        self._names = Names()
        self._recent: dict[str, int] = {}
        self._listed = -FRESH  # when the list was whole
        self._listing: asyncio.Task[None] | None = None
        self._wanted: tuple[str, int] | None = None  # what is being looked for, in how many paths
        self._search = Search(self._names, "", {})
        self._steps = iter(self._search)
        self._left = False  # slices to look through
        self._going: asyncio.Task[None] | None = None

    def offered(self, typed: str) -> list[str]:
        """The words that mean the files which `typed` may, best first: what is known by now."""
        if _OUTSIDE.match(typed):
            from ikigai.repl import pin_commands as pinning

            return [mention(path) for path in pinning.completions(typed, self._folder)]
        if self._listing is None and time.monotonic() - self._listed > FRESH:
            self._listing = asyncio.create_task(self._list(), name="files")
        if self._wanted != (typed, self._names.count):
            self._wanted = typed, self._names.count
            self._search = Search(self._names, typed, self._recent)
            self._steps = iter(self._search)
            self._left = self._step(AT_ONCE)
        if self._left and self._going is None:
            self._going = asyncio.create_task(self._go_on(), name="mentions")
        return [mention(path) for path in self._search.best(OFFERED)]

    async def close(self) -> None:
        """Stop looking, before the loop ends: a child that is just being started could not be stopped by that."""
        tasks = [task for task in (self._listing, self._going) if task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def at_rest(self) -> bool:
        """Whether everything is listed and looked through."""
        return self._listing is None and not self._left

    def _step(self, seconds: float) -> bool:
        """Look through slices for so long; False when all were."""
        until = time.monotonic() + seconds
        return any(time.monotonic() > until for _ in self._steps)

    async def _go_on(self) -> None:
        """Look through what is left, a little at a time; another key begins another search, which goes on here."""
        shown, searched = time.monotonic(), self._search
        while self._left:
            self._left = self._step(SLICE)
            if self._search is searched and time.monotonic() - shown > PAUSE:
                self._changed()
                shown = time.monotonic()
            searched = self._search
            await asyncio.sleep(0)
        self._going = None
        self._changed()

    async def _list(self) -> None:
        """Make the list anew; a first one is shown while it grows."""
        from ikigai.tools.files.listing import files

        names, first = Names(), self._names.count == 0
        if first:
            self._names = names
        self._recent = {path: number for number, path in enumerate(_mentioned(self._said()))}
        try:
            seen, shown = set[str](), time.monotonic()
            async with contextlib.aclosing(files(self._folder)) as pieces:
                async for piece in pieces:
                    new = [path for path in dict.fromkeys(piece) if path not in seen and _sayable(path)]
                    seen.update(new)
                    names.add(new)
                    if first and time.monotonic() - shown > PAUSE:
                        self._changed()
                        shown = time.monotonic()
                    if names.count >= MOST:
                        break
                    await asyncio.sleep(0)
        except (OSError, ValueError):
            log.exception("the files could not be listed")
        finally:
            self._listing, self._listed = None, time.monotonic()
        self._names, self._wanted = names, None
        self._changed()


def _sayable(path: str) -> bool:
    """Whether a message can mention it: a line break would end the mention, and what is no UTF-8 cannot be sent."""
    return (path.isascii() and path.isprintable()) or not re.search("[\n\ud800-\udfff]", path)


def _mentioned(texts: Iterable[str]) -> Iterator[str]:
    """The paths behind the @ in what was written, each once."""
    found: dict[str, None] = {}
    for text in texts:
        if "@" in text:
            found.update(dict.fromkeys(match[1] or match[2] or match[3] for match in _SAID.finditer(text)))
    yield from found
