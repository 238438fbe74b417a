"""Events that an earlier run could not save: back in the log when their agent is opened, or in a fork of it.

`spool` has kept them in files. A file goes when the log has what it holds, and a second look at one that a killed
program left finds that it has.
"""

from __future__ import annotations

import argparse
import logging
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ikigai.app.export import opened
from ikigai.core.errors import WAITED_FOR, ConfigError, IkigaiError, Refused, StoreError
from ikigai.core.transfer.unsaved import Unsaved, read

if TYPE_CHECKING:
    from ikigai.store.agents import Agent
    from ikigai.store.database import Database
    from ikigai.store.log import AgentLog
    from ikigai.store.unsaved_place import Place

LARGEST = 400_000_000
"""Bytes of such a file: 64 MiB of events are kept while the database is away, which JSON may make six times as long."""

log = logging.getLogger(__name__)


async def put_back(files: Sequence[Path], agent: AgentLog) -> list[str]:
    """Store what follows on the log of this agent; the sentences about what was done, and about what the user can do.

    Raises Unavailable, and otherwise nothing: an agent opens whatever is in these files.
    """
    return [told for file in files if (told := await _put_back(file, agent))]


async def _put_back(file: Path, agent: AgentLog) -> str:
    try:
        unsaved = _read(file)
    except IkigaiError as error:
        return str(error)
    try:
        place = await agent.put_back(unsaved)
    except WAITED_FOR:
        raise
    except StoreError as error:
        log.warning("%s is not put back: %s", file, error)
        return _by_hand(file, len(unsaved.events))
    if place.missing and not place.follows:
        return _by_hand(file, place.missing)
    _remove(file)
    return f"{_put(place.missing)} the log now." if place.missing else ""


def _by_hand(file: Path, count: int) -> str:
    command = f"ikigai history recover {shlex.quote(str(file))}"
    return f"{_events(count)} could not be saved, and the log has gone on without. To have them in a fork: {command}"


async def run_recover(database: Database, arguments: argparse.Namespace) -> str:
    """Do what `ikigai history recover` is asked for; what there is to say of it. Raises IkigaiError."""
    file = Path(arguments.file)
    unsaved = _read(file)
    agent = await database.agents.get(unsaved.agent)
    if agent is None:
        what = f"The events are of agent {unsaved.name}, which is not in this database."
        raise ConfigError(what, "Name the right one with --db, or IKIGAI_DATABASE_URL.")
    place = await database.place(unsaved)
    _check(agent, place)
    await database.family.check(agent)
    into = place.follows and not arguments.name
    if into and (place := await _into(database, agent, unsaved)).follows:
        told = f"{_put(place.missing)} {agent.name} now."
    else:
        parent, agent = agent, await database.fork_with(agent, place, unsaved, arguments.name)
        told = f"{agent.name} is new: a fork of {parent.name} with {_events(place.missing)} that could not be saved."
    return f"{told} Go on with it: ikigai -r {agent.name}{_remove(file)}"


def _check(agent: Agent, place: Place) -> None:
    """Raise Refused where there is nothing to recover, or nowhere to."""
    if not place.missing:
        raise Refused(f"{place.holder} has these events already. Nothing was recovered.", "The file can be deleted.")
    if place.at is None:
        raise Refused(
            "The event that they follow is not in this database, which may be an older copy. Nothing was recovered.",
            "Name the right database with --db; what was said can be read in the file.",
        )
    if agent.killed_at:
        raise Refused(f"Agent {agent.name} was killed.", f"Run: ikigai agents revive {agent.name}")


async def _into(database: Database, agent: Agent, unsaved: Unsaved) -> Place:
    """Put the events back into their agent. Raises Busy when another program has it."""
    writer = await database.open_agent(agent)
    try:
        return await writer.put_back(unsaved)
    finally:
        await writer.close()


def _read(file: Path) -> Unsaved:
    with opened(file) as content:
        try:
            text = content.read(LARGEST + 1)
            if len(text) > LARGEST:
                raise Refused(f"{file} is larger than any that ikigai writes. Nothing was recovered.", "Look into it.")
            return read(str(file), text)
        except OSError as error:
            raise IkigaiError(f"{file} cannot be read: {error.strerror}.", "Check the disk.") from None


def _remove(file: Path) -> str:
    """Delete the file; a sentence where that fails."""
    try:
        file.unlink(missing_ok=True)
    except OSError as error:
        return f" {file} cannot be deleted ({error.strerror}); it is not needed any more."
    return ""


def _events(count: int) -> str:
    return f"{count:,} event{'s' * (count != 1)}"


def _put(count: int) -> str:
    return f"{_events(count)} that could not be saved {'is' if count == 1 else 'are'} in"
