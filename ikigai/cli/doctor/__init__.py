"""The command `ikigai doctor`: looks at all that ikigai needs, and says of each thing how it is and what to do.

    terminal   what the terminal can do
    database   whether it can be reached, and whether what it says is kept
    models     keys, providers, the local model
    machine    programs, files, versions

Nothing is changed, and nothing is sent to a provider unless `--online` asks for it. A check that fails itself is a
line like any other.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ikigai.cli.doctor.check import BAD, OK, WARN, Finding
from ikigai.core.errors import IkigaiError
from ikigai.core.sanitize import clean_line
from ikigai.system.output import say

if TYPE_CHECKING:
    from ikigai.config import Config

log = logging.getLogger(__name__)
STYLES = {OK: "assistant", WARN: "warning", BAD: "error"}


def add(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add this command to those of a parser; `common` holds the options that stand behind any of them."""
    command = commands.add_parser(
        "doctor",
        parents=[common],
        help="see whether all is well; each line says what to do",
        description="Look at the terminal, the database, keys and models, programs, files and versions. The exit code "
        "is 1 if something is bad. Nothing is changed.",
    )
    command.add_argument("--online", action="store_true", help="ask the providers whether they take the keys")
    command.add_argument("--json", action="store_true", help="one object: ok, findings")
    command.set_defaults(act=None)


def run(load: Callable[[], Config], arguments: argparse.Namespace) -> int:
    """Look at everything; a configuration that cannot be read is one of the findings."""
    found = asyncio.run(_examined(load, arguments.online))
    bad = any(finding.state == BAD for finding in found)
    if arguments.json:
        say(json.dumps({"ok": not bad, "findings": [finding._asdict() for finding in found]}))
    else:
        say("\n".join(_lines(found)), painted=True)
    return int(bad)


async def _examined(load: Callable[[], Config], online: bool) -> list[Finding]:
    from ikigai.cli.doctor import database, machine, models, terminal

    found = _checked("terminal", terminal.findings)
    found += _checked("machine", machine.findings)
    try:
        config = load()
    except IkigaiError as error:
        return [*found, Finding("configuration", BAD, error.what, error.remedy)]
    found += _checked("configuration", lambda: machine.configuration(config))
    for name, looked in (("database", database.findings(config)), ("models", models.findings(config, online))):
        try:
            found += await looked
        except Exception as error:
            found.append(_failed(name, error))
    return found


def _checked(name: str, look: Callable[[], list[Finding]]) -> list[Finding]:
    try:
        return look()
    except Exception as error:
        return [_failed(name, error)]


def _failed(name: str, error: Exception) -> Finding:
    """A check that went wrong; what it was about may be well."""
    if isinstance(error, IkigaiError):
        return Finding(name, BAD, error.what, error.remedy)
    log.exception("a check of %s failed", name)
    return Finding(name, WARN, f"could not be looked at ({type(error).__name__})", "The log file has the details.")


def _lines(found: list[Finding]) -> Iterator[str]:
    """A line for each finding and one for its remedy; the escapes in them are our own."""
    from ikigai.terminal.render.theme import output

    style = output(os.environ, sys.stdout.isatty())
    width = max(len(finding.about) for finding in found)
    for about, state, said, remedy in found:
        yield f"{style.paint(STYLES[state], f'{state:<4}')}  {about:<{width}}  {clean_line(said)}"
        if remedy:
            yield f"{'':<4}  {'':<{width}}  to do: {clean_line(remedy)}"
    counts = {state: sum(finding.state == state for finding in found) for state in (BAD, WARN)}
    yield "All is well." if not any(counts.values()) else f"{counts[BAD]} bad, {counts[WARN]} to look at."
