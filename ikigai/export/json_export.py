"""Export histories as JSON and as JSON lines: the whole log, for programs, and to be imported again.

Both have an event on each line. JSONL begins with a line of metadata. It ends with a line that has the count and the
checksum of the events, so that a truncated file is recognized. In JSON these are the fields around the list `events`.
docs/reference/export-format.md explains the fields; a change of their meaning changes VERSION.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from ikigai import __version__
from ikigai.core.relocation.checksum import Checksum
from ikigai.core.relocation.renumber import RawRow

FORMAT, VERSION = "ikigai-history", 1


class ExportInfo(NamedTuple):
    """The metadata of an export: the agent's name, the ids asked for (both included), the number of events, and the
    time (since 1970).
    """

    agent: str
    first: int
    last: int | None
    events: int
    at: float


def export_head(about: ExportInfo) -> dict[str, Any]:
    """Return the fields that describe a file."""
    asked = {"from": about.first or None, "to": about.last}
    return {
        "format": FORMAT,
        "version": VERSION,
        "agent": about.agent,
        "exported_at": _time(about.at),
        "program": f"ikigai {__version__}",
        "checksum": "sha256",
        **{name: id for name, id in asked.items() if id is not None},
    }


class JsonlExport:
    """One object per line: the metadata, the events, their count and checksum."""

    def begin(self, about: ExportInfo) -> Iterator[str]:
        self._count, self._sum = 0, Checksum()
        yield _added(self._sum, _json(export_head(about))) + "\n"

    def rows(self, page: list[RawRow]) -> Iterator[str]:
        for raw in page:
            yield _added(self._sum, _event(raw)) + "\n"
        self._count += len(page)

    def end(self) -> Iterator[str]:
        yield _json({"count": self._count, "sha256": self._sum.digits}) + "\n"


class JsonExport:
    """One object; its list `events` has a line for each."""

    def begin(self, about: ExportInfo) -> Iterator[str]:
        self._count, self._sum = 0, Checksum()
        yield _added(self._sum, _json(export_head(about)))[:-1] + ',"events":['

    def rows(self, page: list[RawRow]) -> Iterator[str]:
        for raw in page:
            yield ",\n" * bool(self._count) or "\n"
            yield _added(self._sum, _event(raw))
            self._count += 1

    def end(self) -> Iterator[str]:
        yield "\n]," + _json({"count": self._count, "sha256": self._sum.digits})[1:] + "\n"


def _added(checksum: Checksum, text: str) -> str:
    checksum.add(text.encode())
    return text


def _event(raw: RawRow) -> str:
    fields: dict[str, Any] = {"id": raw.id, "agent": raw.agent, "seq": raw.seq, "at": _time(raw.at), "kind": raw.kind}
    if raw.content is not None:
        fields["content"] = raw.content
    if raw.data is not None:
        fields["data"] = msgspec.Raw(raw.data)  # numbers as they are, whatever their size
    return _json(fields)


def _time(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)


def _json(value: Any) -> str:
    """Return JSON on one line, with all characters escaped that a terminal might obey or hide: a JSON reader gets them
    back.
    """
    text = msgspec.json.encode(value).decode()
    return text if text.isprintable() else _UNSEEN.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    """Return the JSON escape of an unprintable character in a string: JSON has escaped line breaks and controls
    already.
    """
    if found[0].isprintable():
        return found[0]
    units = found[0].encode("utf-16-be")
    return "".join(f"\\u{units[n] << 8 | units[n + 1]:04x}" for n in range(0, len(units), 2))


_UNSEEN = re.compile(r"[^\x20-\x7e]")
