"""Recognize encoding, byte order mark and line ends of a text file, and preserve them.

A file that is not UTF-8 is read as Windows-1252 or Latin-1, in which every byte is valid, unless a mark or the call
names another encoding. A file that is UTF-8 except for a few bytes stays UTF-8 and keeps those bytes.
"""

from __future__ import annotations

import codecs
import re
from typing import NamedTuple

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # begins like UTF-16's, so it comes first
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_BINARY_CHECK_BYTES = 8000
"""Bytes at the beginning in which a NUL means a binary file, as in git."""
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\r\f\b\x1b"))
_TEXT_ENCODINGS = (
    r"ascii|utf-?(8|16|32)(-(le|be|sig))?|iso8859-\d+|cp\d+|koi8-\w|mac-\w+|shift_jis\w*|euc_\w+|gb\w+|big5\w*|hz|"
    r"iso2022_\w+|tis-620|johab|ptcp154|kz1048"
)
_NAMES = {"utf-8": "UTF-8", "cp1252": "Windows-1252", "iso8859-1": "Latin-1"}


class Encoding(NamedTuple):
    """Encoding of a file: Python's name of it, and the byte order mark at its beginning.

    `damaged` marks UTF-8 with invalid bytes, which are surrogates in the text (PEP 383).
    """

    name: str = "utf-8"
    mark: bytes = b""
    damaged: bool = False

    @property
    def shown(self) -> str:
        """Description for a model; "" for plain UTF-8."""
        name = _NAMES.get(self.name, self.name)
        if self.damaged:
            return f"{name} with invalid bytes, shown as \ufffd"
        mark = " with a byte order mark" if self.mark else ""
        return "" if (name, mark) == ("UTF-8", "") else f"{name}{mark}"

    def decode(self, data: bytes) -> str:
        """Return the text of a whole file, line ends included. Raise UnicodeDecodeError (ValueError) on failure."""
        return data[len(self.mark) :].decode(self.name, "surrogateescape" if self.damaged else "strict")

    def encode(self, text: str) -> bytes:
        """Return the bytes of a whole file. Raise ValueError, in words, if the encoding lacks a character."""
        try:
            return self.mark + text.encode(self.name, "surrogateescape" if self.damaged else "strict")
        except UnicodeEncodeError as error:
            character = error.object[error.start]
            shown = f"U+{ord(character):04X}" + (f" ({character})" if character.isprintable() else "")
            name = _NAMES.get(self.name, self.name)
            raise ValueError(
                f"{name}, the encoding of the file, cannot represent {shown}; nothing was written."
            ) from None


def python_encoding(label: str) -> str:
    """Return Python's name of the encoding with this label, "" for none that is used for text."""
    try:
        name = codecs.lookup(label.strip().strip("'\"")).name
    except (LookupError, ValueError):
        return ""
    return name if re.fullmatch(_TEXT_ENCODINGS, name) else ""


def named_encoding(label: str, data: bytes) -> Encoding:
    """Return the encoding that a call names. Raise ValueError if it does not exist or does not fit `data`."""
    name = python_encoding(label)
    if not name:
        raise ValueError(f"{label!r} is not a known encoding.")
    by_mark = encoding_of_mark(data)
    if by_mark and (by_mark.name == name or by_mark.name.startswith(name)):
        return by_mark
    without = {"ascii": "utf-8", "utf-8-sig": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}
    encoding = Encoding(without.get(name, name))
    try:
        encoding.decode(data)
    except UnicodeDecodeError as error:
        raise ValueError(f"the file is not in {label}: {error.reason} at byte {error.start:,}.") from None
    return encoding


def encoding_of_mark(data: bytes) -> Encoding | None:
    """Return the encoding that the byte order mark names, None without a mark."""
    return next((Encoding(name, mark) for mark, name in _MARKS if data.startswith(mark)), None)


def recognize_encoding(data: bytes, *, whole: bool = True) -> Encoding | None:
    """Return the encoding of a file, None for a binary one. Without `whole`, `data` is only its beginning."""
    by_mark = encoding_of_mark(data)
    if by_mark:
        try:
            if whole:
                by_mark.decode(data)
            return by_mark
        except UnicodeDecodeError:
            return by_mark._replace(damaged=True) if by_mark.name == "utf-8" else None
    if b"\0" in data[:_BINARY_CHECK_BYTES]:
        return None
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        decoder.decode(data, final=whole)
        return Encoding()
    except UnicodeDecodeError:
        return _recognize_legacy(data)


def first_binary_byte(data: bytes) -> int:
    """Return the offset of the first byte of a binary file that text does not have."""
    if mark := encoding_of_mark(data):
        try:
            mark.decode(data)
        except UnicodeDecodeError as error:
            return len(mark.mark) + error.start
    return next((offset for offset, byte in enumerate(data) if byte in _CONTROLS), 0)


def _recognize_legacy(data: bytes) -> Encoding | None:
    if len(data) - len(data.translate(None, _CONTROLS)) > len(data) // 20:
        return None
    text = data.decode("utf-8", "surrogateescape")
    invalid = len(re.findall("[\udc80-\udcff]", text))
    if sum(map(len, re.findall("[^\0-\x7f\udc80-\udcff]+", text))) > invalid:
        return Encoding(damaged=True)
    try:
        data.decode("cp1252")
    except UnicodeDecodeError:
        return Encoding("iso8859-1")
    # between 0x80 and 0x9f Latin-1 has controls that no text needs
    return Encoding("cp1252" if re.search(rb"[\x80-\x9f]", data) else "iso8859-1")


def describe_line_ends(text: str) -> str:
    """Return a description of the line ends for a model; "" for plain \\n."""
    crlf = text.count("\r\n")
    if not crlf:
        return ""
    return "CRLF line endings" if crlf == text.count("\n") else "mixed line endings"


def visible_text(text: str) -> str:
    """Return the text with U+FFFD for bytes that were not UTF-8."""
    return re.sub("[\udc80-\udcff]", "\ufffd", text)
