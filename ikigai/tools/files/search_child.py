"""The child program that searches files where there is no ripgrep: it answers as ripgrep would, with --null.

Standard input brings a JSON object, `Order`. Standard output gives, for a listing, each path and a NUL; for a search
    path NUL number : text of the line          (- instead of : for a line of context)
and for `names` each path that has a match and a NUL. An exit status of 2 means that the pattern is none; standard
error has the reason. Patterns may run for ever, and so may those of a .gitignore: the child ends by an alarm.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from ikigai.tools.files.encodings import recognised
from ikigai.tools.files.glob_patterns import Glob
from ikigai.tools.secret_files import secret

LARGEST = 50_000_000
"""Bytes of a file that is searched."""
_AFTER = 5
"""Seconds after which the alarm rings when the parent, which should have ended the child, is no more."""


class Order(msgspec.Struct):
    """What is wanted below `root`, or of the one file `only` in it; without a pattern a list of files.

    The child is started in `root`, and looks there and not at the path.
    """

    root: str
    only: str = ""
    everything: bool = False
    glob: str = ""
    pattern: str = ""
    literal: bool = False
    ignore_case: bool = False
    context: int = 0
    names: bool = False
    line: int = 500
    seconds: float = 20
    secrets_from: str = ""
    """The folder from which files are judged that look like keys, which are then skipped; "" skips none."""

    def is_secret(self, path: str) -> bool:
        """Return True for a path below `root` that is skipped. The one file `only` was asked about by its name."""
        return bool(self.secrets_from) and not self.only and secret(self.secrets_from, f"{self.root}/{path}")


def main() -> None:
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=Order)
    signal.alarm(int(order.seconds) + _AFTER)
    from ikigai.tools.files.gitignore import files  # the parent imports this module too, and needs no pathspec

    out = sys.stdout.buffer
    glob = Glob(order.glob) if order.glob else None
    paths = iter([order.only]) if order.only else files(str(Path.cwd()), everything=order.everything)
    wanted = (path for path in paths if glob is None or glob.matches(path))
    try:
        if not order.pattern:
            for path in wanted:
                out.write(os.fsencode(path) + b"\0")
            return
        try:
            pattern = re.compile(
                re.escape(order.pattern) if order.literal else order.pattern, re.IGNORECASE * order.ignore_case
            )
        except (re.error, RecursionError, OverflowError) as error:
            sys.stderr.write(f"{error}")
            sys.exit(2)
        for path in wanted:
            if order.is_secret(path):
                continue
            for piece in _found(order, path, pattern):
                out.write(piece)
            out.flush()
    except BrokenPipeError:  # the parent has enough
        os._exit(0)


def _found(order: Order, path: str, pattern: re.Pattern[str]) -> Iterator[bytes]:
    """What is told of one file."""
    name = os.fsencode(path) + b"\0"
    lines = _lines(path)
    after, told = 0, 0
    for number, line in enumerate(lines):
        if pattern.search(line.removesuffix("\r")):
            if order.names:
                yield name
                return
            for before in range(max(told, number - order.context), number):
                yield _line(order, name, before, "-", lines[before])
            yield _line(order, name, number, ":", line)
            told, after = number + 1, order.context
        elif after:
            yield _line(order, name, number, "-", line)
            told, after = number + 1, after - 1


def _line(order: Order, name: bytes, number: int, mark: str, line: str) -> bytes:
    more = " [...]" if len(line) > order.line else ""
    return name + f"{number + 1}{mark}{line[: order.line]}{more}\n".encode(errors="replace")


def _lines(path: str) -> list[str]:
    """The lines of a text file; none of a binary one, of one that is too large, and of what cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            data = file.read(LARGEST + 1)
    except OSError:
        return []
    encoding = recognised(data) if len(data) <= LARGEST else None
    if encoding is None or (b"\0" in data and not encoding.mark):
        return []
    return encoding.decode(data).removesuffix("\n").split("\n") if data else []
