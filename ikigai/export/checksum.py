"""The checksum of an exported history: SHA-256 over what its JSON says, not over how that is laid out.

Another program may lay a file out anew: spaces, escapes, the order of fields and zeros behind a decimal point are no
matter.
"""

from __future__ import annotations

from contextlib import suppress
from decimal import MAX_PREC, Context, Decimal
from hashlib import sha256

import msgspec


class Checksum:
    """Of the JSON texts that were added, in their order."""

    def __init__(self) -> None:
        self._hash = sha256()

    def add(self, text: bytes) -> None:
        with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError, ArithmeticError):
            text = _ENCODER.encode(_DECODER.decode(text))  # else, with numbers of thousands of digits, as it stands
        self._hash.update(text + b"\n")

    @property
    def digits(self) -> str:
        return self._hash.hexdigest()


def _number(literal: str) -> Decimal:
    """No digit counts less than another: a float would take numbers for equal that PostgreSQL tells apart."""
    return Decimal(literal).normalize(_EXACT)


_EXACT = Context(MAX_PREC)
_DECODER = msgspec.json.Decoder(float_hook=_number)
_ENCODER = msgspec.json.Encoder(order="sorted", decimal_format="number")
