"""Write the output of commands: lines that are safe for a terminal, and tables."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Generator, Sequence

from ikigai.core.errors import IkigaiError
from ikigai.core.text.sanitize import clean


def print_lines(text: str = "", painted: bool = False) -> None:
    """Print one or more lines; `painted` ones are safe already, and their escapes are our own.

    Characters that the output's encoding lacks are written as ?. Raise BrokenPipeError when nobody reads, IkigaiError
    when they cannot be written.
    """
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors != "replace":
        sys.stdout.reconfigure(errors="replace")  # not every encoding has every character
    write_output(f"{text if painted else clean(text)}\n")


def write_output(text: str = "") -> None:
    """Write `text` and all that is still in the buffer. Raise BrokenPipeError when nobody reads, IkigaiError when it
    cannot be written.
    """
    with writing_output():
        sys.stdout.write(text)
        sys.stdout.flush()


@contextlib.contextmanager
def writing_output() -> Generator[None]:
    """Raise IkigaiError if the standard output cannot be written inside, BrokenPipeError when nobody reads it."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise IkigaiError(
            f"The output cannot be written: {error.strerror}.", "Write it to another file or program."
        ) from None


def format_table(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of text in columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(f"{cell:<{widths[n]}}" for n, cell in enumerate(row)).rstrip() for row in rows)
