"""Recover events that an earlier run could not save: into the log when their agent is opened, or into a fork of it.

`spool` has written them to files. A file is deleted once the log has its events. The next start finds out that the log
has the events of a file that a killed program left.
"""

from __future__ import annotations

import argparse
import logging
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ikigai.app.history.history_import import UNCHECKED, open_import
from ikigai.core.errors import WAITED_FOR, ConfigError, IkigaiError, Rejected, StoreError
from ikigai.core.relocation.unsaved import Unsaved, read

if TYPE_CHECKING:
    from ikigai.core.relocation.position import UnsavedPosition
    from ikigai.store.agents.agents import Agent
    from ikigai.store.database import Database
    from ikigai.store.log.log import AgentLog

MAX_UNSAVED_FILE_BYTES = 400_000_000
"""Bytes of such a file: 64 MiB of events are kept while the database is away, and JSON may take six times as much."""

log = logging.getLogger(__name__)


async def put_back(files: Sequence[Path], agent: AgentLog) -> list[str]:
    """Store the unsaved events that follow on the log of this agent; return messages about them.

    Files are tried until none follows on another: clocks do not show their order. Output of the user's commands is left
    to the loop, which ends the open turn first. Raise only Unavailable: an agent opens whatever is in these files.
    """
    messages, left = list[str](), dict[Path, Unsaved]()
    for file in files:
        try:
            unsaved = read_file(file)
        except IkigaiError as error:
            messages.append(str(error))
        else:
            if unsaved.output is None:
                left[file] = unsaved
    tried = len(left) + 1
    while left and len(left) < tried:
        tried = len(left)
        for file, unsaved in list(left.items()):
            if (message := await _put_back(file, unsaved, agent)) is not None:
                messages.append(message)
                del left[file]
    messages += [_by_hand(file, (await agent.place(unsaved)).missing) for file, unsaved in left.items()]
    return list(filter(None, messages))


async def _put_back(file: Path, unsaved: Unsaved, agent: AgentLog) -> str | None:
    """Store the events; return the message, None if they do not follow on the log."""
    try:
        place = await agent.store_unsaved(unsaved)
    except WAITED_FOR:
        raise
    except StoreError as error:
        log.warning("%s is not put back: %s", file, error)
        return _by_hand(file, len(unsaved.events))
    if place.missing and not place.follows:
        return None
    _remove(file)
    return f"{_put(place.missing)} the log now.{_unchecked(unsaved)}" if place.missing else ""


def _by_hand(file: Path, count: int) -> str:
    command = f"ikigai history recover {shlex.quote(str(file))}"
    return (
        f"{_events(count)} could not be saved, and the log went on without them. To restore them in a fork: {command}"
    )


async def fork_rest(database: Database, file: Path) -> str:
    """Fork the agent of the events in this file, which its log went on without; return the message. Raise
    IkigaiError.
    """
    unsaved = read_file(file)
    agent = await database.agents.find(unsaved.agent)
    place = await database.locate_unsaved(unsaved)
    _check(agent, place)
    child = await database.fork_with(agent, place, unsaved)
    return f"Your {_events(place.missing)} are in its fork {child.name}: /switch {child.name}{_remove(file)}"


async def run_recover(database: Database, arguments: argparse.Namespace) -> str:
    """Run `ikigai history recover`; return its message. Raise IkigaiError."""
    file = Path(arguments.file)
    unsaved = read_file(file)
    agent = await database.agents.get(unsaved.agent)
    if agent is None:
        what = f"The events are of agent {unsaved.name}, which is not in this database."
        raise ConfigError(what, "Choose the right database with --db or IKIGAI_DATABASE_URL.")
    place = await database.locate_unsaved(unsaved)
    if unsaved.output is not None and place.missing and not agent.killed_at:
        what = f"{file} has the output of your command; it is added to the conversation when {agent.name} is opened."
        raise Rejected(what, f"Open it: ikigai -r {agent.name}")
    _check(agent, place)
    await database.tree.check(agent)
    into = place.follows and not arguments.name
    if into and (place := await _into(database, agent, unsaved)).follows:
        message = f"{_put(place.missing)} {agent.name} now."
    else:
        parent, agent = agent, await database.fork_with(agent, place, unsaved, arguments.name)
        message = f"{agent.name} is new: a fork of {parent.name} with {_events(place.missing)} that could not be saved."
    return f"{message}{_unchecked(unsaved)} Go on with it: ikigai -r {agent.name}{_remove(file)}"


def _check(agent: Agent, place: UnsavedPosition) -> None:
    """Raise Rejected if there is nothing to recover, or no place for it."""
    if not place.missing:
        raise Rejected(f"{place.holder} has these events already. Nothing was recovered.", "The file can be deleted.")
    if place.at is None:
        raise Rejected(
            "The event that they follow is not in this database, which may be an older copy. Nothing was recovered.",
            "Choose the right database with --db; the messages are readable in the file.",
        )
    if agent.killed_at:
        raise Rejected(f"Agent {agent.name} was killed.", f"Run: ikigai agents revive {agent.name}")


async def _into(database: Database, agent: Agent, unsaved: Unsaved) -> UnsavedPosition:
    """Store the events in their agent. Raise AgentLocked if it is open in another program."""
    writer = await database.open_agent(agent)
    try:
        return await writer.store_unsaved(unsaved)
    finally:
        await writer.close()


def read_file(file: Path) -> Unsaved:
    """Read a file of unsaved events. Raise IkigaiError."""
    with open_import(file) as content:
        try:
            text = content.read(MAX_UNSAVED_FILE_BYTES + 1)
            if len(text) > MAX_UNSAVED_FILE_BYTES:
                raise Rejected(f"{file} is too large for a file of ikigai. Nothing was recovered.", "Check the file.")
            return read(str(file), text)
        except OSError as error:
            raise IkigaiError(f"{file} cannot be read: {error.strerror}.", "Check the disk.") from None


def _remove(file: Path) -> str:
    """Delete the file; return a message if that fails, else ""."""
    try:
        file.unlink(missing_ok=True)
    except OSError as error:
        return f" {file} cannot be deleted ({error.strerror}); it is no longer needed."
    return ""


def _unchecked(unsaved: Unsaved) -> str:
    return "" if unsaved.has_checksum else UNCHECKED


def _events(count: int) -> str:
    return f"{count:,} event{'s' * (count != 1)}"


def _put(count: int) -> str:
    return f"{_events(count)} that could not be saved {'is' if count == 1 else 'are'} in"
