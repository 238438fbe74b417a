"""Histories as JSON and as JSON lines: all that the log says, for programs, and to be imported again.

Both have an event on each line. JSONL begins with a line that says what it is and ends with one that counts the
events, so that a file that was cut off is known, and has their checksum; in JSON these are the fields around the list
`events`. What the fields mean is written in the README; whoever changes that changes VERSION.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

from ikigai import __version__
from ikigai.core.transfer.renumber import Raw
from ikigai.export.checksum import Checksum

FORMAT, VERSION = "ikigai-history", 1


class About(NamedTuple):
    """What is exported: the agent's name, the ids asked for (both included), how many events, and when (since 1970)."""

    agent: str
    first: int
    last: int | None
    events: int
    at: float


def head(about: About) -> dict[str, Any]:
    """The fields that say what a file is."""
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


class Jsonl:
    """One object per line: what it is, the events, their count and checksum."""

    def begin(self, about: About) -> Iterator[str]:
        self._count, self._sum = 0, Checksum()
        yield _added(self._sum, _json(head(about))) + "\n"

    def rows(self, page: list[Raw]) -> Iterator[str]:
        for raw in page:
            yield _added(self._sum, _event(raw)) + "\n"
        self._count += len(page)

    def end(self) -> Iterator[str]:
        yield _json({"count": self._count, "sha256": self._sum.digits}) + "\n"


class Json:
    """One object; its list `events` has a line for each."""

    def begin(self, about: About) -> Iterator[str]:
        self._count, self._sum = 0, Checksum()
        yield _added(self._sum, _json(head(about)))[:-1] + ',"events":['

    def rows(self, page: list[Raw]) -> Iterator[str]:
        for raw in page:
            yield ",\n" * bool(self._count) or "\n"
            yield _added(self._sum, _event(raw))
            self._count += 1

    def end(self) -> Iterator[str]:
        yield "\n]," + _json({"count": self._count, "sha256": self._sum.digits})[1:] + "\n"


def _added(checksum: Checksum, text: str) -> str:
    checksum.add(text.encode())
    return text


def _event(raw: Raw) -> str:
    fields: dict[str, Any] = {"id": raw.id, "agent": raw.agent, "seq": raw.seq, "at": _time(raw.at), "kind": raw.kind}
    if raw.content is not None:
        fields["content"] = raw.content
    if raw.data is not None:
        fields["data"] = msgspec.Raw(raw.data)  # numbers as they are, whatever their size
    return _json(fields)


def _time(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)


def _json(value: Any) -> str:
    """JSON on one line. What a terminal might obey, or hide, is escaped: it is the same to whoever reads JSON."""
    text = msgspec.json.encode(value).decode()
    return text if text.isprintable() else _UNSEEN.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    """All that is not printable stands within strings here: JSON has escaped line breaks and controls already."""
    if found[0].isprintable():
        return found[0]
    units = found[0].encode("utf-16-be")
    return "".join(f"\\u{units[n] << 8 | units[n + 1]:04x}" for n in range(0, len(units), 2))


_UNSEEN = re.compile(r"[^\x20-\x7e]")
