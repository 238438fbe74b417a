"""Put examples, exit codes, files and variables under `--help`, one page for each command.

The words are in `help_pages.toml`, which is read when help is printed. Everything fits into 80 columns, however wide
the terminal.
"""

from __future__ import annotations

import argparse
import shutil
import textwrap
from functools import cache
from typing import Any, NoReturn, TypeAlias

from ikigai.cli import mistyped
from ikigai.core.errors import EXIT_CODES, ExitCode, closest_names
from ikigai.core.events.record import Record

COLUMNS = 80
PAGE_CODES = tuple(
    code for code in EXIT_CODES if code not in (ExitCode.FAILED, ExitCode.SPENDING_LIMIT, ExitCode.TIMEOUT)
)
"""The exit codes that every subcommand has."""
Line: TypeAlias = tuple[str, str]
"""A term and its explanation."""


class HelpPage(Record, frozen=True):
    """The help of one command, which needs no server if it `is_local`. A line given as a string is the name of one in
    `HelpPages.shared`.
    """

    examples: tuple[Line, ...]
    about: str = ""
    is_local: bool = False
    codes: tuple[Line | str, ...] = ()
    files: tuple[Line | str, ...] = ()
    variables: tuple[Line | str, ...] = ()


class HelpPages(Record, frozen=True):
    """The content of the file: `main` is the help of `ikigai` itself, `pages` are by the words after it."""

    shared: dict[str, Line]
    main: str
    pages: dict[str, HelpPage]


@cache
def load() -> HelpPages:
    """Return the pages, read from the package once."""
    from importlib import resources

    import msgspec

    text = resources.files("ikigai.cli").joinpath("help_pages.toml").read_text(encoding="utf-8")
    return msgspec.toml.decode(text, type=HelpPages)


def main_text() -> str:
    """Return the help of `ikigai` itself below its options."""
    codes = [(str(int(code)), meaning) for code, meaning in EXIT_CODES.items()]
    return load().main.replace("EXIT_CODES", format_section("exit codes", codes))


class HelpFormatter(argparse.HelpFormatter):
    """Folds paragraphs, and leaves lines that begin with a space as they are."""

    def __init__(self, prog: str, **more: Any) -> None:
        width = min(COLUMNS, max(40, shutil.get_terminal_size().columns)) - 2
        super().__init__(prog, width=width, max_help_position=26, **more)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        paragraphs = text.split("\n\n")
        return "\n\n".join(
            each if "\n  " in each else textwrap.fill(" ".join(each.split()), width) for each in paragraphs
        )


class HelpParser(argparse.ArgumentParser):
    """A parser of commands, each with its help page."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"formatter_class": HelpFormatter, "allow_abbrev": False, **options})
        self._own_epilog = self.epilog

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Raise ArgumentError that names the choice which was meant, or else all of them."""
        choices = [str(choice) for choice in action.choices or ()]
        if not choices or value in (action.choices or ()):
            return
        near = closest_names(str(value), choices)
        how = f"Did you mean {near[0]}?" if near else f"Choose one of {', '.join(choices)}."
        raise argparse.ArgumentError(action, f"There is no {str(value)!r}. {how}")

    def error(self, message: str) -> NoReturn:
        raise mistyped.usage_error(self, message)

    def format_help(self) -> str:
        content = load()
        if page := content.pages.get(self.prog.partition(" ")[2]):
            self.description = self.description or page.about
            self.epilog = "\n\n".join(filter(None, (self._own_epilog, *_sections(page, content))))
        return super().format_help()


def make_parser(**options: Any) -> argparse.ArgumentParser:
    """Return a HelpParser, typed so that plain parsers can be its `parents`."""
    return HelpParser(**options)


def exit_codes(page: HelpPage, content: HelpPages) -> dict[str, str]:
    """Return the exit codes of a page with their meanings; its own meanings replace the common ones."""
    shared = (code for code in PAGE_CODES if code is not ExitCode.TRY_AGAIN or not page.is_local)
    own = dict(content.shared[each] if isinstance(each, str) else each for each in page.codes)
    return {str(int(code)): EXIT_CODES[code] for code in shared} | own


def _sections(page: HelpPage, content: HelpPages) -> list[str]:
    def lines(entries: tuple[Line | str, ...]) -> list[Line]:
        return [content.shared[each] if isinstance(each, str) else each for each in entries]

    codes = sorted(exit_codes(page, content).items(), key=lambda code: int(code[0].split(",")[0]))
    sections = {"examples": lines(page.examples), "exit codes": codes, "files": lines(page.files)}
    sections["environment"] = lines(page.variables)
    return [format_section(name, rows) for name, rows in sections.items() if rows]


def format_section(name: str, lines: list[Line]) -> str:
    """Return a heading with its lines; a term too long for the first column has its explanation below it."""
    column = min(34, max(len(term) for term, _ in lines)) + 4
    rows = [f"{name}:"]
    for term, explanation in lines:
        wrapped = textwrap.wrap(explanation, COLUMNS - 2 - column)
        if len(term) + 4 > column:
            rows.append(f"  {term}")
        else:
            rows.append(f"  {term:<{column - 2}}{wrapped.pop(0)}")
        rows += [" " * column + line for line in wrapped]
    return "\n".join(rows)
