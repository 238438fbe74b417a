"""The command `ikigai db purge`: says what would go, asks for the word, and says what is gone and what is not."""

from __future__ import annotations

import argparse
import getpass
import re
import sys
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ikigai.app.open_database import PREPARING, open_database
from ikigai.cli import ask as questions
from ikigai.cli.commands import purge_files as files
from ikigai.config import Config
from ikigai.core.errors import ConfigError, Refused
from ikigai.core.sanitize import clean_line
from ikigai.core.transfer.redact import GONE, Wanted
from ikigai.system.output import say, table
from ikigai.system.progress import progress, waiting

if TYPE_CHECKING:
    from ikigai.store.database import Database
    from ikigai.store.embedded.server import Lease
    from ikigai.store.purge import Found, Purge, Rewritten

WORD = "purge"
"""What has to be typed."""
LISTED = 40
"""Events that are shown one by one."""
ELSEWHERE = (
    "What it cannot reach: the write-ahead log of a server of yours until that is overwritten, and archives of it; "
    "backups, replicas and dumps; that server's own log; files you exported; the terminal's scrollback; what the file "
    "system keeps of deleted files; programs that read along; what was sent to a provider. "
    "A key that was seen is best revoked."
)


def add(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add this command to those of a parser; `common` holds the options that stand behind any of them."""
    command = commands.add_parser(
        "purge",
        parents=[common],
        help="take a text out of the log for good",
        description=f"Replace what was said in events by {GONE}, for good: texts, arguments of tool calls, results, "
        "images, thinking, unfinished replies. The events stay, with their ids. It shows what it found, asks for the "
        "word purge, and rewrites the tables, for which programs that store have to wait. Then it offers to delete the "
        "files of unsent input and of unsaved events that hold the text; with --yes it deletes them.",
        epilog=ELSEWHERE,
    )
    what = command.add_mutually_exclusive_group(required=True)
    what.add_argument("--ids", type=ids, metavar="45,47-50", help="the events with these ids")
    what.add_argument(
        "--match", metavar="TEXT", help="the events that hold this text; - asks for it, or reads it from a pipe"
    )
    command.add_argument("--agent", metavar="NAME|ID", help="of this agent alone")
    command.add_argument("--yes", action="store_true", help="do not ask")
    command.set_defaults(act=purge)


def ids(text: str) -> list[tuple[int, int]]:
    """The ranges of ids that "45,47-50" means."""
    found = [re.fullmatch(r"\s*(\d{1,18})\s*(?:-\s*(\d{1,18})\s*)?", part) for part in text.split(",")]
    ranges = [(int(match[1]), int(match[2] or match[1])) for match in found if match]
    if len(ranges) < len(found) or any(first > last for first, last in ranges):
        raise argparse.ArgumentTypeError(f"{text!r} is no list of ids; write 45,47-50")
    return ranges


async def purge(config: Config, arguments: argparse.Namespace) -> int:
    text = _text(arguments.match)
    wanted = Wanted(text) if text else None
    async with waiting(PREPARING) as far:
        lease, database = await open_database(config, told=far)
    try:
        agent = await _agent(database, arguments.agent)
        task = database.purge(wanted, arguments.ids or [(0, 2**63 - 1)], agent)
        with progress("Looking") as told:
            found = await task.find(looked=lambda count: told(count, None))
        if found.hits or found.drafts:
            await _show(database, found)
            await task.check_pens(found)
            _confirmed(arguments.yes)
            await _carry_out(task, found)
        elif wanted:
            say("No event holds that. The tables are rewritten all the same: their files keep deleted rows.")
        else:
            say("There is nothing to purge: those events hold no words.")
            return 0
        await _rewrite(task, lease)
        if (found.hits or found.drafts) and not task.by_ids and (newer := (await task.find(found.last)).hits):
            say(f"More of it came in meanwhile ({_many(len(newer), 'event')}). Purge again.")
        say(ELSEWHERE)
        if wanted:
            await _rest(database, wanted)
            files.offer(wanted, arguments.yes)
        return 0
    finally:
        await database.close()
        if lease:
            lease.close()


def _text(match: str | None) -> str:
    """What is looked for; "" when ids were named. Not everybody wants a secret in the history of the shell."""
    if match == "-":
        if sys.stdin.isatty():
            with questions.interruptible():
                match = getpass.getpass("Text to purge (it is not shown): ")
        else:
            match = sys.stdin.read().rstrip("\n")
    if match is not None and not match.strip():
        raise ConfigError("There is no text to look for.", "Write --match TEXT, or --match - to be asked for it.")
    return match or ""


async def _agent(database: Database, name: str | None) -> str | None:
    if name is None:
        return None
    try:
        return (await database.agents.find(name)).id
    except Refused as refusal:
        raise ConfigError(refusal.what, refusal.remedy) from None


async def _show(database: Database, found: Found) -> None:
    """What was found, without the text itself."""
    names = {agent.id: agent.name for agent in await database.agents.all(1_000_000)}
    rows = [
        (str(hit.id), names[hit.agent], _time(hit.at), hit.left.kind, clean_line(hit.words))
        for hit in found.hits[:LISTED]
    ]
    if rows:
        say(table(rows))
    if more := len(found.hits) - len(rows):
        say(f"… and {_many(more, 'more event')}")
    for agent in found.drafts:
        say(f"and the unfinished reply of {names[agent]}")
    agents = {hit.agent for hit in found.hits} | {*found.drafts}
    say(f"{_many(len(found.hits), 'event')} of {_many(len(agents), 'agent')}: {_kinds(found)}.")
    if found.empty:
        say(f"Without words, so that nothing changes in them: {_many(len(found.empty), 'event')} more of these ids.")


def _confirmed(yes: bool) -> None:
    """Raises ConfigError where nobody can be asked, Refused when the answer is another word."""
    if yes:
        return
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ConfigError("A purge cannot be taken back, and there is no terminal to ask for a word.", "Add --yes.")
    if questions.answer(f"This cannot be taken back. Type {WORD} to go on: ") != WORD:
        raise Refused("Nothing was purged.")


async def _carry_out(task: Purge, found: Found) -> None:
    async with waiting("Purging"):
        turns = await task.carry_out(found)
    drafts = f", {_many(len(found.drafts), 'unfinished reply', 'unfinished replies')}" if found.drafts else ""
    say(f"Purged: {_many(len(found.hits), 'event')} ({_kinds(found)}){drafts}.")
    if turns:
        say(f"{_many(turns, 'turn')} lost the count of tokens, and will be measured by bytes.")


async def _rewrite(task: Purge, lease: Lease | None) -> None:
    """Rewrite the tables and, on the embedded server, remove its write-ahead log; say what became of each."""
    async with waiting("Rewriting the tables"):
        rewritten = await task.rewrite()
        failure = await task.clear_write_ahead_log() if lease else ""
    for done in rewritten:
        say(_rewritten(done))
    if failure:
        say(f"The write-ahead log still holds it ({failure.rstrip('.')}). Purge again.")
    elif lease:
        say("Removed: the write-ahead log up to now.")


def _rewritten(done: Rewritten) -> str:
    if done.why:
        return (
            f"The files of the table {done.table} still hold old rows: it was not rewritten ({done.why.rstrip('.')}). "
            f"Let its owner run: VACUUM (FULL, ANALYZE) {done.table};"
        )
    if done.kept:
        return (
            f"The files of the table {done.table} still hold {_many(done.kept, 'old row')}, which another connection "
            f"can see. When that has ended, run: ikigai db psql -c 'VACUUM (FULL, ANALYZE) {done.table}'"
        )
    before, after = (f"{size / 1e6:,.1f}" for size in done.sizes)
    return f"Rewritten: the table {done.table} with its indexes, {before} MB before, {after} MB now."


async def _rest(database: Database, wanted: Wanted) -> None:
    """Say which agents' names or folders hold the text: a purge does not touch them."""
    for agent in await database.agents.all(1_000_000):
        if wanted.said(agent.name) or wanted.said(agent.directory):
            say(f"The name or the folder of an agent holds it, and stays: its id is {agent.id}.")


def _kinds(found: Found) -> str:
    return ", ".join(f"{count:,} {kind}" for kind, count in found.kinds.most_common()) or "no event"


def _many(count: int, one: str, more: str = "") -> str:
    return f"{count:,} {one if count == 1 else more or one + 's'}"


def _time(at: float) -> str:
    return datetime.fromtimestamp(at).strftime("%Y-%m-%d %H:%M:%S")
