"""Find the user's own commands, each a Markdown file, and write the messages that they stand for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ikigai.core.commands.table import BY_NAME
from ikigai.core.errors import Rejected
from ikigai.core.text.sanitize import clean_line
from ikigai.system import paths

if TYPE_CHECKING:
    from ikigai.app.project.trusted_project import Project

FILE_NAME = re.compile(r"([A-Za-z][A-Za-z0-9_-]{0,39})\.md")
MAX_COMMAND_BYTES = 64 * 1024
MAX_COMMANDS = 200
MAX_USAGE_COLUMNS = 30
"""Columns of the usages in the list; the help of a longer one follows it directly."""
PLACEHOLDER = re.compile(r"(\\?)\$(ARGUMENTS|[1-9](?![0-9]))")
"""A placeholder for the typed arguments; with a backslash before it, and with further digits ($100), it is text."""
UTF_16_MARKS = b"\xff\xfe", b"\xfe\xff"
FRONT_MATTER = re.compile(r"---[ \t]*\r?\n(.*?)^---[ \t]*\r?\n", re.DOTALL | re.MULTILINE)
"""The head of a file: lines `KEY: VALUE` between two lines of three hyphens."""


class OwnCommand(NamedTuple):
    """A command that is sent as a message. `argument` names what it takes, `help` says in a line what it is for."""

    argument: str
    help: str
    text: str
    has_hint: bool = False  # the head of the file names what it takes


def user_folder() -> Path:
    """Return the folder of the commands that the user has everywhere."""
    return paths.config_dir() / "commands"


def command_files(project: Project | None) -> dict[str, Path]:
    """Return the files of all own commands by name; a trusted project's file is taken before the user's.

    A name of the program's own commands is left to them.
    """
    found = dict[str, Path]()
    for folder in (user_folder(), *((project.commands,) if project and project.trusted else ())):
        try:
            files = sorted(folder.iterdir())
        except OSError:
            continue
        named = ((match[1], file) for file in files if (match := FILE_NAME.fullmatch(file.name)) and file.is_file())
        found |= {name: file for name, file in named if name not in BY_NAME}
    return dict(list(found.items())[:MAX_COMMANDS])


def read_command(name: str, file: Path, project: Project | None) -> OwnCommand:
    """Return the command in a file. Raise Rejected if it cannot be used."""
    what, content = f"/{name} cannot be used", b""
    try:
        if project and file.parent == project.commands:
            content = project.read_trusted(file)
        else:
            with file.open("rb") as opened:
                content = opened.read(MAX_COMMAND_BYTES + 1)
        text = content.decode("utf-8-sig").replace("\r\n", "\n")
    except OSError as error:
        raise Rejected(f"{what}: {file}: {error.strerror or error}.", "Correct the file.") from None
    except UnicodeDecodeError as error:
        why = "UTF-16" if content.startswith(UTF_16_MARKS) else f"not UTF-8 text (offset {error.start})"
        raise Rejected(f"{what}: {file} is {why}.", "Save it as UTF-8.") from None
    if len(content) > MAX_COMMAND_BYTES:
        raise Rejected(f"{what}: {file} is longer than {MAX_COMMAND_BYTES >> 10} KiB.", "Shorten it.")
    return parse_command(text)


def parse_command(text: str) -> OwnCommand:
    """Return the command that a file holds: without a `description` in its head its first line is the help."""
    head = FRONT_MATTER.match(text)
    values = dict[str, str]()
    for line in head[1].splitlines() if head else ():
        key, _, value = line.partition(":")
        values[key.strip()] = value.strip().strip("'\"")
    body = text[head.end() if head else 0 :].strip()
    first = next(iter(body.splitlines()), "").lstrip("# ")
    takes_words = any(not match[1] for match in PLACEHOLDER.finditer(body))
    argument = values.get("argument-hint", "") or "[ARGUMENTS]" * takes_words
    help = clean_line(values.get("description", "") or first)
    return OwnCommand(clean_line(argument), help, body, bool(values.get("argument-hint")))


def fill(command: OwnCommand, argument: str) -> str:
    """Return the message: $ARGUMENTS is all that was typed, $1 to $9 are its words; without them it goes below.

    A word that was not typed leaves its place empty if the head names the arguments. Else $1 stays: it may be awk's.
    """
    words = argument.split()
    has_place = False

    def value(match: re.Match[str]) -> str:
        nonlocal has_place
        escape, key = match.groups()
        if escape:
            return match[0][1:]
        if key != "ARGUMENTS" and int(key) > len(words):
            return "" if command.has_hint else match[0]
        has_place = True
        return argument if key == "ARGUMENTS" else words[int(key) - 1]

    filled = PLACEHOLDER.sub(value, command.text)
    return filled if has_place or not argument else f"{filled}\n\n{argument}"


def message_of(line: str, project: Project | None) -> str:
    """Return the message that a line /NAME [ARGUMENTS] stands for. Raise Rejected if its file cannot be used."""
    word, *rest = line.split(maxsplit=1)
    argument, name = "".join(rest), word[1:]
    if (file := command_files(project).get(name)) is None:
        raise Rejected(f"There is no file for {word} any more.", "/commands lists your commands.")
    text = fill(read_command(name, file, project), argument.strip())
    if not text.strip():
        raise Rejected(f"{file} is empty.", "Nothing was sent.")
    return text


def describe_commands(project: Project | None) -> Mapping[str, OwnCommand]:
    """Return all own commands by name; the help of an unusable one says why."""
    found = dict[str, OwnCommand]()
    for name, file in command_files(project).items():
        try:
            found[name] = read_command(name, file, project)
        except Rejected as refusal:
            found[name] = OwnCommand("", refusal.what, "")
    return found


def format_commands(project: Project | None) -> str:
    """Return the text of /commands."""
    found = describe_commands(project)
    rows = {f"/{name} {each.argument}".rstrip(): each.help for name, each in found.items()}
    width = min(max(map(len, rows), default=0), MAX_USAGE_COLUMNS)
    lines = [f"{usage:<{width}}  {help}".rstrip() for usage, help in rows.items()]
    where = f"A file NAME.md in {user_folder()}, or in .ikigai/commands of a trusted folder, makes /NAME send its text."
    return "\n".join((*(lines or ["You have no commands of your own."]), where))
