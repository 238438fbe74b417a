"""Tool `edit_file`, which replaces an exact text in a file unchanged since its read."""

from __future__ import annotations

import asyncio
import re
from bisect import bisect_left
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta

from ikigai.tools.base import Effect, EffectKind, OnOutput, ToolOutput
from ikigai.tools.files.contents import MAX_WHOLE_BYTES, Content, read_present, replace
from ikigai.tools.files.diffs import unified_diff
from ikigai.tools.files.edit_hint import nearest_place
from ikigai.tools.files.read_tracker import ReadTracker, ShownCall
from ikigai.tools.files.redaction_markers import check_markers
from ikigai.tools.files.safe_paths import check_same, is_inside, readable_error, relative_name, resolve_path

_MAX_NAMED_PLACES, _MAX_COUNTED_PLACES = 10, 100
"""Limits for a text that occurs more than once: places whose lines are named, and places that are counted."""


class EditFileArguments(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    path: Annotated[str, Meta(description="The file, absolute or relative to the working directory; ~ is the home.")]
    old: Annotated[
        str, Meta(min_length=1, description="The text to replace, exactly as in the file, with its indentation.")
    ]
    new: Annotated[str, Meta(description="The text to put in its place.")]
    all: Annotated[bool, Meta(description="Replace every occurrence; otherwise there must be exactly one.")] = False


class EditPlan(NamedTuple):
    """Planned edit of the file at `path`: the new text, and the line of each place that changes."""

    path: Path
    now: Content
    text: str
    data: bytes
    lines: list[int]


class EditFile:
    """Tool that edits a file.

    Everything around the replaced text stays byte for byte: line ends, byte order mark, encoding, the end of the last
    line. The file keeps its mode. \\n in the arguments stands for the line ends of the file.
    """

    name = "edit_file"
    set = "files"
    description = (
        "Replaces a text in a file by another. The old text must occur in the file exactly as given, and only once "
        "unless all is true. The file must have been read with read_file and not have changed since."
    )
    arguments = EditFileArguments

    def __init__(self, directory: Path, tracker: ReadTracker) -> None:
        self._directory, self._tracker = directory, tracker

    async def preview(self, arguments: EditFileArguments) -> Effect:
        return await asyncio.to_thread(self._preview, arguments)

    async def run(self, arguments: EditFileArguments, progress: OnOutput) -> ToolOutput:
        return await asyncio.to_thread(self._run, arguments)

    def _preview(self, arguments: EditFileArguments) -> Effect:
        plan = self._plan(arguments, resolve_path(arguments.path, self._directory))
        self._tracker.show(self.name, arguments, ShownCall(str(plan.path), plan.now.state))
        name = relative_name(plan.path, self._directory)
        diff = unified_diff(plan.now.text, plan.text, name)
        is_within = is_inside(plan.path, self._directory)
        return Effect(EffectKind.EDIT, name, str(self._directory), (str(plan.path),), inside=is_within, diff=diff)

    def _run(self, arguments: EditFileArguments) -> ToolOutput:
        shown = self._tracker.shown(self.name, arguments)
        path = resolve_path(arguments.path, self._directory)
        check_same(path, shown.path if shown else "", arguments.path)
        plan = self._plan(arguments, path)
        if shown and self._tracker.stale(shown, plan.now.state):
            raise OSError(f"{arguments.path} changed after this edit was shown; nothing was written. Read it again.")
        try:
            after, _, how = replace(plan.path, plan.data, plan.now.state)
        except OSError as error:
            raise readable_error(error, arguments.path) from None
        self._tracker.wrote(str(plan.path), plan.now.state, after._replace(encoding=plan.now.encoding))
        places = "1 place" if len(plan.lines) == 1 else f"{len(plan.lines):,} places"
        text = " ".join((f"Edited {arguments.path} in {places}, {_format_lines(plan.lines)}.", *how))
        return ToolOutput(text, diff=unified_diff(plan.now.text, plan.text, relative_name(plan.path, self._directory)))

    def _plan(self, arguments: EditFileArguments, path: Path) -> EditPlan:
        """Return the plan of a call. Raise OSError, ValueError or LookupError, in words, if it cannot be done.

        An error reveals nothing of a file that the agent has not read before: a preview runs without approval.
        """
        name = arguments.path
        known = self._tracker.state(str(path))
        if known is None:
            raise ValueError(f"{name} has not been read: read it first, with read_file.")
        try:
            now = read_present(path, known.encoding)
        except OSError as error:
            raise readable_error(error, name) from None
        if now is None:
            raise FileNotFoundError(f"{name} does not exist any more.")
        if not known.same(now.state):
            raise ValueError(f"{name} changed since it was read: read it again first.")
        if len(now.data) > MAX_WHOLE_BYTES:
            raise ValueError(f"{name} has {now.size:,} bytes; at most {MAX_WHOLE_BYTES:,} can be edited.")
        if now.encoding is None:
            raise ValueError(f"{name} is a binary file.")
        if now.encoding.encode(now.text) != now.data:
            raise ValueError(f"{name} cannot be written back unchanged in {now.encoding.name}.")
        for written in (arguments.old, arguments.new):
            check_markers(written, now.text, name)
        text, lines = replace_text(now.text, arguments.old, arguments.new, every=arguments.all)
        return EditPlan(path, now, text, now.encoding.encode(text), lines)


def replace_text(text: str, old: str, new: str, *, every: bool) -> tuple[str, list[int]]:
    """Return the text with `old` replaced by `new`, and the numbers of the lines where `old` was.

    Raise LookupError, in words, if `old` is missing or, without `every`, occurs more than once. Raise ValueError if
    nothing would change. The search treats \\n and \\r\\n as equal; `new` gets the line ends of the text it replaces.
    """
    plain, searched = text.replace("\r\n", "\n"), old.replace("\r\n", "\n")
    if searched == (replacement := new.replace("\r\n", "\n")):
        raise ValueError("old and new are the same text: nothing would change.")
    places = _places(plain, searched, every=every)
    lines = _lines(plain, places)
    if not places:
        raise LookupError(f"the old text is not in the file. {nearest_place(plain, searched)}")
    if len(places) > 1 and not every:
        times = f"{len(places)} times" if len(places) < _MAX_COUNTED_PLACES else f"{_MAX_COUNTED_PLACES} times or more"
        raise LookupError(
            f"the old text is in the file {times}, {_format_lines(lines)}: "
            "include more of the surrounding text, or set all."
        )
    crlf_positions = _crlf_positions(text)
    pieces, end_of_last = list[str](), 0
    for place in places:
        begin, end = (at + bisect_left(crlf_positions, at) for at in (place, place + len(searched)))
        crlf = crlf_positions and _has_crlf_at(text, begin, end)
        pieces += [text[end_of_last:begin], replacement.replace("\n", "\r\n") if crlf else replacement]
        end_of_last = end
    return "".join((*pieces, text[end_of_last:])), lines


def _places(text: str, old: str, *, every: bool) -> list[int]:
    """Return the positions of `old`. Without `every` they include overlapping ones, as either could be meant."""
    places = list[int]()
    at = text.find(old)
    while at >= 0 and (every or len(places) < _MAX_COUNTED_PLACES):
        places.append(at)
        at = text.find(old, at + (len(old) if every else 1))
    return places


def _crlf_positions(text: str) -> list[int]:
    """Return the positions of \\r\\n, each counted as one character."""
    return [match.start() - number for number, match in enumerate(re.finditer("\r\n", text))]


def _has_crlf_at(text: str, begin: int, end: int) -> bool:
    """Return True if the line ends here are \\r\\n: in the place itself, else the next one, else the one before."""
    at = text.find("\n", begin, end)
    at = at if at >= 0 else text.find("\n", end)
    at = at if at >= 0 else text.rfind("\n", 0, begin)
    return at > 0 and text[at - 1] == "\r"


def _lines(text: str, places: list[int]) -> list[int]:
    """Return the numbers of the lines in which these places begin."""
    numbers, number, at = list[int](), 1, 0
    for place in places:
        number += text.count("\n", at, place)
        at = place
        numbers.append(number)
    return numbers


def _format_lines(lines: list[int]) -> str:
    shown = ", ".join(f"{line:,}" for line in lines[:_MAX_NAMED_PLACES])
    return f"line{'s' * (len(lines) > 1)} {shown}{' and more' if len(lines) > _MAX_NAMED_PLACES else ''}"
