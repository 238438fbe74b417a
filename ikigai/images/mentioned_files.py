"""This module finds the files that a message means with @path, and reads them: only ordinary files, with a size limit,
never waiting.

A mention is an @ at the start of a word and a path behind it: `@cat.png`, `@~/my\\ cat.png`, `@"my cat.png"`. It counts
when that file holds an image, by its first bytes. It also counts when its name ends as an image's does: then it was
meant as one, and the user has to hear of a failure. E-mail addresses, @names and @files of other kinds are plain words.
"""

import errno
import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO, NamedTuple

from ikigai.core.errors import Rejected

PNG, JPEG, WEBP, GIF = "image/png", "image/jpeg", "image/webp", "image/gif"

MAX_PICTURE_FILE_BYTES = 50 << 20
"""Most bytes of an image file; the longest photos of phones have half of that."""
PICTURE_ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".heic", ".avif")
"""Endings of names that mean an image, also of kinds that no vendor takes: the error names the possible kinds."""

_HEAD = 16
_LONGEST_PATH = 4096
_MENTION = re.compile(r"""(?:^|(?<=[\s(\[{<"'“‘«]))@(?:"([^"\n]+)"|'([^'\n]+)'|((?:\\.|[^\s\\"'])(?:\\.|[^\s\\])*))""")
_AFTER, _MOST_AFTER = ".,;:!?…)]}>\"'”’»", 8
"""Punctuation that may follow a path and is rarely its end, and the most marks of it."""


class MentionedImage(NamedTuple):
    """An image that a message means: its path, and the user's name for it."""

    path: Path
    name: str


def media_type_of(head: bytes) -> str:
    """Return the media type for the first bytes of a file; "" for all but a PNG, JPEG, WebP or GIF."""
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return PNG
    if head.startswith(b"\xff\xd8\xff"):
        return JPEG
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return WEBP
    return GIF if head.startswith((b"GIF87a", b"GIF89a")) else ""


def may_mention(text: str) -> bool:
    """Return True if `text` has words that may mean a file; read the text alone."""
    return _MENTION.search(text) is not None


def find_mentions(text: str, folder: Path | None = None) -> tuple[MentionedImage, ...]:
    """Return the images that `text` means, each once, in order: see above. Read the disk, raise nothing."""
    found = (_meant(match[1] or match[2] or "", match[3] or "", folder) for match in _MENTION.finditer(text))
    return tuple({each.path: each for each in found if each}.values())


def find_named(words: Iterable[str]) -> tuple[MentionedImage, ...]:
    """Return the images among the words of a command line: those of the form @path, all of it. Read the disk."""
    paths = {_path(word[1:], None): word[1:] for word in words if word.startswith("@")}
    return tuple(MentionedImage(path, name) for path, name in paths.items() if path and _head(path))


def mention(name: str) -> str:
    """Return the words that mean the file of this name in a message."""
    plain = not re.search(r"[\s\\\"']", name) and not name.endswith(tuple(_AFTER))
    if plain:
        return f"@{name}"
    if '"' in name and "'" in name:
        return "@" + re.sub(r"""([\s\\"'])""", r"\\\1", name)
    return f"@'{name}'" if '"' in name else f'@"{name}"'


def _meant(quoted: str, bare: str, folder: Path | None) -> MentionedImage | None:
    """Return the image behind one @; None if no image is meant."""
    if len(quoted or bare) > _LONGEST_PATH:
        return None
    names = [quoted] if quoted else [each for word in _ways(bare) for each in _shorter(word)]
    for name in names:
        if (path := _path(name, folder)) and _head(path):
            return MentionedImage(path, name)
    images = (name for name in names if name.lower().endswith(PICTURE_ENDINGS))
    name = next(images, None)
    return MentionedImage(_path(name, folder) or Path(name), name) if name else None


def _ways(word: str) -> list[str]:
    """Return the readings of a word: as it is, and as shells write paths, a backslash before each blank."""
    return [word, re.sub(r"\\(.)", r"\1", word)] if "\\" in word else [word]


def _shorter(word: str) -> list[str]:
    """Return the word, then the word without the punctuation behind it, mark by mark."""
    words = [word]
    while word and word[-1] in _AFTER and len(words) <= _MOST_AFTER:
        word = word[:-1]
        words.append(word)
    return words


def _path(name: str, folder: Path | None) -> Path | None:
    try:
        return Path(folder or "") / Path(name).expanduser()
    except (RuntimeError, ValueError):  # no home folder of that name
        return None


def _head(path: Path) -> str:
    """Return the media type of an image's file; "" for every other, and for an unreadable one."""
    try:
        with open_picture(path) as file:
            return media_type_of(file.read(_HEAD))
    except (OSError, ValueError):
        return ""


class SpecialFile(OSError):
    """A pipe, a device or a socket."""


def open_picture(path: Path) -> BinaryIO:
    """Open an ordinary file for reading; do not even open others, for that can wait or have effects.

    Raise SpecialFile, another OSError, and ValueError for a text that is no path.
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
        raise SpecialFile(errno.EINVAL, "no ordinary file")


def read(path: Path, name: str) -> bytes:
    """Return all of an ordinary file. Raise Rejected, calling it `name`."""
    again = "Check the name after the @, or take the @ away."
    try:
        with open_picture(path) as file:
            return read_bounded(file, name)
    except IsADirectoryError:
        raise Rejected(f"{name} is a folder, not an image.", again) from None
    except SpecialFile:
        raise Rejected(f"{name} is no ordinary file.", "Copy what it holds into a file first.") from None
    except FileNotFoundError:
        raise Rejected(f"There is no file {name}.", again) from None
    except ValueError:
        raise Rejected(f"{name!r} is no path.", again) from None
    except OSError as error:
        raise Rejected(f"{name} cannot be read: {error.strerror or 'it changed meanwhile'}.", again) from None


def read_bounded(file: BinaryIO, name: str) -> bytes:
    """Return all of an open file. Raise Rejected for one that is too large, and the errors of reading."""
    data = file.read(MAX_PICTURE_FILE_BYTES + 1)
    if len(data) > MAX_PICTURE_FILE_BYTES:
        raise Rejected(f"{name} is larger than {MAX_PICTURE_FILE_BYTES >> 20} MB.", "Make the image smaller first.")
    return data
