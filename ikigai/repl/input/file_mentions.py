"""Complete the files that an @ in the input can mean, without holding up the event loop.

A list of a hundred thousand paths takes git a fraction of a second and is reused for a while. A key searches it for a
few milliseconds, so that there is an answer at once. The rest is searched between keys, and `on_change` is called when
that finds more.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from ikigai.core.commands.mentions import find_mentions, format_mention
from ikigai.core.search.fuzzy import FuzzySearch, PathIndex
from ikigai.core.text.lookalikes import visible_name

log = logging.getLogger(__name__)

KEY_WAIT_SECONDS = 0.006
"""Seconds that a key waits for matches: a third of a frame."""
SEARCH_STEP = 0.002
"""Seconds of searching before the event loop runs again."""
FRAME_INTERVAL = 0.05
"""Seconds between two frames that show more."""
LIST_LIFETIME = 5.0
"""Seconds for which a list is used; a later @ lists the files again."""
MAX_OFFERED = 50
MAX_PATHS = 500_000
"""Paths that are listed for one folder."""
_OUTSIDE = re.compile(r"(/|~|\.\.?/)")
_URL = re.compile(r"https?:")


class FileMentions:
    """The files of one folder.

    `earlier` returns the texts sent before, the newest first; files that they mention come first. `on_change` is
    called when there are more matches.
    """

    def __init__(self, folder: Path, earlier: Callable[[], Iterable[str]], on_change: Callable[[], object]) -> None:
        self._folder, self._earlier, self._on_change = folder, earlier, on_change
        self._names = PathIndex()
        self._recent: dict[str, int] = {}
        self._listed = -LIST_LIFETIME  # when the list was whole
        self._list_task: asyncio.Task[None] | None = None
        self._query: tuple[str, int] | None = None  # the text searched for, and the number of paths
        self._search = FuzzySearch(self._names, "", {})
        self._steps = iter(self._search)
        self._has_more = False  # slices to search
        self._search_task: asyncio.Task[None] | None = None

    def matches(self, typed: str) -> list[str]:
        """Return the mentions that `typed` can become, best first, as far as they are known by now."""
        if _URL.match(typed):
            return []
        if _OUTSIDE.match(typed):
            from ikigai.repl.input.path_completion import complete_paths

            return [format_mention(path) for path in complete_paths(typed, self._folder)]
        if self._list_task is None and time.monotonic() - self._listed > LIST_LIFETIME:
            self._list_task = asyncio.create_task(self._list(), name="files")
        if self._query != (typed, self._names.count):
            self._query = typed, self._names.count
            self._search = FuzzySearch(self._names, typed, self._recent)
            self._steps = iter(self._search)
            self._has_more = self._step(KEY_WAIT_SECONDS)
        if self._has_more and self._search_task is None:
            self._search_task = asyncio.create_task(self._search_rest(), name="mentions")
        return [format_mention(path) for path in self._search.best(MAX_OFFERED)]

    async def close(self) -> None:
        """Stop listing and searching before the event loop ends.

        Cancelling alone would not stop a child process that is just being started.
        """
        tasks = [task for task in (self._list_task, self._search_task) if task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def is_idle(self) -> bool:
        """True if the files are listed and searched to the end."""
        return self._list_task is None and not self._has_more

    def _step(self, seconds: float) -> bool:
        """Search for `seconds`; return False when nothing is left to search."""
        until = time.monotonic() + seconds
        return any(time.monotonic() > until for _ in self._steps)

    async def _search_rest(self) -> None:
        """Search the rest a little at a time; a search that another key begins goes on here."""
        shown, searched = time.monotonic(), self._search
        while self._has_more:
            self._has_more = self._step(SEARCH_STEP)
            if self._search is searched and time.monotonic() - shown > FRAME_INTERVAL:
                self._on_change()
                shown = time.monotonic()
            searched = self._search
            await asyncio.sleep(0)
        self._search_task = None
        self._on_change()

    async def _list(self) -> None:
        """List the files again; the first list is shown while it grows."""
        from ikigai.tools.files.search.listing import list_paths

        names, first = PathIndex(), self._names.count == 0
        if first:
            self._names = names
        self._recent = {path: number for number, path in enumerate(_find_files(self._earlier()))}
        try:
            seen, shown = set[str](), time.monotonic()
            async with contextlib.aclosing(list_paths(self._folder)) as pieces:
                async for piece in pieces:
                    found = dict.fromkeys(each for path in piece for each in (*_folders_above(path, seen), path))
                    new = [path for path in found if path not in seen]
                    seen.update(new)
                    names.add([path if path.isprintable() else visible_name(path) for path in new])
                    if first and time.monotonic() - shown > FRAME_INTERVAL:
                        self._on_change()
                        shown = time.monotonic()
                    if names.count >= MAX_PATHS:
                        break
                    await asyncio.sleep(0)
        except (OSError, ValueError):
            log.exception("the files could not be listed")
        finally:
            self._list_task, self._listed = None, time.monotonic()
        self._names, self._query = names, None
        self._on_change()


def _folders_above(path: str, seen: set[str]) -> Iterator[str]:
    """Yield the folders that `path` lies in, from the nearest on, up to one that was seen."""
    while (path := path[: path.rstrip("/").rfind("/") + 1]) and path not in seen:
        yield path


def _find_files(texts: Iterable[str]) -> Iterator[str]:
    """Yield the paths that `texts` mention, each once."""
    paths: dict[str, None] = {}
    for text in texts:
        if "@" in text:
            paths.update(dict.fromkeys(each.names[0] for each in find_mentions(text) if each.names))
    yield from paths
