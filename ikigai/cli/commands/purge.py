"""Carry out `ikigai db purge`: show what would go, ask for a word, and report what went."""

from __future__ import annotations

import argparse
import contextlib
import getpass
import re
import sys
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ikigai.app.run.open_database import PREPARING_DATABASE, open_database
from ikigai.cli import ask
from ikigai.cli.commands import purge_files
from ikigai.config import Config
from ikigai.core.errors import ConfigError, Rejected, as_config_error
from ikigai.core.relocation.redact import PURGED_TEXT, PurgeTarget
from ikigai.core.text.sanitize import clean_line
from ikigai.system.output import format_table, print_lines
from ikigai.system.progress import show_progress, show_waiting

if TYPE_CHECKING:
    from ikigai.store.database import Database
    from ikigai.store.embedded.server import Lease
    from ikigai.store.purge.purge import Purge, PurgePlan, RewriteReport

CONFIRMATION_WORD = "purge"
"""The word that the user has to type."""
MAX_LISTED_EVENTS = 40
"""Events that are listed one by one."""
OUT_OF_REACH = (
    "What it cannot reach: the write-ahead log of a server of yours until that is overwritten, and archives of it; "
    "backups, replicas and dumps; that server's own log; files you exported, also .NAME.ikigai-new beside them; "
    "the terminal's scrollback; what the file system keeps of deleted files; other programs that follow the agent; "
    "what was sent to a provider. A key that was seen is best revoked."
)


def add(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add this command to the subcommands; `common` holds the options that every command takes."""
    command = commands.add_parser(
        "purge",
        parents=[common],
        help="permanently erase text from the log",
        description=f"Replace the text of events by {PURGED_TEXT}, permanently: texts, arguments of tool calls, "
        "results, images, thinking, unfinished replies. The events stay, with their ids. It shows what it found, asks "
        "for the word purge, and rewrites the tables, for which programs that store have to wait. Then it offers to "
        "delete the files of unsent input and of unsaved events that hold the text; with --yes it deletes them.",
        epilog=OUT_OF_REACH,
    )
    what = command.add_mutually_exclusive_group(required=True)
    what.add_argument("--ids", type=parse_ids, metavar="45,47-50", help="the events with these ids")
    words = "the events that contain this text; - asks for it, or reads it from a pipe"
    what.add_argument("--match", metavar="TEXT", help=words)
    command.add_argument("--agent", metavar="NAME|ID", help="only events of this agent")
    command.add_argument("--yes", action="store_true", help="do not ask")
    command.set_defaults(act=purge)


def parse_ids(text: str) -> list[tuple[int, int]]:
    """Return the ranges of ids that a text such as "45,47-50" means."""
    matches = [re.fullmatch(r"\s*(\d{1,18})\s*(?:-\s*(\d{1,18})\s*)?", part) for part in text.split(",")]
    ranges = [(int(match[1]), int(match[2] or match[1])) for match in matches if match]
    if len(ranges) < len(matches) or any(first > last for first, last in ranges):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of ids; write 45,47-50")
    return ranges


async def purge(config: Config, arguments: argparse.Namespace) -> int:
    text = _read_text(arguments.match)
    target = PurgeTarget(text) if text else None
    async with show_waiting(PREPARING_DATABASE) as on_waiting:
        async with contextlib.AsyncExitStack() as closing:  # a purge never makes a schema
            lease, database = await open_database(config, write=False)
            closing.callback(lease.close if lease else lambda: None)
            closing.push_async_callback(database.close)
        lease, database = await open_database(config, on_progress=on_waiting)
    try:
        agent = await _find_agent_id(database, arguments.agent)
        task = database.purge(target, arguments.ids or [(0, 2**63 - 1)], agent)
        with show_progress("Looking") as on_progress:
            plan = await task.find(looked=lambda count: on_progress(count, None))
        if plan.hits or plan.drafts:
            await _show(database, plan)
            await task.check_write_locks(plan)
            _confirm(arguments.yes)
            await _carry_out(task, plan)
        elif target:
            print_lines(
                "No event contains that. The tables are rewritten anyway, because their files keep deleted rows."
            )
        else:
            print_lines("There is nothing to purge: those events have no text.")
            return 0
        await _rewrite(task, lease)
        if (plan.hits or plan.drafts) and not task.by_ids and (newer := (await task.find(plan.last)).hits):
            print_lines(f"More of it came in meanwhile ({_count(len(newer), 'event')}). Purge again.")
        print_lines(OUT_OF_REACH)
        if target:
            await _report_names(database, target)
            purge_files.offer(target, arguments.yes)
        return 0
    finally:
        await database.close()
        if lease:
            lease.close()


def _read_text(match: str | None) -> str:
    """Return the text to purge; "" when ids were named.

    With "-" it is read from the terminal or a pipe, because a secret need not enter the history of the shell.
    """
    if match == "-":
        if sys.stdin.isatty():
            with ask.interruptible():
                match = getpass.getpass("Text to purge (hidden): ")
        else:
            match = sys.stdin.read().rstrip("\n")
    if match is not None and not match.strip():
        raise ConfigError("Add the text to search for.", "Use --match TEXT, or --match - to type it hidden.")
    return match or ""


async def _find_agent_id(database: Database, name: str | None) -> str | None:
    if name is None:
        return None
    with as_config_error():
        return (await database.agents.find(name)).id


async def _show(database: Database, plan: PurgePlan) -> None:
    """Print the events that were found, without the text itself."""
    names = await database.tree.names({hit.agent for hit in plan.hits} | {*plan.drafts})
    hits = plan.hits[:MAX_LISTED_EVENTS]
    rows = [(str(hit.id), names[hit.agent], _time(hit.at), hit.left.kind, clean_line(hit.words)) for hit in hits]
    if rows:
        print_lines(format_table(rows))
    if more := len(plan.hits) - len(rows):
        print_lines(f"… and {_count(more, 'more event')}")
    for agent in plan.drafts:
        print_lines(f"and the unfinished reply of {names[agent]}")
    agents = {hit.agent for hit in plan.hits} | {*plan.drafts}
    print_lines(f"{_count(len(plan.hits), 'event')} of {_count(len(agents), 'agent')}: {_kinds(plan)}.")
    if plan.empty:
        empty = _count(len(plan.empty), "event")
        print_lines(f"{empty} more of these ids have no text and stay unchanged.")


def _confirm(yes: bool) -> None:
    """Ask for the word. Raise ConfigError if there is no terminal to ask at, Rejected if the answer is another word."""
    if yes:
        return
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ConfigError("A purge cannot be undone, and there is no terminal for the confirmation.", "Add --yes.")
    if ask.read_answer(f"This cannot be undone. Type {CONFIRMATION_WORD} to go on: ") != CONFIRMATION_WORD:
        raise Rejected("Nothing was purged.")


async def _carry_out(task: Purge, plan: PurgePlan) -> None:
    async with show_waiting("Purging"):
        turns = await task.carry_out(plan)
    drafts = f", {_count(len(plan.drafts), 'unfinished reply', 'unfinished replies')}" if plan.drafts else ""
    print_lines(f"Purged: {_count(len(plan.hits), 'event')} ({_kinds(plan)}){drafts}.")
    if turns:
        print_lines(f"{_count(turns, 'turn')} lost their token counts; their size is now measured in bytes.")


async def _rewrite(task: Purge, lease: Lease | None) -> None:
    """Rewrite the tables and, on the embedded server, remove its write-ahead log; print the result of each."""
    async with show_waiting("Rewriting the tables"):
        rewritten = await task.rewrite()
        failure = await task.clear_write_ahead_log() if lease else ""
    for report in rewritten:
        print_lines(_format_rewrite(report))
    if failure:
        print_lines(f"The write-ahead log still contains it ({failure.rstrip('.')}). Purge again.")
    elif lease:
        print_lines("Removed: the write-ahead log up to now.")


def _format_rewrite(report: RewriteReport) -> str:
    if report.why:
        return (
            f"The files of the table {report.table} still contain old rows: it was not rewritten "
            f"({report.why.rstrip('.')}). Its owner can run: VACUUM (FULL, ANALYZE) {report.table};"
        )
    if report.kept:
        return (
            f"The files of the table {report.table} still hold {_count(report.kept, 'old row')}, which another "
            f"connection can see. When that has ended, run: ikigai db psql -c 'VACUUM (FULL, ANALYZE) {report.table}'"
        )
    before, after = (f"{size / 1e6:,.1f}" for size in report.sizes)
    return f"Rewritten: the table {report.table} with its indexes, {before} MB before, {after} MB now."


async def _report_names(database: Database, target: PurgeTarget) -> None:
    """Print which agents' names or folders hold the text: a purge does not change them."""
    for agent in await database.agents.all(1_000_000, unlisted=True):
        if target.is_in(agent.name) or target.is_in(agent.directory):
            print_lines(f"The name or folder of an agent contains it, and is not changed: its id is {agent.id}.")


def _kinds(plan: PurgePlan) -> str:
    return ", ".join(f"{count:,} {kind}" for kind, count in plan.kinds.most_common()) or "no event"


def _count(count: int, one: str, more: str = "") -> str:
    return f"{count:,} {one if count == 1 else more or one + 's'}"


def _time(at: float) -> str:
    return datetime.fromtimestamp(at).strftime("%Y-%m-%d %H:%M:%S")
