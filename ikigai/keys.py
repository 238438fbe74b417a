"""API keys that `ikigai login` stores: one private file, read when a key is needed and never held longer.

    names     the providers that have a key in it
    find      the key of one
    store     put one in
    remove    take one out
    checked   what was typed or piped in, as a key

The file is a JSON object, provider → key, in a folder that is its owner's alone. No error in here shows a key.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

from ikigai.core.errors import ConfigError, IkigaiError, Refused

FILE = "keys.json"
"""Its name, in the configuration folder."""
LONGEST = 8_192
"""Characters of a key: tokens of sign-in services have thousands."""
MOST_BYTES = 1_000_000


def names(file: Path) -> list[str]:
    """The providers that have a key. Raises ConfigError when the file cannot be read."""
    return list(_read(file))


def find(file: Path, provider: str) -> str:
    """The key of a provider, "" if there is none. Raises ConfigError when the file cannot be read."""
    return _read(file).get(provider, "")


def store(file: Path, provider: str, key: str) -> None:
    """Put a key in, over the one that was there: whole or not at all. Raises IkigaiError."""
    with _changing(file) as kept:
        kept[provider] = key


def remove(file: Path, provider: str) -> bool:
    """Take a provider's key out; False when there was none. Raises IkigaiError."""
    with _changing(file) as kept:
        return kept.pop(provider, None) is not None


def checked(text: str) -> str:
    """A key as it was typed or piped in, without the blanks around it. Raises Refused, in words without it."""
    key = text.strip()
    if not key:
        raise Refused("There is no key in what was given.", "Paste the key alone; nothing was stored.")
    if len(key) > LONGEST or not all("!" <= character <= "~" for character in key):
        raise Refused(
            "This is no key: it holds a space, a line break or a character that no key has, or is far too long.",
            "Copy it again, without what stands around it; nothing was stored.",
        )
    return key


def _read(file: Path) -> dict[str, str]:
    try:
        with file.open("rb") as opened:
            if os.fstat(opened.fileno()).st_mode & 0o077:
                with contextlib.suppress(OSError):  # not ours to change: what it holds is still the user's
                    os.fchmod(opened.fileno(), 0o600)
            content = opened.read(MOST_BYTES)
        return msgspec.json.decode(content, type=dict[str, str])
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}.", "Let it be a file of yours.") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise ConfigError(
            f"{file} is damaged: it should hold the keys of `ikigai login`.", "Delete it, and log in again."
        ) from None


@contextlib.contextmanager
def _changing(file: Path) -> Iterator[dict[str, str]]:
    """The keys, to be changed: one program at a time, and a file with what they are afterwards takes its place."""
    made: Path | None = None
    try:
        folder = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            kept = _read(file)
            before = dict(kept)
            yield kept
            if kept == before:
                return
            handle, name = tempfile.mkstemp(prefix=f".{file.name}-", dir=file.parent)  # readable by its owner alone
            made = Path(name)
            with os.fdopen(handle, "wb") as opened:
                opened.write(msgspec.json.format(msgspec.json.encode(kept)) + b"\n")
                opened.flush()
                os.fsync(handle)
            made.replace(file)
            made = None
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise IkigaiError(
            f"{file} cannot be written: {error.strerror}.", "Check the folder's permissions, and the disk."
        ) from None
    finally:
        if made:
            made.unlink(missing_ok=True)
