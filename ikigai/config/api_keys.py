"""API keys that `ikigai login` stores: one private file, read when a key is needed and never held longer.

    names     the providers that have a key in it
    find      the key of one
    stored    all of them, by provider
    store     put one in
    remove    take one out
    checked   what was typed or piped in, as a key

The file is a JSON object, provider → key, in a folder that is its owner's alone. No error in here shows a key.
"""

from __future__ import annotations

from pathlib import Path

from ikigai.core.errors import Refused
from ikigai.system import paths, private_json

FILE = "keys.json"
"""Its name, in the configuration folder."""
LONGEST = 8_192
"""Characters of a key: tokens of sign-in services have thousands."""
_DAMAGED = ("the keys of `ikigai login`", "Delete it, and log in again.")


def default_file() -> Path:
    """Return the file of `ikigai login`."""
    return paths.config_dir() / FILE


def names(file: Path) -> list[str]:
    """The providers that have a key. Raises ConfigError when the file cannot be read."""
    return list(_read(file))


def find(file: Path, provider: str) -> str:
    """The key of a provider, "" if there is none. Raises ConfigError when the file cannot be read."""
    return _read(file).get(provider, "")


def stored(file: Path) -> dict[str, str]:
    """Return the key of each provider. Raises ConfigError when the file cannot be read."""
    return dict(_read(file))


def store(file: Path, provider: str, key: str) -> None:
    """Put a key in, over the one that was there: whole or not at all. Raises IkigaiError."""
    with private_json.changing(file, str, *_DAMAGED) as kept:
        kept[provider] = key


def remove(file: Path, provider: str) -> bool:
    """Take a provider's key out; False when there was none. Raises IkigaiError."""
    with private_json.changing(file, str, *_DAMAGED) as kept:
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
    return private_json.read(file, str, *_DAMAGED)
