"""Compute the checksum of a file of events: SHA-256 over its JSON values, not over their layout.

Another program may lay a file out anew: spaces, escapes, the order of fields and zeros behind a decimal point do not
matter.
"""

from __future__ import annotations

from contextlib import suppress
from decimal import MAX_PREC, Context, Decimal
from hashlib import sha256

import msgspec


class Checksum:
    """The checksum of the JSON texts that were added, in their order."""

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
    """Return the exact number: a float would take numbers for equal that PostgreSQL tells apart."""
    return Decimal(literal).normalize(_EXACT)


_EXACT = Context(MAX_PREC)
_DECODER = msgspec.json.Decoder(float_hook=_number)
_ENCODER = msgspec.json.Encoder(order="sorted", decimal_format="number")
