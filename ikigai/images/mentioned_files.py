"""Which files a message means with @path, and how they are read: only ordinary files, only so much, never waiting.

A mention is an @ at the start of a word and a path behind it: `@cat.png`, `@~/my\\ cat.png`, `@"my cat.png"`. It counts
when that file holds an image, by its first bytes, or when its name ends as an image's does: then it was meant as one,
and if it cannot be read the user has to hear it. E-mail addresses, @names and @files of other kinds are plain words.
"""

import errno
import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO, NamedTuple

from ikigai.core.errors import Refused

PNG, JPEG, WEBP, GIF = "image/png", "image/jpeg", "image/webp", "image/gif"

LARGEST_FILE = 50 << 20
"""Bytes; the longest photos of phones have half of that."""
ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".heic", ".avif")
"""Of names that mean an image, also of kinds that no vendor takes: the user hears which ones can be taken."""

_HEAD = 16
_LONGEST_PATH = 4096
_MENTION = re.compile(r"""(?:^|(?<=[\s(\[{<"'“‘«]))@(?:"([^"\n]+)"|'([^'\n]+)'|((?:\\.|[^\s\\"'])(?:\\.|[^\s\\])*))""")
_AFTER, _MOST_AFTER = ".,;:!?…)]}>\"'”’»", 8
"""Punctuation that may follow a path and is rarely its end, and how many marks of it."""


class Mentioned(NamedTuple):
    """An image that a message means: where it is, and what the user called it."""

    path: Path
    name: str


def recognised(head: bytes) -> str:
    """The media type of what begins with these bytes; empty for anything but a PNG, JPEG, WebP or GIF."""
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return PNG
    if head.startswith(b"\xff\xd8\xff"):
        return JPEG
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return WEBP
    return GIF if head.startswith((b"GIF87a", b"GIF89a")) else ""


def mentioned(text: str) -> bool:
    """Whether `text` has words that may mean a file: a look at the text alone."""
    return "@" in text and _MENTION.search(text) is not None


def mentions(text: str, folder: Path | None = None) -> tuple[Mentioned, ...]:
    """The images that `text` means, each once, in order: see above. Looks at the disk, raises nothing."""
    found = (_meant(match[1] or match[2] or "", match[3] or "", folder) for match in _MENTION.finditer(text))
    return tuple({each.path: each for each in found if each}.values())


def named(words: Iterable[str]) -> tuple[Mentioned, ...]:
    """The images among the words of a command line: those of the form @path, all of it. Looks at the disk."""
    paths = {_path(word[1:], None): word[1:] for word in words if word.startswith("@")}
    return tuple(Mentioned(path, name) for path, name in paths.items() if path and _head(path))


def mention(name: str) -> str:
    """The words that mean the file of this name in a message."""
    plain = not re.search(r"[\s\\\"']", name) and not name.endswith(tuple(_AFTER))
    if plain:
        return f"@{name}"
    if '"' in name and "'" in name:
        return "@" + re.sub(r"""([\s\\"'])""", r"\\\1", name)
    return f"@'{name}'" if '"' in name else f'@"{name}"'


def _meant(quoted: str, bare: str, folder: Path | None) -> Mentioned | None:
    """The image behind one @; None if there is none to be meant."""
    if len(quoted or bare) > _LONGEST_PATH:
        return None
    names = [quoted] if quoted else [each for word in _ways(bare) for each in _shorter(word)]
    for name in names:
        if (path := _path(name, folder)) and _head(path):
            return Mentioned(path, name)
    images = (name for name in names if name.lower().endswith(ENDINGS))
    name = next(images, None)
    return Mentioned(_path(name, folder) or Path(name), name) if name else None


def _ways(word: str) -> list[str]:
    """How a word may be read: as it is, and as shells write paths, a backslash before each blank."""
    return [word, re.sub(r"\\(.)", r"\1", word)] if "\\" in word else [word]


def _shorter(word: str) -> list[str]:
    """The word, and what is left of it when the punctuation behind it is taken away, mark by mark."""
    words = [word]
    while word and word[-1] in _AFTER and len(words) <= _MOST_AFTER:
        word = word[:-1]
        words.append(word)
    return words


def _path(name: str, folder: Path | None) -> Path | None:
    try:
        return Path(folder or "") / Path(name).expanduser()
    except (RuntimeError, ValueError):  # nobody's home
        return None


def _head(path: Path) -> str:
    """The media type of an image's file; empty for every other, and for what cannot be read."""
    try:
        with opened(path) as file:
            return recognised(file.read(_HEAD))
    except (OSError, ValueError):
        return ""


class NotOrdinary(OSError):
    """A pipe, a device or a socket."""


def opened(path: Path) -> BinaryIO:
    """An ordinary file, to be read; nothing else is even opened, for that can wait or do things.

    Raises NotOrdinary, another OSError, and ValueError for what is no path.
    """
    _ordinary(path.stat().st_mode)
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _ordinary(os.fstat(descriptor).st_mode)  # something else may have taken its name meanwhile
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def _ordinary(mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(mode):
        raise NotOrdinary(errno.EINVAL, "no ordinary file")


def read(path: Path, name: str) -> bytes:
    """All of an ordinary file. Raises Refused, calling it `name`."""
    again = "Check the name after the @, or take the @ away."
    try:
        with opened(path) as file:
            return bounded(file, name)
    except IsADirectoryError:
        raise Refused(f"{name} is a folder, not an image.", again) from None
    except NotOrdinary:
        raise Refused(f"{name} is no ordinary file.", "Copy what it holds into a file first.") from None
    except FileNotFoundError:
        raise Refused(f"There is no file {name}.", again) from None
    except ValueError:
        raise Refused(f"{name!r} is no path.", again) from None
    except OSError as error:
        raise Refused(f"{name} cannot be read: {error.strerror or 'it changed meanwhile'}.", again) from None


def bounded(file: BinaryIO, name: str) -> bytes:
    """All of an open file. Raises Refused for one that is too large, and what reading raises."""
    data = file.read(LARGEST_FILE + 1)
    if len(data) > LARGEST_FILE:
        raise Refused(f"{name} is larger than {LARGEST_FILE >> 20} MB.", "Make the image smaller first.")
    return data
