"""Print JSON objects, one a line."""

from __future__ import annotations

import contextlib
import io
import json
import re
import sys
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import msgspec

from ikigai.app.json_records.outcome_records import ErrorRecord
from ikigai.core.errors import IkigaiError
from ikigai.core.text.sanitize import storable
from ikigai.system.output import print_lines

if TYPE_CHECKING:
    from ikigai.app.json_records.record_fields import PrintedRecord

_ENCODER = msgspec.json.Encoder(decimal_format="number")


def encode(record: PrintedRecord) -> str:
    """Return the object as one line, without its end; what a terminal would obey or hide is escaped."""
    try:
        text = _ENCODER.encode(record).decode()
    except UnicodeEncodeError:  # it holds a word of the command line, or a path, that is not UTF-8
        text = _ENCODER.encode(_storable_texts(msgspec.to_builtins(record, builtin_types=(Decimal,)))).decode()
    return text if text.isprintable() else re.sub("[^ -~]", _escape_unprintable, text)


def _storable_texts(value: Any) -> Any:
    """Return a value of lists, objects and texts with its texts as UTF-8 can hold them."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, dict):
        return {storable(name): _storable_texts(inner) for name, inner in value.items()}
    return [_storable_texts(inner) for inner in value] if isinstance(value, list) else value


def _escape_unprintable(found: re.Match[str]) -> str:
    return found[0] if found[0].isprintable() else json.dumps(found[0])[1:-1]


def use_utf8() -> None:
    """Have standard output take UTF-8, whatever the locale says: JSON is nothing else."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="replace")


def print_answer(answer: str | PrintedRecord) -> None:
    """Print text, or an object on a line. Raise BrokenPipeError when nobody reads, IkigaiError when it cannot be
    written.
    """
    if isinstance(answer, str):
        print_lines(answer)
    else:
        use_utf8()
        print_lines(encode(answer), painted=True)


def print_error(error: IkigaiError) -> None:
    """Print the object of an error, if anybody reads it."""
    with contextlib.suppress(OSError, IkigaiError):
        print_answer(ErrorRecord(code=error.exit_code, message=error.what, remedy=error.remedy or None))
