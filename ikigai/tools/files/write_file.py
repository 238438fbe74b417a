"""The tool that writes a whole file: a new one, or one that was read and is still as it was read."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta

from ikigai.tools.base import Kind, Output, Progress, Touch
from ikigai.tools.files.contents import Content, present, replace
from ikigai.tools.files.diffs import unified
from ikigai.tools.files.encodings import Encoding
from ikigai.tools.files.read_tracker import Seen, Shown
from ikigai.tools.files.redaction_markers import check_markers
from ikigai.tools.files.safe_paths import NotOrdinary, in_words, inside, resolved, same, shown


class Arguments(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    path: Annotated[str, Meta(description="The file, absolute or from the working directory on; ~ is the home.")]
    content: Annotated[str, Meta(description="All that the file shall hold.")]


class Plan(NamedTuple):
    """What a call would do to the file at `path`."""

    path: Path
    now: Content | None
    text: str
    encoding: Encoding
    data: bytes

    @property
    def crlf(self) -> bool:
        """Whether the line ends of the file are kept against those of the new text."""
        return self.now is not None and self.text.count("\r\n") > 0 and "\r\n" in self.now.text


class WriteFile:
    """Directories that are missing are made. Encoding, byte order mark, CRLF and mode of an existing file are kept."""

    name = "write_file"
    set = "files"
    description = (
        "Writes a whole file and makes the directories it needs. A file that exists must have been read with read_file "
        "and not have changed since; for a change in a part of it use edit_file."
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
        self._seen.show(self.name, arguments, Shown(str(plan.path), plan.now.state if plan.now else None))
        name = shown(plan.path, self._directory)
        diff = self._diff(plan)
        within = inside(plan.path, self._directory)
        return Touch(Kind.EDIT, name, str(self._directory), (str(plan.path),), inside=within, diff=diff)

    def _run(self, arguments: Arguments) -> Output:
        asked = self._seen.shown(self.name, arguments)
        path = resolved(arguments.path, self._directory)
        same(path, asked.path if asked else "", arguments.path)
        plan = self._plan(arguments, path)
        if asked and self._seen.stale(asked, plan.now.state if plan.now else None):
            raise OSError(f"{arguments.path} changed after this call was shown; nothing was written. Read it again.")
        before = plan.now.state if plan.now else None
        try:
            after, made = replace(plan.path, plan.data, before)
        except OSError as error:
            raise in_words(error, arguments.path) from None
        self._seen.wrote(str(plan.path), before, after._replace(encoding=plan.encoding))
        lines = plan.text.count("\n") + (not plan.text.endswith("\n") and plan.text != "")
        kept = [word for word in (plan.encoding.shown, "CRLF line ends, as it had" if plan.crlf else "") if word]
        did = "Wrote" if before else "Created"
        done = [f"{did} {arguments.path}: {lines:,} line{'s' * (lines != 1)}, {len(plan.data):,} bytes."]
        done += [f"Written as {', '.join(kept)}."] if kept else []
        done += [f"Made the directory {shown(Path(each), self._directory)}." for each in made]
        return Output("\n".join(done), diff=self._diff(plan))

    def _diff(self, plan: Plan) -> str:
        """What the file is and what it becomes."""
        name, before = shown(plan.path, self._directory), plan.now.text if plan.now else ""
        if plan.now and plan.now.data and not before:
            return f"[replaces a binary or large file of {plan.now.size:,} bytes]\n" + unified("", plan.text, name)
        return unified(before, plan.text, name, new=plan.now is None)

    def _plan(self, arguments: Arguments, path: Path) -> Plan:
        """Raises in words whatever stands against the call."""
        known = self._seen.state(str(path))
        try:
            now = present(path, known.encoding if known else None)
        except OSError as error:
            raise in_words(error, arguments.path) from None
        check_markers(arguments.content, now.text if now else "", arguments.path)
        if now is None:
            if arguments.path.endswith("/"):
                raise NotOrdinary(f"{arguments.path} is the name of a directory.")
            return Plan(path, None, arguments.content, Encoding(), Encoding().encode(arguments.content))
        if known is None:
            raise ValueError(f"{arguments.path} exists and was not read yet: read it first, with read_file.")
        if not known.same(now.state):
            raise ValueError(f"{arguments.path} changed since it was read: read it again first.")
        encoding = (now.encoding or Encoding())._replace(damaged=False)
        text = _like(arguments.content, now.text)
        return Plan(path, now, text, encoding, encoding.encode(text))


def _like(text: str, before: str) -> str:
    """The new text with CRLF where every line of the file ended so and none of the new ones does: models write \\n."""
    crlf = before.count("\r\n")
    if crlf and crlf == before.count("\n") and "\r" not in text:
        return text.replace("\n", "\r\n")
    return text
