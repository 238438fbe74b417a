"""Keep the output of the user's commands in files until the log has it, so that a kill loses nothing.

A file has the id that its message is stored under, so that the output joins the conversation only once.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ikigai.core.errors import IkigaiError
from ikigai.core.events.events import UserMessage
from ikigai.core.state.inputs import Quote
from ikigai.core.state.memory import replace
from ikigai.core.text.sanitize import storable
from ikigai.system.paths import unsaved_files

if TYPE_CHECKING:
    from ikigai.store.log.log import AgentLog

ID_TIME_CHARACTERS = len("01a20a18-0380")
"""Characters of an event id that are its time; those behind them are random."""


class CommandOutputs:
    """The `ports.CommandOutputStore` of one agent. `notice` takes messages about output that could not be kept."""

    def __init__(self, log: AgentLog, notice: Callable[[str], None]) -> None:
        self._log, self._notice = log, notice
        self._files: dict[str, tuple[Path, str]] = {}  # by id, with the message about each

    def save(self, quote: Quote) -> Quote:
        if quote.id:
            return quote
        from ikigai.app.unsaved.spool import spool

        unsaved = self._log.unsaved((UserMessage(storable(quote.text), alone=True),))
        spooled = spool(unsaved)
        if not spooled.is_complete:
            self._notice(spooled.message)
            return quote
        (id,) = unsaved.ids
        self._files[id] = spooled.path, spooled.message
        return replace(quote, id=id)

    async def pending(self) -> list[Quote]:
        quotes: list[tuple[int, Quote]] = []
        for file in unsaved_files(self._log.agent):
            from ikigai.app.unsaved.unsaved_events import read_file

            try:
                unsaved = read_file(file)
            except IkigaiError:  # the user has been notified
                continue
            if (output := unsaved.output) is None:
                continue
            (id,) = unsaved.ids
            self._files[id] = file, ""
            quote, place = Quote(output, is_command_output=True, id=id), await self._log.place(unsaved)
            if place.missing:
                quotes.append((place.at or 0, quote))
            else:  # stored already, before the program was killed
                self.delete(quote)
        # Ids have milliseconds; within one the order of the files' names counts, which have nanoseconds.
        return [quote for _, quote in sorted(quotes, key=lambda each: (each[0], each[1].id[:ID_TIME_CHARACTERS]))]

    def delete(self, quote: Quote) -> None:
        file, _ = self._files.pop(quote.id, (None, ""))
        if file:
            try:
                file.unlink(missing_ok=True)
            except OSError as error:  # the next start finds it in the log
                self._notice(f"{file} cannot be deleted ({error.strerror}); it is no longer needed.")

    def message(self, quote: Quote) -> str:
        """Return the message about the file that has the output, or ""."""
        return self._files.get(quote.id, (None, ""))[1]
