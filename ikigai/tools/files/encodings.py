"""Text files as they are: which encoding, byte order mark and line ends a file has, and how it keeps them.

What is not UTF-8 is read as Windows-1252 or Latin-1, in which every byte means something, unless a mark or somebody
names another encoding. A file that is UTF-8 but for a few bytes stays UTF-8: those bytes are carried along.
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
_BINARY_LOOK = 8000
"""Bytes in which a NUL means binary, as git has it."""
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\r\f\b\x1b"))
_KNOWN = re.compile(
    r"ascii|utf-?(8|16|32)(-(le|be|sig))?|iso8859-\d+|cp\d+|koi8-\w|mac-\w+|shift_jis\w*|euc_\w+|gb\w+|big5\w*|hz|"
    r"iso2022_\w+|tis-620|johab|ptcp154|kz1048"
)
_NAMES = {"utf-8": "UTF-8", "cp1252": "Windows-1252", "iso8859-1": "Latin-1"}


class Encoding(NamedTuple):
    """How the text of a file is written: Python's name of the encoding, and the byte order mark the file begins with.

    `damaged`: it is UTF-8 with bytes that are not; they are surrogates in the text (PEP 383).
    """

    name: str = "utf-8"
    mark: bytes = b""
    damaged: bool = False

    @property
    def shown(self) -> str:
        """For a model; "" for plain UTF-8, which needs no word."""
        name = _NAMES.get(self.name, self.name)
        if self.damaged:
            return f"{name} with invalid bytes, shown as \ufffd"
        mark = " with a byte order mark" if self.mark else ""
        return "" if (name, mark) == ("UTF-8", "") else f"{name}{mark}"

    def decode(self, data: bytes) -> str:
        """The text of a whole file, its line ends as they are. UnicodeDecodeError, a ValueError, where it has none."""
        return data[len(self.mark) :].decode(self.name, "surrogateescape" if self.damaged else "strict")

    def encode(self, text: str) -> bytes:
        """ValueError, in words, when the encoding has not all of these characters."""
        try:
            return self.mark + text.encode(self.name, "surrogateescape" if self.damaged else "strict")
        except UnicodeEncodeError as error:
            character = error.object[error.start]
            shown = f"U+{ord(character):04X}" + (f" ({character})" if character.isprintable() else "")
            name = _NAMES.get(self.name, self.name)
            raise ValueError(f"{name}, the encoding of the file, cannot hold {shown}; nothing was written.") from None


def known(label: str) -> str:
    """Python's name of the encoding that is called so, "" for none that text is written in."""
    try:
        name = codecs.lookup(label.strip().strip("'\"")).name
    except (LookupError, ValueError):
        return ""
    return name if _KNOWN.fullmatch(name) else ""


def named(label: str, data: bytes) -> Encoding:
    """The encoding that somebody says a file has. ValueError for one that does not exist or does not fit."""
    name = known(label)
    if not name:
        raise ValueError(f"there is no encoding {label!r}.")
    found = marked(data)
    if found and (found.name == name or found.name.startswith(name)):
        return found
    without = {"ascii": "utf-8", "utf-8-sig": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}
    encoding = Encoding(without.get(name, name))
    try:
        encoding.decode(data)
    except UnicodeDecodeError as error:
        raise ValueError(f"the file is not in {label}: {error.reason} at byte {error.start:,}.") from None
    return encoding


def marked(data: bytes) -> Encoding | None:
    """What the byte order mark says."""
    return next((Encoding(name, mark) for mark, name in _MARKS if data.startswith(mark)), None)


def recognised(data: bytes, *, whole: bool = True) -> Encoding | None:
    """The encoding of a file with these bytes, None for a binary one; with `whole` false they are only its begin."""
    found = marked(data)
    if found:
        try:
            if whole:
                found.decode(data)
            return found
        except UnicodeDecodeError:
            return found._replace(damaged=True) if found.name == "utf-8" else None
    if b"\0" in data[:_BINARY_LOOK]:
        return None
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        decoder.decode(data, final=whole)
        return Encoding()
    except UnicodeDecodeError:
        return _not_utf8(data)


def _not_utf8(data: bytes) -> Encoding | None:
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


def line_ends(text: str) -> str:
    """How the lines of a text end, for a model: "" for what needs no word."""
    crlf = text.count("\r\n")
    if not crlf:
        return ""
    return "CRLF line ends" if crlf == text.count("\n") else "mixed line ends"


def visible(text: str) -> str:
    """The text with U+FFFD for bytes that were not UTF-8."""
    return re.sub("[\udc80-\udcff]", "\ufffd", text)
