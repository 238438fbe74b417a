"""Keep events in a file of the state folder if the database does not store them."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ikigai.core.relocation.unsaved import serialize
from ikigai.system import paths
from ikigai.system.file_replacement import write_file

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ikigai.core.events.events import Event
    from ikigai.core.relocation.unsaved import Unsaved
    from ikigai.store.log.log import AgentLog


class SpoolResult(NamedTuple):
    """The message for the user, a flag that the file has all events, and the path of the file."""

    message: str
    is_complete: bool
    path: Path


def spool(unsaved: Unsaved) -> SpoolResult:
    """Write unsaved events to a file of the state folder; return the message about it."""
    path = paths.unsaved_file(unsaved.agent)
    one, count = len(unsaved.events) == 1, f"{len(unsaved.events):,}"
    lost = f"{count} event{'' if one else 's'} could not be saved"
    try:
        paths.make_private(path.parent)
        write_file(path, serialize(unsaved))  # a file with a part of them would be refused at each start
    except OSError as error:
        return SpoolResult(f"{lost}, nor kept in {path}: {error.strerror}.", False, path)
    they = "it is" if one else "they are"
    return SpoolResult(f"{lost}; {they} kept in {path} until {unsaved.name} is opened again.", True, path)


def spool_rest(log: AgentLog, events: Sequence[Event]) -> SpoolResult | None:
    """Write what a log that is given up did not take: these events, behind those that it has lost. Return None without
    any.
    """
    if not events and not log.has_diverged:
        return None
    result = spool(log.unsaved(events))
    if result.is_complete and log.has_diverged and log.tail:
        log.tail.on_confirmed()  # this file also has those events
    return result


def keep_events(unsaved: Unsaved) -> Callable[[], None]:
    """Write events to a file while it is not known if the log has them; return the function that removes it."""
    path = spool(unsaved).path

    def remove() -> None:
        with contextlib.suppress(OSError):
            path.unlink()

    return remove
