"""Read exports of `json_export` and files that claim to be one: each event is checked before it is believed.

A file that another program has laid out anew is also read, but as a whole. Every refusal names the line, except for a
wrong checksum.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import msgspec

from ikigai.core.errors import Rejected
from ikigai.core.events import codec
from ikigai.core.events.codec import CONTENT_FIELD
from ikigai.core.events.events import Unknown
from ikigai.core.relocation.checksum import Checksum
from ikigai.core.relocation.renumber import RawRow
from ikigai.core.text.sanitize import clean_line, storable
from ikigai.export.json_export import FORMAT, VERSION

MAX_LINE_BYTES = 300_000_000
"""The bytes of the longest line: PostgreSQL keeps no JSON string that is longer."""
MAX_DOCUMENT_BYTES = 1_000_000_000
"""Most bytes of a file that is not laid out in lines."""
MAX_KIND_CHARACTERS = 64
MAX_CLOCK_SKEW_SECONDS = 86_400
"""Seconds by which the clock of the program that stored an event may be ahead of ours."""
NOTHING_IMPORTED = "Nothing was imported."


class _ExportHead(msgspec.Struct):
    format: str
    version: int
    agent: str = ""
    checksum: str = ""
    events: list[msgspec.Raw] | None = None
    count: int | None = None
    sha256: str = ""


class _End(msgspec.Struct):
    count: int
    sha256: str = ""


class _ImportedEvent(msgspec.Struct):
    id: int
    at: datetime
    kind: str
    agent: str = ""
    seq: int = 0
    content: str | None = None
    data: msgspec.Raw = msgspec.Raw(b"null")


_HEAD, _EVENT, _END = (
    msgspec.json.Decoder(_ExportHead),
    msgspec.json.Decoder(_ImportedEvent),
    msgspec.json.Decoder(_End),
)
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_BEHIND = ("events", "count", "sha256")
"""Fields that are not in the metadata at the beginning of a file."""
_LAYOUT = b'"events":['


class ImportReader:
    """A reader of one file. `agent` is the name of its agent; `size` is in bytes, of which `done` are read.

    `has_checksum` says, once all rows are read, that the file had a checksum and matched it.
    """

    def __init__(self, path: Path, file: BinaryIO, size: int) -> None:
        """Read the metadata of the file. Raise Rejected for a wrong file."""
        self._path, self._file, self.size = path, file, size
        self._line, self._last, self._latest = 0, 0, time.time() + MAX_CLOCK_SKEW_SECONDS
        self._trailer = _End(0)  # count and checksum of the events, from the file
        self._sum = Checksum()
        self.has_checksum = False
        self.done = 0
        first = self._next()
        self._listed = first.endswith(_LAYOUT)
        self._whole: _ExportHead | None = None
        head, fields = _beginning(first + b"]}" if self._listed else first) or self._laid_out_anew(first)
        if head.format != FORMAT:
            self._foreign()
        if head.version != VERSION:
            self._refuse(
                f"the format has version {head.version}, this ikigai knows {VERSION}", "Install a newer ikigai."
            )
        if head.events is not None and not self._listed:
            self._whole = head
        self._declared = head.checksum
        self._sum.add(fields)
        self.agent = head.agent

    def rows(self) -> Iterator[RawRow]:
        """Yield the events, ascending.

        Raise Rejected at the first item that is not an event, at a wrong end, and for a wrong checksum.
        """
        count = 0
        for text in self._texts():
            yield self._row(text)
            self._sum.add(text)
            count += 1
        if self._trailer.count != count:
            self._refuse(f"it has {count:,} events instead of {self._trailer.count:,}", "Export it again.")
        self.has_checksum = bool(self._declared or self._trailer.sha256)
        if self.has_checksum and self._trailer.sha256 != self._sum.digits:
            raise Rejected(
                f"{self._path} is damaged or was changed: its checksum does not match. {NOTHING_IMPORTED}",
                "Export it again; if you changed it yourself, remove `checksum` and `sha256`.",
            )

    def place(self, number: int) -> str:
        """Return the place of the event `number`, counted from 1."""
        return f"event {number}" if self._whole else f"line {number + 1}"

    # ── lines ──

    def _texts(self) -> Iterator[bytes]:
        """Yield the JSON text of each event; set the count and the checksum from the file."""
        if self._whole:
            self._line = 0
            for text in self._whole.events or ():
                self._line += 1
                yield bytes(text)
            count = self._whole.count if self._whole.count is not None else self._cut_off()
            self._trailer = _End(count, self._whole.sha256)
            return
        while True:
            text = self._next()
            if end := self._end(text):
                break
            yield text.removesuffix(b",") if self._listed else text
        self._trailer = end
        if self._file.read(1):
            self._line += 1
            self._refuse("there is more after the end", "Import files one by one.")

    def _end(self, text: bytes) -> _End | None:
        """Return the content of the last line; None for any other line."""
        if not text.startswith(b'],"count":' if self._listed else b'{"count":'):
            return None
        try:
            return _END.decode(b"{" + text[2:] if self._listed else text)
        except (msgspec.DecodeError, UnicodeDecodeError):
            self._damaged("the count is not valid")

    def _next(self) -> bytes:
        text = self._file.readline(MAX_LINE_BYTES)
        self._line += 1
        self.done += len(text)
        if not text:
            self._foreign() if self._line == 1 else self._cut_off()
        if len(text) == MAX_LINE_BYTES:
            self._foreign() if self._line == 1 else self._refuse("it is too long", "Remove it from the file.")
        return text.rstrip(b"\r\n")

    def _laid_out_anew(self, first: bytes) -> tuple[_ExportHead, bytes]:
        """Return the metadata of a file that is one object."""
        if not first.lstrip().startswith(b"{") or self.size > MAX_DOCUMENT_BYTES:
            self._foreign()
        head = _beginning(first + b"\n" + self._file.read())
        self.done = self.size
        return head or self._foreign()

    # ── events ──

    def _row(self, text: bytes) -> RawRow:
        try:
            event = _EVENT.decode(text)
            data = None if bytes(event.data) == b"null" else bytes(event.data).decode()
            if data is not None and not data.startswith("{"):
                self._damaged("`data` is not an object")
            if data is not None and "\\u" in data and not _storable(msgspec.json.decode(data)):
                self._damaged("`data` contains a character that the database cannot store")
            found = codec.decode(event.kind, event.content, data)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            self._damaged(clean_line(str(error))[:200].rstrip("."))
        except RecursionError:
            self._damaged("it is nested too deep")
        if not self._last < event.id < 2**63:
            self._damaged(f"the id {event.id} does not ascend")
        if not 0 < len(event.kind) <= MAX_KIND_CHARACTERS or not event.kind.isprintable():
            self._damaged("that is not a kind of event")
        if storable(event.content or "") != (event.content or ""):
            self._damaged("`content` contains a character that the database cannot store")
        if isinstance(found, Unknown) and event.kind in CONTENT_FIELD:
            self._damaged(f"this is not a valid event of the kind {event.kind}")
        if event.at.tzinfo is None or not 0 <= (at := event.at.timestamp()) <= self._latest:
            self._damaged("its time is not valid")
        self._last = event.id
        return RawRow(event.id, event.agent, event.seq, at, event.kind, event.content, data)

    # ── refusals ──

    def _damaged(self, why: str) -> NoReturn:
        self._refuse(why, "Export it again, or repair that line.")

    def _cut_off(self) -> NoReturn:
        self._refuse("the file is incomplete", "Export it again.")

    def _foreign(self) -> NoReturn:
        raise Rejected(
            f"{self._path} is not a history that ikigai exported. {NOTHING_IMPORTED}",
            "Use a .json or .jsonl file of /export.",
        )

    def _refuse(self, why: str, remedy: str) -> NoReturn:
        where = f"event {self._line}" if self._whole else f"line {self._line}"
        raise Rejected(f"{self._path}, {where}: {why}. {NOTHING_IMPORTED}", remedy)


def _beginning(text: bytes) -> tuple[_ExportHead, bytes] | None:
    """Return the metadata of a file, and its fields as JSON; None for another file."""
    try:
        fields = {name: raw for name, raw in _FIELDS.decode(text).items() if name not in _BEHIND}
        return _HEAD.decode(text), msgspec.json.encode(fields)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _storable(value: Any) -> bool:
    match value:
        case str():
            return storable(value) == value
        case list():
            return all(map(_storable, value))
        case dict():
            return all(_storable(key) and _storable(item) for key, item in value.items())
        case _:
            return True
