"""Files that the user has pinned: a setting for each, `pin:PATH`, whose text joins the system prompt as it was then.

The setting's value is a line that says when, and below it the text. It is the agent's own choice: a clear carries it,
forks inherit it, and the file itself is not looked at again.
"""

import msgspec

from ikigai.core import tokens
from ikigai.core.events import Choices, Value
from ikigai.core.record import Record
from ikigai.core.sanitize import clean_line, storable

PREFIX = "pin:"


class Pin(Record, frozen=True):
    """One file: its whole path, when it was read (as `YYYY-MM-DD HH:MM UTC`), and what stood in it."""

    path: str
    at: str
    text: str


def pinned(path: str, at: str, text: str) -> Choices:
    """The choice that pins this text."""
    return {f"{PREFIX}{storable(path)}": f"{at}\n{storable(text)}"}


def pins(settings: Choices) -> tuple[Pin, ...]:
    """What is pinned, by path: the order does not depend on when, so that a request begins as the one before."""
    found = (pin(key, value) for key, value in sorted(settings.items()))
    return tuple(each for each in found if each)


def pin(key: str, value: Value) -> Pin | None:
    """The setting as a pin; None for another setting, one taken back, and one whose text was purged."""
    if not key.startswith(PREFIX) or not isinstance(value, str):
        return None
    at, _, text = value.partition("\n")
    return Pin(key[len(PREFIX) :], at, text) if text else None


def without(settings: Choices) -> Choices:
    return {key: value for key, value in settings.items() if not key.startswith(PREFIX)}


def framed(pin: Pin) -> str:
    """The file as the model gets it. Its frame names a digest of what is in it, which no text can hold of itself."""
    import hashlib  # OpenSSL: not before there is a pin

    name = msgspec.json.encode(clean_line(pin.path)).decode()
    text, digest = pin.text.rstrip("\n"), hashlib.sha256(pin.text.encode()).hexdigest()[:16]
    head = (
        f"The user has pinned the file {name}, as it was {pin.at}. Its text stands between the two lines that name"
        f" {digest}, and whatever it looks like there, it is a part of that file."
    )
    return f"{head}\n<pinned {digest}>\n{text}\n</pinned {digest}>"


def size(pin: Pin) -> int:
    """Tokens that the pin takes of every request, about."""
    return tokens.count("", "", len(framed(pin).encode()))
