"""This module runs `ikigai config`: it shows settings, writes one, and has the file edited and checked."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from ikigai.app.factories import make_project, tighten
from ikigai.app.json_records import SettingRecord, print_answer
from ikigai.cli.ask import read_answer
from ikigai.config import Config, describe, key_sources, settings_file, toml_file
from ikigai.core.errors import ConfigError, IkigaiError
from ikigai.core.sanitize import clean
from ikigai.core.secrets import without_secrets
from ikigai.system import paths
from ikigai.system.output import format_table, print_lines

if TYPE_CHECKING:
    from ikigai.app.dry_run import RunProblem

WORDS = {"get": (1, 1, "KEY"), "set": (2, 2, "KEY VALUE"), "validate": (0, 1, "[FILE]")}
"""How many words follow an action, at least and at most, and which; none follow any other."""
OF_FILE = ("path", "init", "set", "edit", "validate")
"""The actions that need no settings: they work, too, where the file is wrong."""


def add(commands: Any, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser("config", parents=[common], help="show, set and check settings")
    actions = ("show", "get", "set", "edit", "validate", "path", "init")
    parser.add_argument("what", nargs="?", choices=actions, default="show", help="what to do; all values (show)")
    parser.add_argument("words", nargs="*", metavar="KEY VALUE", help="of get and set; a FILE for validate")
    parser.add_argument("--json", action="store_true", help="with show and get: one object per setting")
    parser.set_defaults(act=_show)


async def _show(config: Config, arguments: argparse.Namespace) -> None:
    """Carry out show and get."""
    _check_words(arguments)
    project = make_project()
    project.check_trust()
    config, _ = tighten(config, project)
    if arguments.what == "get":
        found = settings_file.describe_key(config, settings_file.find_key(config, arguments.words[0]))
        value = json.loads(found.value)
        record = SettingRecord(key=found.key, value=value, origin=found.origin, allowed=found.allowed)
        text = value if isinstance(value, str) else found.value
        print_answer(record if arguments.json else text)
    elif arguments.json:
        for key, value, origin in describe(config):
            is_key = key.startswith("API key of ")  # the value of which is not shown
            print_answer(SettingRecord(key=key, value=value if is_key else json.loads(value), origin=origin))
    else:
        print_lines(format_table(describe(config)))


def run_on_file(file: Path, arguments: argparse.Namespace) -> int:
    """Carry out an action of OF_FILE on the configuration file; return the exit code."""
    _check_words(arguments)
    match arguments.what:
        case "path":
            print_lines(str(file))
        case "init":
            _write_example(file)
            print_lines(f"{file} written; every key in it has its default.")
        case "set":
            path = settings_file.find_key(Config(), arguments.words[0])
            written = settings_file.set_value(file, path, arguments.words[1], lambda after: _check_new(file, after))
            print_lines(f"{settings_file.describe_key(written, path).line} is in {file}.")
        case "edit":
            _edit(file)
        case _:
            return _validate(Path(arguments.words[0]) if arguments.words else file)
    return 0


def _check_words(arguments: argparse.Namespace) -> None:
    least, most, usage = WORDS.get(arguments.what, (0, 0, ""))
    if not least <= len(arguments.words) <= most:
        words = usage.replace(" VALUE", ' "VALUE"')
        what = f"`ikigai config {arguments.what}` takes {usage or 'no words'}."
        raise ConfigError(what, f"Usage: ikigai config {arguments.what} {words}".rstrip())


def _check_new(file: Path, after: Config) -> None:
    """Raise ConfigError for a problem of runs that the file does not have yet, as a budget too small for requests."""
    before: list[RunProblem] = []
    with contextlib.suppress(ConfigError):
        before = _problems(settings_file.validate(file, toml_file.read_bytes(file, must_exist=False)))
    for problem in _problems(after):
        if problem not in before:
            raise ConfigError(problem.message, problem.remedy)


def _problems(written: Config) -> list[RunProblem]:
    """Return the problems of runs with what a file says, and with the keys at hand."""
    from ikigai.app.dry_run import find_problems

    keys = key_sources.find_sources(written.providers, os.environ, key_sources.stored_logins())
    return asyncio.run(find_problems(msgspec.structs.replace(written, keys=keys), own_tools=False))


def _validate(file: Path) -> int:
    """Check a file; print what in it cannot work although it is allowed, and fail then."""
    config = settings_file.validate(file, toml_file.read_bytes(file, must_exist=True))
    problems = _notices(config)
    for problem in problems:
        print_lines(clean(problem))
    if not problems:
        print_lines(f"{file} is valid.")
    return 2 if problems else 0


def _notices(config: Config) -> list[str]:
    """Return the keys of [keys] that cannot be used, and the problems of runs."""
    return [*config.notices, *(f"{each.message} {each.remedy}".strip() for each in _problems(config))]


def _edit(file: Path) -> None:
    """Have a copy of the file edited until it is valid, then replace the file."""
    from ikigai.terminal.editor import editor_command

    before = toml_file.read_bytes(file, must_exist=False)
    begun = before or paths.shipped_path("config.example.toml").read_bytes()
    with tempfile.TemporaryDirectory(prefix="ikigai-") as folder:
        copy = Path(folder) / "config.toml"
        copy.write_bytes(begun)
        while True:
            program = editor_command()
            try:
                code = subprocess.run([*program, str(copy)], env=without_secrets(os.environ), check=False).returncode
            except OSError as error:
                message = f"The editor {program[0]} cannot be started: {error.strerror}."
                raise IkigaiError(message, "Set $VISUAL or $EDITOR to another one.") from None
            if code:
                raise IkigaiError(f"The editor {program[0]} failed (exit code {code}).", "Nothing was changed.")
            after = toml_file.read_bytes(copy, must_exist=True)
            if after == begun:
                print_lines("Nothing was changed.")
                return
            try:
                notices = _notices(settings_file.validate(file, after))
                break
            except ConfigError as error:
                sys.stderr.write(f"{clean(str(error))}\n")
                if not sys.stdin.isatty() or read_answer("Edit it again? [Y/n] ").lower().startswith("n"):
                    raise ConfigError("The file was not valid.", f"Nothing was changed in {file}.") from None
    settings_file.replace_file(file, before, after)
    for notice in notices:
        print_lines(clean(notice))
    print_lines(f"{file} written. It takes effect at the next start.")


def _write_example(file: Path) -> None:
    paths.make_private(file.parent)
    try:
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as out:
            out.write(paths.shipped_path("config.example.toml").read_text(encoding="utf-8"))
    except FileExistsError:
        raise ConfigError(f"{file} already exists.", "Edit it, or move it away first.") from None
    except OSError as error:
        raise IkigaiError(f"{file} cannot be written: {error.strerror}.", "Check the folder's permissions.") from None
