"""Carry out `ikigai config`: show settings, write one, and have the file edited and checked."""

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

from ikigai.app.json_records.installation_records import CheckFields, DoctorRecord, SettingRecord
from ikigai.app.json_records.json_output import print_answer
from ikigai.app.json_records.outcome_records import DoneRecord
from ikigai.app.project.trusted_project import make_project
from ikigai.app.run.factories import tighten
from ikigai.cli.ask import read_answer
from ikigai.config import Config, api_key_sources, describe, settings_file, toml_file
from ikigai.core.errors import ConfigError, IkigaiError
from ikigai.core.secrets.secret_variables import without_secrets
from ikigai.core.text.sanitize import clean
from ikigai.system import paths
from ikigai.system.output import format_table, print_lines

if TYPE_CHECKING:
    from ikigai.app.run.dry_run import RunProblem

OF_FILE = ("path", "init", "set", "edit", "validate")
"""The actions that need no settings: they also work where the file is wrong."""


def add(commands: Any, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser("config", parents=[common], help="show, set and check settings")
    actions = parser.add_subparsers(dest="what")
    parser.set_defaults(act=_show, what="show", json=False)

    def add_action(name: str, help: str) -> argparse.ArgumentParser:
        return actions.add_parser(name, parents=[common], help=help)

    show = add_action("show", "every setting, as without an action")
    get = add_action("get", "one value")
    get.add_argument("key", metavar="KEY", help="its name, for example terminal.theme")
    write = add_action("set", "write one setting to your file")
    write.add_argument("setting", metavar="KEY", help="its name")
    write.add_argument("value", metavar="VALUE", help="its value, as in the file or as plain text; default unsets it")
    add_action("edit", "your file in an editor, checked after it")
    validate = add_action("validate", "check your file, or another")
    validate.add_argument("file", nargs="?", metavar="FILE", help="another file than yours")
    add_action("path", "where your file is")
    add_action("init", "write a file that explains every key")
    for each in (parser, show, get, write, validate):
        each.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="one object for each answer")


async def _show(config: Config, arguments: argparse.Namespace) -> None:
    """Carry out show and get."""
    project = make_project()
    project.check_trust()
    config, _ = tighten(config, project)
    if arguments.what == "get":
        found = settings_file.describe_key(config, settings_file.find_key(config, arguments.key))
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
    match arguments.what:
        case "path":
            print_lines(str(file))
        case "init":
            _write_example(file)
            print_lines(f"{file} written; every key in it has its default.")
        case "set":
            path = settings_file.find_key(Config(), arguments.setting)
            written = settings_file.set_value(file, path, arguments.value, lambda after: _check_new(file, after))
            text = settings_file.describe_written(written, path, file)
            print_answer(DoneRecord(did="set", text=text) if arguments.json else text)
        case "edit":
            _edit(file)
        case _:
            return _validate(Path(arguments.file) if arguments.file else file, arguments.json)
    return 0


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
    from ikigai.app.run.dry_run import find_problems

    keys = api_key_sources.find_sources(written.providers, os.environ, api_key_sources.stored_logins())
    return asyncio.run(find_problems(msgspec.structs.replace(written, keys=keys), own_tools=False))


def _validate(file: Path, as_json: bool) -> int:
    """Check a file; print what in it cannot work although it is allowed, and fail then."""
    config = settings_file.validate(file, toml_file.read_bytes(file, must_exist=True))
    problems = _notices(config)
    if as_json:
        findings = tuple(CheckFields(about="file", state="bad", said=each, remedy=None) for each in problems)
        print_answer(DoctorRecord(ok=not problems, findings=findings))
    else:
        print_lines(clean("\n".join(problems)) if problems else f"{file} is valid.")
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
        with paths.open_private(copy, "wb") as out:
            out.write(begun)
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
        raise IkigaiError(f"{file} already exists.", "Edit it, or move it away first.") from None
    except OSError as error:
        raise IkigaiError(f"{file} cannot be written: {error.strerror}.", "Check the folder's permissions.") from None
