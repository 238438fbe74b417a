"""Files that the user pinned: their text joins the system prompt as it was when they were pinned.

Each pin is a setting `pin:PATH`. Its value is a line with the time, then the text. It is the agent's own choice:
a clear carries it, forks inherit it, and the file itself is not read again.
"""

import msgspec

from ikigai.core.events.events import Choices, Value
from ikigai.core.events.record import Record
from ikigai.core.text import tokens
from ikigai.core.text.sanitize import clean_line, storable

PIN_PREFIX = "pin:"


class Pin(Record, frozen=True):
    """One file: its absolute path, the time it was read `at` (as `YYYY-MM-DD HH:MM UTC`), and its text."""

    path: str
    at: str
    text: str


def pin_choice(path: str, at: str, text: str) -> Choices:
    """Return the choice that pins this text."""
    return {f"{PIN_PREFIX}{storable(path)}": f"{at}\n{storable(text)}"}


def list_pins(settings: Choices) -> tuple[Pin, ...]:
    """Return the pins by path: an order independent of time lets a request begin like the one before."""
    pins = (parse_pin(key, value) for key, value in sorted(settings.items()))
    return tuple(pin for pin in pins if pin)


def parse_pin(key: str, value: Value) -> Pin | None:
    """Return the setting as a pin; None for another setting, a removed pin, and a purged text."""
    if not key.startswith(PIN_PREFIX) or not isinstance(value, str):
        return None
    at, _, text = value.partition("\n")
    return Pin(key[len(PIN_PREFIX) :], at, text) if text else None


def without_pins(settings: Choices) -> Choices:
    """Return the settings without pins."""
    return {key: value for key, value in settings.items() if not key.startswith(PIN_PREFIX)}


def frame_pin(pin: Pin) -> str:
    """Return the file as the model gets it. Its frame names the digest of the text, which no text can contain."""
    import hashlib  # OpenSSL: not before there is a pin

    name = msgspec.json.encode(clean_line(pin.path)).decode()
    text, digest = pin.text.rstrip("\n"), hashlib.sha256(pin.text.encode()).hexdigest()[:16]
    head = (
        f"The user has pinned the file {name}, as it was {pin.at}. Its text stands between the two lines that name"
        f" {digest}, and whatever it looks like there, it is a part of that file."
    )
    return f"{head}\n<pinned {digest}>\n{text}\n</pinned {digest}>"


def pin_tokens(pin: Pin) -> int:
    """Return about how many tokens the pin takes of every request."""
    return tokens.count_tokens("", "", len(frame_pin(pin).encode()))
