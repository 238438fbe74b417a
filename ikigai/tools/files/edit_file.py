"""The tool that changes a part of a file: one text for another, exactly, in a file that is still as it was read."""

from __future__ import annotations

import asyncio
import re
from bisect import bisect_left
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta

from ikigai.tools.base import Kind, Output, Progress, Touch
from ikigai.tools.files.contents import WHOLE, Content, present, replace
from ikigai.tools.files.diffs import unified
from ikigai.tools.files.edit_hint import nearest
from ikigai.tools.files.read_tracker import Seen, Shown
from ikigai.tools.files.redaction_markers import check_markers
from ikigai.tools.files.safe_paths import in_words, inside, resolved, same, shown

_NAMED, _COUNTED = 10, 100
"""Places of a text that occurs more than once whose lines are told, and that are counted."""


class Arguments(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    path: Annotated[str, Meta(description="The file, absolute or from the working directory on; ~ is the home.")]
    old: Annotated[
        str,
        Meta(min_length=1, description="The text to replace, exactly as the file has it, indentation and all."),
    ]
    new: Annotated[str, Meta(description="What stands there afterwards.")]
    all: Annotated[bool, Meta(description="Replace every occurrence; else there must be exactly one.")] = False


class Plan(NamedTuple):
    """What a call would make of the file at `path`, and the line of each place that changes."""

    path: Path
    now: Content
    text: str
    data: bytes
    lines: list[int]


class EditFile:
    """Everything around the replaced text stays byte for byte: line ends, byte order mark, encoding, the last line's
    end; and the file its mode. \\n of the arguments stands for the line ends of the file.
    """

    name = "edit_file"
    set = "files"
    description = (
        "Replaces a text in a file by another. The old text must stand in the file exactly as given and only once, "
        "unless all is true. The file must have been read with read_file and not have changed since."
    )
    arguments = Arguments

    def __init__(self, directory: Path, seen: Seen) -> None:
        self._directory, self._seen = directory, seen

    async def look(self, arguments: Arguments) -> Touch:
        return await asyncio.to_thread(self._look, arguments)

    async def run(self, arguments: Arguments, progress: Progress) -> Output:
        return await asyncio.to_thread(self._run, arguments)

    def _look(self, arguments: Arguments) -> Touch:
        plan = self._plan(arguments, resolved(arguments.path, self._directory))
        self._seen.show(self.name, arguments, Shown(str(plan.path), plan.now.state))
        name = shown(plan.path, self._directory)
        diff = unified(plan.now.text, plan.text, name)
        within = inside(plan.path, self._directory)
        return Touch(Kind.EDIT, name, str(self._directory), (str(plan.path),), inside=within, diff=diff)

    def _run(self, arguments: Arguments) -> Output:
        asked = self._seen.shown(self.name, arguments)
        path = resolved(arguments.path, self._directory)
        same(path, asked.path if asked else "", arguments.path)
        plan = self._plan(arguments, path)
        if asked and self._seen.stale(asked, plan.now.state):
            raise OSError(f"{arguments.path} changed after this edit was shown; nothing was written. Read it again.")
        try:
            after, _ = replace(plan.path, plan.data, plan.now.state)
        except OSError as error:
            raise in_words(error, arguments.path) from None
        self._seen.wrote(str(plan.path), plan.now.state, after._replace(encoding=plan.now.encoding))
        places = "1 place" if len(plan.lines) == 1 else f"{len(plan.lines):,} places"
        said = f"Edited {arguments.path} in {places}, {_named(plan.lines)}."
        return Output(said, diff=unified(plan.now.text, plan.text, shown(plan.path, self._directory)))

    def _plan(self, arguments: Arguments, path: Path) -> Plan:
        """Raises in words whatever stands against the call.

        Nothing of a file is told here that the agent has not read before: looking asks nobody.
        """
        name = arguments.path
        known = self._seen.state(str(path))
        if known is None:
            raise ValueError(f"{name} was not read yet: read it first, with read_file.")
        try:
            now = present(path, known.encoding)
        except OSError as error:
            raise in_words(error, name) from None
        if now is None:
            raise FileNotFoundError(f"there is no {name} any more.")
        if not known.same(now.state):
            raise ValueError(f"{name} changed since it was read: read it again first.")
        if len(now.data) > WHOLE:
            raise ValueError(f"{name} has {now.size:,} bytes, and {WHOLE:,} are the most that can be edited.")
        if now.encoding is None:
            raise ValueError(f"{name} is a binary file.")
        if now.encoding.encode(now.text) != now.data:
            raise ValueError(f"{name} cannot be written in {now.encoding.name} again as it is.")
        for written in (arguments.old, arguments.new):
            check_markers(written, now.text, name)
        text, lines = replaced(now.text, arguments.old, arguments.new, every=arguments.all)
        return Plan(path, now, text, now.encoding.encode(text), lines)


def replaced(text: str, old: str, new: str, *, every: bool) -> tuple[str, list[int]]:
    """The text with `old` replaced, and the numbers of the lines where it stood. LookupError, in words, when it stands
    nowhere or, without `every`, more than once; ValueError when nothing would change.

    \\n and \\r\\n are the same where `old` is looked for; `new` gets the line ends of what it replaces.
    """
    plain, wanted = text.replace("\r\n", "\n"), old.replace("\r\n", "\n")
    if wanted == (now := new.replace("\r\n", "\n")):
        raise ValueError("old and new are the same text: nothing would change.")
    places = _places(plain, wanted, every=every)
    lines = _lines(plain, places)
    if not places:
        raise LookupError(f"the old text is not in the file. {nearest(plain, wanted)}")
    if len(places) > 1 and not every:
        times = f"{len(places)} times" if len(places) < _COUNTED else f"{_COUNTED} times or more"
        raise LookupError(
            f"the old text is in the file {times}, {_named(lines)}: "
            "give more of the text around the one that is meant, or set all."
        )
    returns = _returns(text)
    pieces, done = list[str](), 0
    for place in places:
        begin, end = (at + bisect_left(returns, at) for at in (place, place + len(wanted)))
        crlf = returns and _ends_in_returns(text, begin, end)
        pieces += [text[done:begin], now.replace("\n", "\r\n") if crlf else now]
        done = end
    return "".join((*pieces, text[done:])), lines


def _places(text: str, wanted: str, *, every: bool) -> list[int]:
    """Where it stands. With `every` one behind the other; else also where two overlap, for either could be meant."""
    places = list[int]()
    at = text.find(wanted)
    while at >= 0 and (every or len(places) < _COUNTED):
        places.append(at)
        at = text.find(wanted, at + (len(wanted) if every else 1))
    return places


def _returns(text: str) -> list[int]:
    """Where \\r\\n stands, counted as if each was one character."""
    return [found.start() - number for number, found in enumerate(re.finditer("\r\n", text))]


def _ends_in_returns(text: str, begin: int, end: int) -> bool:
    """Whether the line ends here are \\r\\n: those of the place itself, else the next one, else the one before."""
    at = text.find("\n", begin, end)
    at = at if at >= 0 else text.find("\n", end)
    at = at if at >= 0 else text.rfind("\n", 0, begin)
    return at > 0 and text[at - 1] == "\r"


def _lines(text: str, places: list[int]) -> list[int]:
    """The numbers of the lines in which these places begin."""
    numbers, number, at = list[int](), 1, 0
    for place in places:
        number += text.count("\n", at, place)
        at = place
        numbers.append(number)
    return numbers


def _named(lines: list[int]) -> str:
    shown = ", ".join(f"{line:,}" for line in lines[:_NAMED])
    return f"line{'s' * (len(lines) > 1)} {shown}{' and more' if len(lines) > _NAMED else ''}"
