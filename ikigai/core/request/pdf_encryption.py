"""Tell if a PDF is encrypted, by its trailers, which are neither encrypted nor compressed.

A trailer stands behind a table of cross-references, or in the object of a stream of them. The end of the file names the
place of the newest one, and each names the one before it. Texts and other objects may have the same words, and to read
all of a large file would hold up keys.
"""

import base64
import re
from collections.abc import Iterator

END_BYTES = 2_048
"""Bytes at the end of a file in which the place of the newest trailer stands: PDF demands 1,024."""
MAX_TRAILER_BYTES = 65_536
MAX_TRAILERS = 64
"""Trailers that are read, the newest first: each saved change adds one."""
MAX_SECTIONS = 2_000
"""Sections of a table that are skipped on the way to its trailer; most tables have one."""
ENTRY_BYTES = 20
"""Bytes of an entry in a table of cross-references, by PDF's definition."""

_ENCRYPT = re.compile(rb"/Encrypt\s*(\d+\s+\d+\s+R\b|<<)")
_STRING = re.compile(rb"\((?:\\.|[^\\()])*\)", re.DOTALL)
_NEWEST = re.compile(rb"startxref\s+(\d+)")
_PREVIOUS = re.compile(rb"/Prev\s+(\d+)")
_TABLE = re.compile(rb"\s*xref\s+")
_SECTION = re.compile(rb"\s*\d+\s+(\d+)\s*?[\r\n]")
_OBJECT = re.compile(rb"\s*\d+\s+\d+\s+obj\b")


def is_encrypted(pdf: str) -> bool:
    """Return True if a PDF, in base64, is encrypted; False if it cannot be read."""
    try:
        return any(_ENCRYPT.search(trailer) for trailer in _trailers(pdf))
    except ValueError:
        return False


def _trailers(pdf: str) -> Iterator[bytes]:
    """Yield the trailers without their strings, the newest first."""
    size = len(pdf) // 4 * 3
    places = _NEWEST.findall(_bytes_at(pdf, size - END_BYTES, END_BYTES))
    place, read = int(places[-1]) if places else size, set[int]()
    while place not in read and len(read) < MAX_TRAILERS:
        trailer = _STRING.sub(b"()", _trailer_at(pdf, place) or (b"" if read else _last_trailer(pdf, size)))
        yield trailer
        read.add(place)
        previous = _PREVIOUS.search(trailer)
        place = int(previous[1]) if previous else place


def _trailer_at(pdf: str, place: int) -> bytes:
    """Return the trailer of the cross-references at this place, or b""."""
    start = _bytes_at(pdf, place, MAX_TRAILER_BYTES)
    if _OBJECT.match(start):
        trailer = start.partition(b"stream")[0]
        return trailer if b"/XRef" in trailer else b""
    if not (table := _TABLE.match(start)):
        return b""
    place += table.end()
    for _ in range(MAX_SECTIONS):
        if not (section := _SECTION.match(_bytes_at(pdf, place, 64))):
            break
        place += section.end() + int(section[1]) * ENTRY_BYTES
    return _up_to_end(_bytes_at(pdf, place, MAX_TRAILER_BYTES).lstrip())


def _last_trailer(pdf: str, size: int) -> bytes:
    """Return the last trailer of a file that names a wrong place; b"" if it has none near its end."""
    end = _bytes_at(pdf, size - MAX_TRAILER_BYTES, MAX_TRAILER_BYTES)
    return _up_to_end(end[max(end.rfind(b"trailer"), 0) :])


def _up_to_end(trailer: bytes) -> bytes:
    return trailer.partition(b"startxref")[0] if trailer.startswith(b"trailer") else b""


def _bytes_at(pdf: str, place: int, size: int) -> bytes:
    """Return these bytes of a file in base64, without decoding the rest."""
    begin, end = max(place, 0), max(place + size, 0)
    return base64.b64decode(pdf[begin // 3 * 4 : -(-end // 3) * 4])[begin % 3 :][: end - begin]
