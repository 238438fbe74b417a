"""Store the API keys of `ikigai login` in one private file, and read a key only for its use.

    providers_with_key    the providers that have a key in it
    find                  the key of one
    read_keys             all of them, by provider
    store                 put one in
    remove                take one out
    check_key             a key as typed or piped in, checked

The file is a JSON object, provider → key, in a folder that is its owner's alone. No error in here shows a key.
"""

from __future__ import annotations

from pathlib import Path

from ikigai.core.errors import Rejected
from ikigai.system import private_json

MAX_KEY_CHARACTERS = 8_192
"""Characters of a key: tokens of sign-in services have thousands."""
_DAMAGED = ("the keys of `ikigai login`", "Delete it, and log in again.")


def providers_with_key(file: Path) -> list[str]:
    """Return the providers that have a key. Raise ConfigError when the file cannot be read."""
    return list(_read(file))


def find(file: Path, provider: str) -> str:
    """Return the key of a provider, or "". Raise ConfigError when the file cannot be read."""
    return _read(file).get(provider, "")


def read_keys(file: Path) -> dict[str, str]:
    """Return the key of each provider. Raise ConfigError when the file cannot be read."""
    return dict(_read(file))


def store(file: Path, provider: str, key: str) -> None:
    """Store a key, over the one that was there: whole or not at all. Raise IkigaiError when it cannot be written."""
    with private_json.open_for_change(file, str, *_DAMAGED) as kept:
        kept[provider] = key


def remove(file: Path, provider: str) -> bool:
    """Remove a provider's key; return False when there was none. Raise IkigaiError when the file cannot be written."""
    with private_json.open_for_change(file, str, *_DAMAGED) as kept:
        return kept.pop(provider, None) is not None


def check_key(text: str) -> str:
    """Return a key as typed or piped in, without the blanks around it. Raise Rejected, in words without the key."""
    key = text.strip()
    if not key:
        raise Rejected("That does not look like a key.", "Paste only the key. Nothing was stored.")
    if len(key) > MAX_KEY_CHARACTERS or not all("!" <= character <= "~" for character in key):
        raise Rejected(
            "This is not a key: it contains a space, a line break or a character that no key has, or is far too long.",
            "Copy it again, without the text around it. Nothing was stored.",
        )
    return key


def _read(file: Path) -> dict[str, str]:
    return private_json.read(file, str, *_DAMAGED)
