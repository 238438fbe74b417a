"""Carry out `ikigai doctor`: check what ikigai needs, and print what to do about each problem.

    terminal   the abilities of the terminal
    start      what stops runs with this configuration, or does not work in them
    database   the connection, the schema, the durability
    models     keys, providers, the local model
    machine    programs, files, versions

Nothing is changed, and nothing is sent to a provider unless `--online` asks for it. A check that fails itself is a
line like any other.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ikigai.app.json_records.installation_records import CheckFields, DoctorRecord
from ikigai.app.json_records.json_output import print_answer
from ikigai.app.json_records.record_fields import record_of
from ikigai.cli.doctor.check import BAD, OK, WARN, Finding
from ikigai.core.errors import ConfigErrors, IkigaiError
from ikigai.core.text.sanitize import clean_line
from ikigai.system.output import print_lines

if TYPE_CHECKING:
    from ikigai.config import Config

log = logging.getLogger(__name__)
STATE_STYLES = {OK: "assistant", WARN: "warning", BAD: "error"}


def add(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add this command to the subcommands; `common` holds the options that every command takes."""
    command = commands.add_parser(
        "doctor",
        parents=[common],
        help="check the installation and suggest fixes",
        description="Look at the terminal, the configuration, the database, keys, models, programs, files and "
        "versions. The exit code is 1 if something is bad. Nothing is changed.",
    )
    command.add_argument("--online", action="store_true", help="ask the providers whether they take the keys")
    command.add_argument("--json", action="store_true", help="one object: ok, findings")
    command.add_argument("--keys-fd", type=int, help=argparse.SUPPRESS)  # given by the REPL, which reads it
    command.set_defaults(act=None)


def run(load: Callable[[], Config], arguments: argparse.Namespace) -> int:
    """Run all checks and print the findings; a configuration that cannot be read is one of them."""
    findings = asyncio.run(_run_checks(load, arguments.online, arguments.keys_fd))
    bad = any(finding.state == BAD for finding in findings)
    if arguments.json:
        checks = (record_of(CheckFields, each, remedy=each.remedy or None) for each in findings)
        print_answer(DoctorRecord(ok=not bad, findings=tuple(checks)))
    else:
        print_lines("\n".join(_lines(findings)), painted=True)
    return int(bad)


async def _run_checks(load: Callable[[], Config], online: bool, keys_fd: int | None) -> list[Finding]:
    from ikigai.cli.doctor import database, models, software, start, terminal

    findings = _run_check("terminal", lambda: terminal.check_terminal(keys_fd))
    findings += _run_check("machine", software.check_machine)
    try:
        config = load()
    except IkigaiError as error:
        errors = error.errors if isinstance(error, ConfigErrors) else (error,)
        return [*findings, *(_configuration_error(number, each) for number, each in enumerate(errors, 1))]
    findings += _run_check("configuration", lambda: software.check_configuration(config))
    checks = (
        ("start", start.check_start(config)),
        ("database", database.check_database(config)),
        ("models", models.check_models(config, online)),
    )
    for name, check in checks:
        try:
            findings += await check
        except Exception as error:
            findings.append(_failed_check(name, error))
    return findings


def _configuration_error(number: int, error: IkigaiError) -> Finding:
    return Finding("configuration" if number == 1 else f"configuration {number}", BAD, error.what, error.remedy)


def _run_check(name: str, check: Callable[[], list[Finding]]) -> list[Finding]:
    try:
        return check()
    except Exception as error:
        return [_failed_check(name, error)]


def _failed_check(name: str, error: Exception) -> Finding:
    """Return the finding about a check that failed itself; the thing it is about may be well."""
    if isinstance(error, IkigaiError):
        return Finding(name, BAD, error.what, error.remedy)
    log.exception("a check of %s failed", name)
    return Finding(name, WARN, f"could not be checked ({type(error).__name__})", "The log file has the details.")


def _lines(findings: list[Finding]) -> Iterator[str]:
    """Yield a line for each finding and one for its remedy; the escapes in them are our own."""
    from ikigai.terminal.render.theme import output_theme

    style = output_theme(os.environ, sys.stdout.isatty())
    width = max(len(finding.about) for finding in findings)
    for about, state, text, remedy in findings:
        yield f"{style.paint(STATE_STYLES[state], f'{state:<4}')}  {about:<{width}}  {clean_line(text)}"
        if remedy:
            yield f"{'':<4}  {'':<{width}}  to do: {clean_line(remedy)}"
    counts = {state: sum(finding.state == state for finding in findings) for state in (BAD, WARN)}
    yield _summary(counts[BAD], counts[WARN])


def _summary(problems: int, warnings: int) -> str:
    bad = f"{problems} problem{'s' * (problems != 1)}" if problems else "No problems"
    return bad + (f", {warnings} warning{'s' * (warnings != 1)}." if warnings else ".")
