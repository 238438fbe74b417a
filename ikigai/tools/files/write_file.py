"""Tool `write_file`, which writes a new file, or one that is unchanged since its read."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta

from ikigai.tools.base import Effect, EffectKind, OnOutput, ToolOutput
from ikigai.tools.files.contents import Content, read_present, replace
from ikigai.tools.files.diffs import unified_diff
from ikigai.tools.files.encodings import Encoding
from ikigai.tools.files.read_tracker import ReadTracker, ShownCall
from ikigai.tools.files.redaction_markers import check_markers
from ikigai.tools.files.safe_paths import (
    NotRegularFile,
    check_same,
    is_inside,
    readable_error,
    relative_name,
    resolve_path,
)


class WriteFileArguments(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    path: Annotated[str, Meta(description="The file, absolute or relative to the working directory; ~ is the home.")]
    content: Annotated[str, Meta(description="The whole content of the file.")]


class WritePlan(NamedTuple):
    """Planned write of the file at `path`."""

    path: Path
    now: Content | None
    text: str
    encoding: Encoding
    data: bytes

    @property
    def keeps_crlf(self) -> bool:
        """True if the file keeps its CRLF line ends."""
        return self.now is not None and self.text.count("\r\n") > 0 and "\r\n" in self.now.text

    @property
    def is_unchanged(self) -> bool:
        """True if the file has exactly this content already."""
        return self.now is not None and self.now.size == len(self.data) and self.now.data == self.data


class WriteFile:
    """Tool that writes a file and makes missing directories.

    An existing file keeps its encoding, byte order mark, CRLF line ends and mode.
    """

    name = "write_file"
    set = "files"
    description = (
        "Writes a whole file and makes the directories it needs. A file that exists must have been read with read_file "
        "and not have changed since; to change a part of it use edit_file."
    )
    arguments = WriteFileArguments

    def __init__(self, directory: Path, tracker: ReadTracker) -> None:
        self._directory, self._tracker = directory, tracker

    async def preview(self, arguments: WriteFileArguments) -> Effect:
        return await asyncio.to_thread(self._preview, arguments)

    async def run(self, arguments: WriteFileArguments, progress: OnOutput) -> ToolOutput:
        return await asyncio.to_thread(self._run, arguments)

    def _preview(self, arguments: WriteFileArguments) -> Effect:
        plan = self._plan(arguments, resolve_path(arguments.path, self._directory))
        self._tracker.show(self.name, arguments, ShownCall(str(plan.path), plan.now.state if plan.now else None))
        name = relative_name(plan.path, self._directory)
        is_within, place = is_inside(plan.path, self._directory), (str(self._directory), (str(plan.path),))
        if plan.is_unchanged:
            return Effect(EffectKind.READ, name, *place, inside=is_within, approved_by="changes nothing")
        return Effect(EffectKind.EDIT, name, *place, inside=is_within, diff=self._diff(plan))

    def _run(self, arguments: WriteFileArguments) -> ToolOutput:
        shown = self._tracker.shown(self.name, arguments)
        path = resolve_path(arguments.path, self._directory)
        check_same(path, shown.path if shown else "", arguments.path)
        plan = self._plan(arguments, path)
        if shown and self._tracker.stale(shown, plan.now.state if plan.now else None):
            raise OSError(f"{arguments.path} changed after this call was shown; nothing was written. Read it again.")
        if plan.is_unchanged:
            return ToolOutput(f"{arguments.path} has this content already: nothing was written.")
        before = plan.now.state if plan.now else None
        try:
            after, made, how = replace(plan.path, plan.data, before)
        except OSError as error:
            raise readable_error(error, arguments.path) from None
        self._tracker.wrote(str(plan.path), before, after._replace(encoding=plan.encoding))
        lines = plan.text.count("\n") + (not plan.text.endswith("\n") and plan.text != "")
        notes = [
            word for word in (plan.encoding.shown, "CRLF line endings, as before" if plan.keeps_crlf else "") if word
        ]
        verb = "Wrote" if before else "Created"
        sentences = [f"{verb} {arguments.path}: {lines:,} line{'s' * (lines != 1)}, {len(plan.data):,} bytes."]
        sentences += [f"Written as {', '.join(notes)}."] if notes else []
        sentences += [f"Created the directory {relative_name(Path(each), self._directory)}." for each in made]
        return ToolOutput("\n".join((*sentences, *how)), diff=self._diff(plan))

    def _diff(self, plan: WritePlan) -> str:
        """Return the diff from the present file to the planned one."""
        name, before = relative_name(plan.path, self._directory), plan.now.text if plan.now else ""
        if plan.now and plan.now.data and not before:
            return f"[replaces a binary or large file of {plan.now.size:,} bytes]\n" + unified_diff("", plan.text, name)
        return unified_diff(before, plan.text, name, new=plan.now is None)

    def _plan(self, arguments: WriteFileArguments, path: Path) -> WritePlan:
        """Return the plan of a call. Raise OSError or ValueError, in words, if it cannot be done."""
        known = self._tracker.state(str(path))
        try:
            now = read_present(path, known.encoding if known else None)
        except OSError as error:
            raise readable_error(error, arguments.path) from None
        check_markers(arguments.content, now.text if now else "", arguments.path)
        if now is None:
            if arguments.path.endswith("/"):
                raise NotRegularFile(f"{arguments.path} is the name of a directory.")
            return WritePlan(path, None, arguments.content, Encoding(), Encoding().encode(arguments.content))
        if known is None:
            raise ValueError(f"{arguments.path} exists and has not been read: read it first, with read_file.")
        if not known.same(now.state):
            raise ValueError(f"{arguments.path} changed since it was read: read it again first.")
        encoding = (now.encoding or Encoding())._replace(damaged=False)
        text = _adopt_line_ends(arguments.content, now.text)
        return WritePlan(path, now, text, encoding, encoding.encode(text))


def _adopt_line_ends(text: str, before: str) -> str:
    """Return the new text with CRLF if every line of the old one ends so and no new one does: models write \\n."""
    crlf = before.count("\r\n")
    if crlf and crlf == before.count("\n") and "\r" not in text:
        return text.replace("\n", "\r\n")
    return text
