"""What commands write to the standard output: lines that are safe for a terminal, and tables."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence

from ikigai.core.errors import IkigaiError
from ikigai.core.sanitize import clean


def say(text: str = "", painted: bool = False) -> None:
    """One or more lines; `painted` ones are safe already, and their escapes are our own.

    What the output's encoding does not have is written as ?. Raises BrokenPipeError when nobody reads, IkigaiError
    when they cannot be written.
    """
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors != "replace":
        sys.stdout.reconfigure(errors="replace")  # not every encoding has every character
    try:
        sys.stdout.write(f"{text if painted else clean(text)}\n")
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise IkigaiError(f"The output cannot be written: {error.strerror}.", "Send it elsewhere.") from None


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows of text in columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(f"{cell:<{widths[n]}}" for n, cell in enumerate(row)).rstrip() for row in rows)
