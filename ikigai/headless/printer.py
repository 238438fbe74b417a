"""Print mode: one message, one answer, the same runtime, no terminal."""

from __future__ import annotations

import asyncio
import contextlib
import io
import math
import re
import sys
from typing import TYPE_CHECKING, Any

import msgspec

from ikigai.core import codec
from ikigai.core.events import (
    AssistantMessage,
    Ending,
    Filtered,
    SettingsChanged,
    StoredEvent,
    TurnEnded,
    UsageReported,
    UserMessage,
)
from ikigai.core.messages import StopReason
from ikigai.core.ports import Delta
from ikigai.core.questions import Answered, Question
from ikigai.core.request.reply import PASSING, SHORT, TextDelta, ThinkingDelta, Waiting
from ikigai.core.sanitize import Cleaner, clean, storable
from ikigai.core.state.inputs import Command, Interrupted, Plan, Retry, Submitted
from ikigai.core.state.memory import Memory, Status
from ikigai.core.views import usage_totals as spending
from ikigai.core.views.transcript import Block, Rule, Speaker

if TYPE_CHECKING:
    from ikigai.agent.loop import Runtime


_OBEYED = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""DEL, C1 controls, line separators and bidirectional controls; JSON escapes C0 controls anyway."""


class Printer:
    """The view of print mode: words to standard output as they come, everything else to standard error.

    `text` prints the words; `json` one object at the end; `stream-json` one object per line, `type` one of "event" (a
    stored event as it is in the log), "delta" (words of the reply being streamed), "thinking" (what the model thinks
    before or between them), "result" (the object of `json`).
    Its `usage` adds up every request of the turn: tokens, and `cost` in US dollars without that of the `unpriced`
    requests, null when it is not known at all; its `agents`, if there is that, the same of agents that this one made.

    A command that changes something prints what it did; one that a model answers says so besides, the object in `did`.
    Questions are answered with `yes`, or else with no.

    Text is made safe for a terminal, also where it goes into a pipe or a file: it is often read in a terminal later.
    With `raw` it is written as it is. JSON escapes what a terminal would obey. When nobody takes it any more, the turn
    goes on all the same and is stored; `lost` says why the words ended.
    """

    def __init__(self, format: str, agent: str, yes: bool = False, raw: bool = False) -> None:
        self._format, self._agent, self._yes = format, agent, yes
        self.notes: list[Block] = []
        self._out = sys.stdout
        if isinstance(self._out, io.TextIOWrapper):
            self._out.reconfigure(errors="replace")  # not every encoding has every character
        self._cleaner = None if raw or format != "text" else Cleaner()
        self._idle = asyncio.Event()
        self._turn = 0
        self._wished = True  # whether what was stored last is what the user wanted, and not how the run begins
        self._words: list[str] = []
        self._open_line = False
        self._told = ""
        self.lost: OSError | None = None
        self.model = ""
        self.refused = False
        self.filtered = False  # something was forgotten
        self.ending: TurnEnded | None = None
        self.usage: list[UsageReported] = []
        self.beside: list[UsageReported] = []  # of the agents that it made
        self.stop = StopReason.END
        self.silent = False  # the last reply has no words

    async def ended(self) -> None:
        """Wait until the turn has ended, or the message was refused."""
        await self._idle.wait()

    def result(self) -> dict[str, Any]:
        ending = self.ending.ending.value if self.ending else "refused"
        spent = spending.total(map(spending.spent, self.usage))
        usage: dict[str, Any] = {
            key: getattr(spent, key) for key in ("input", "output", "cached", "written", "thinking", "unpriced")
        }
        usage["cost"] = None if spent.known_cost is None else float(spent.known_cost)
        if self.beside:
            beside = spending.total(map(spending.spent, self.beside))
            usage["agents"] = {key: getattr(beside, key) for key in usage if key != "cost"}
            usage["agents"]["cost"] = None if beside.known_cost is None else float(beside.known_cost)
        made = {
            "text": "".join(self._words),
            "agent": self._agent,
            "model": self.model,
            "usage": usage,
            "turn": self._turn or None,
            "stop": self.stop.value if ending == Ending.COMPLETED else ending,
        }
        if self.ending and self.ending.reason:
            made["reason"] = self.ending.reason
        if self.notes:
            made["did"] = self._did
        return made

    @property
    def _did(self) -> str:
        return "\n".join(note.text for note in self.notes)

    def finish(self) -> None:
        """Write what is due at the end."""
        if self._format == "json":
            self._line(self.result())
        elif self._format == "stream-json":
            self._line({"type": "result", **self.result()})
        else:
            held = self._cleaner.flush() if self._cleaner else ""
            self._put(held + "\n" * self._open_line)
        if self.notes:
            self.notice(self._did)

    def did(self) -> None:
        """Write what a command did."""
        said = self._did
        if self._format == "text":
            self._put((clean(said) if self._cleaner else said) + "\n" * bool(said))
            return
        made = {"text": said, "agent": self._agent, "events": [note.id for note in self.notes]}
        self._line({"type": "result", **made} if self._format == "stream-json" else made)

    def stored(self, event: StoredEvent) -> None:
        if self._format == "stream-json":
            row = codec.encode(event.event)
            data = msgspec.json.decode(row.data) if row.data else None
            body = {"id": event.id, "seq": event.seq, "at": event.at, "kind": row.kind, "content": row.content}
            self._line({"type": "event", "agent": event.agent, **body, "data": data})
        self._wished = True
        match event.event:
            case SettingsChanged(_, origins):
                self._wished = "agent" in origins.values()
            case UserMessage():
                self._turn = self._turn or event.id
            case AssistantMessage() as said:
                self._words = [said.text] if said.text else self._words
                self.stop, self.silent = said.stop, not said.text
            case UsageReported() as report:
                self.usage.append(report)
                self.model = report.model
            case TurnEnded() as end if self._turn:
                self.ending = end
                self._idle.set()
            case Filtered(planning=planning) as filtered:
                self._wished = not planning or self._turn > 0  # else a talk that another run left open
                self.filtered = self._wished and bool(filtered.ranges or filtered.ids)

    def spent_beside(self, event: StoredEvent) -> None:
        """An agent that this one made has asked a model."""
        if isinstance(event.event, UsageReported):
            self.beside.append(event.event)

    def live(self, asked_by: int, event: Delta | Waiting) -> None:
        if isinstance(event, Waiting):
            if event.why != self._told:  # once: there may be many attempts
                self._told = event.why
                self.notice(f"{event.why} Trying again in {math.ceil(event.seconds)} s.")
        elif isinstance(event, ThinkingDelta) and event.text and self._format == "stream-json":
            self._line({"type": "thinking", "text": storable(event.text)})
        elif isinstance(event, TextDelta):
            text = storable(event.text)  # half a surrogate pair can be written nowhere
            if self._format == "stream-json":
                self._line({"type": "delta", "text": text})
            elif self._format == "text":
                self._put(text)
                self._open_line = not text.endswith("\n")

    def show(self, block: Block) -> None:
        if block.speaker is Speaker.NOTE and self._wished:
            self.notes.append(block)

    async def ask(self, question: Question) -> Answered:
        said = "\n".join((question.title, *question.lines))
        if self._yes and question.yes:
            self.notice(f"{said}\nYes, by --yes.")
            return Answered(question.yes)
        how = "--yes agrees beforehand." if question.yes else "--yolo runs the tools of models without asking."
        self.notice(f"{said}\nNobody can be asked here: no. {how}")
        return Answered(question.default, nobody=True)

    def rule(self, rule: Rule) -> None:
        pass

    def progress(self, call_id: str, text: str) -> None:
        pass

    def saved(self, asked_by: int, characters: int) -> None:
        pass

    def changed(self, memory: Memory) -> None:
        self.model = self.model or memory.model

    def notice(self, text: str) -> None:
        with contextlib.suppress(OSError):
            sys.stderr.write(f"ikigai: {clean(text)}\n")

    def away(self, is_away: bool) -> None:
        pass

    def returned(self, text: str) -> None:
        self.refused = True
        self._idle.set()

    def queued(self, texts: tuple[str, ...]) -> None:
        pass

    def _line(self, value: dict[str, Any]) -> None:
        self._put(_escaped(msgspec.json.encode(value).decode()) + "\n")

    def _put(self, text: str) -> None:
        if self.lost is None:
            try:
                self._out.write(self._cleaner.feed(text) if self._cleaner else text)
                self._out.flush()
            except OSError as error:
                self.lost = error


def _escaped(text: str) -> str:
    """Return JSON with the characters escaped that a terminal would obey and the encoder leaves as they are."""
    return _OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


async def carry_out(runtime: Runtime, printer: Printer, command: Command) -> int:
    """Do what the command says, print what it did, and return the exit code: 1 when it was refused or declined."""
    runtime.inbox.put_nowait(command)
    runtime.inbox.put_nowait(None)
    await runtime.run()
    printer.did()
    return 0 if printer.notes else 1


async def answer(runtime: Runtime, printer: Printer, asked: Submitted | Plan | Retry) -> int:
    """Submit what is asked, wait for the turn to end, and return the exit code.

    0 answered, if not to the end; 1 failed or refused, also by the model without a word, or nothing was forgotten in a
    talk about that; 75 later.
    """
    loop = asyncio.create_task(runtime.run())
    ended = asyncio.create_task(printer.ended())
    try:
        runtime.inbox.put_nowait(asked)
        await asyncio.wait({loop, ended}, return_when=asyncio.FIRST_COMPLETED)
        if loop.done():
            loop.result()  # the loop ends by itself only when it raises
    except asyncio.CancelledError:
        runtime.inbox.put_nowait(Interrupted())
        if runtime.memory.status is not Status.IDLE:
            await asyncio.wait({loop, ended}, timeout=3, return_when=asyncio.FIRST_COMPLETED)
        printer.finish()
        raise
    finally:
        runtime.inbox.put_nowait(None)
        await asyncio.wait({loop}, timeout=3)
        ended.cancel()
    printer.finish()
    if printer.lost and not isinstance(printer.lost, BrokenPipeError):
        why = printer.lost.strerror
        printer.notice(f"The answer could not be written: {why}. It is stored: start ikigai to see it.")
        return 1
    if printer.ending is None or printer.ending.ending is Ending.COMPLETED:
        if why := SHORT.get(printer.stop):
            printer.notice(why)
        nothing = isinstance(asked, Plan) and not printer.filtered
        return 1 if nothing or printer.refused or (printer.stop is StopReason.REFUSED and printer.silent) else 0
    printer.notice(printer.ending.reason or printer.ending.ending.value)
    return 75 if printer.usage and printer.usage[-1].failure in PASSING else 1
