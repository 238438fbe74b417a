"""Print the results of a turn or a command without a terminal."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from ikigai.app.json_records.json_output import encode
from ikigai.app.json_records.outcome_records import ErrorRecord
from ikigai.app.json_records.record_fields import record_of, timestamp
from ikigai.app.json_records.turn_records import (
    CommandOutcome,
    DeltaRecord,
    EventRecord,
    ResultRecord,
    SourceFields,
    ThinkingRecord,
    UsageCounts,
)
from ikigai.core.errors import ExitCode
from ikigai.core.events import codec
from ikigai.core.events.events import (
    FALLBACK_KEY,
    AssistantMessage,
    Ending,
    Filtered,
    SettingsChanged,
    StoredEvent,
    TurnEnded,
    UsageReported,
    UserMessage,
)
from ikigai.core.events.messages import Citation, StopReason
from ikigai.core.ports import Delta
from ikigai.core.request.reply import (
    SHORT_REPLY_REASONS,
    HostedDelta,
    RetryScheduled,
    StreamFailed,
    TextDelta,
    ThinkingDelta,
    describe_retry,
)
from ikigai.core.state.memory import Memory
from ikigai.core.text.sanitize import Cleaner, clean, storable
from ikigai.core.views import usage_totals
from ikigai.core.views.context_rule import ContextRule
from ikigai.core.views.questions import Question, QuestionAnswer
from ikigai.core.views.transcript import Speaker, TranscriptBlock, source_line
from ikigai.headless.output_streams import OutputStreams

if TYPE_CHECKING:
    from ikigai.app.json_records.record_fields import PrintedRecord
    from ikigai.core.views.live_state import LiveState
    from ikigai.headless.reply_schema import ReplySchema


REASONS = {Ending.INTERRUPTED: "The turn was interrupted.", Ending.FAILED: "The turn failed."}
"""The reason of a turn that ended so without one of its own."""


class PrintView:
    """The view of print mode: words go to standard output as they come, everything else to standard error.

    `text` prints the words; `json` one object at the end, the result; `stream-json` one object per line: events,
    deltas, thinking, and at last the result. `ikigai.app.json_records` describes them. A message or command that is
    refused has an error in the place of the result.

    A command that changes something prints what it did. One that a model answers prints the answer; `command` is the
    name of either, and `did` what was done before the first message. Questions are answered with yes if `yes` is set,
    otherwise with no.

    Text is made safe for a terminal, also in a pipe or a file: it is often read in a terminal later. With `raw` it is
    written as it is. JSON escapes what a terminal would obey. If the reader of the output goes away, the turn goes on
    all the same and is stored; `streams.lost` is the error that ended the words. With a `schema` the reply has to match
    it.
    """

    def __init__(
        self,
        format: str,
        agent: str,
        agent_id: str,
        yes: bool = False,
        raw: bool = False,
        streams: OutputStreams | None = None,
        schema: ReplySchema | None = None,
        command: str = "",
        did: str = "",
    ) -> None:
        self._format, self._agent, self._agent_id, self._yes, self._command = format, agent, agent_id, yes, command
        self.streams, self.schema = streams or OutputStreams(), schema
        self._did = did
        self._cleaner = None if raw or format != "text" else Cleaner()
        self._idle = asyncio.Event()
        self.model = ""
        self.begin_turn()

    def begin_turn(self) -> None:
        """Begin the result of a turn or a command."""
        self._idle.clear()
        self.notes: list[TranscriptBlock] = []
        self._turn = 0
        self._by_user = True  # the events stored last are the user's wish, and not the beginning of the run
        self._fell_back = False  # the events stored last chose another model for the rest of the turn
        self._words: list[str] = []
        self._sources: tuple[Citation, ...] = ()
        self._shown = ""  # the end of the words that were written
        self._between = False  # the next words belong to a further reply
        self._last_failure = ""
        self.refused = False
        self._structured: Any = None
        self.mismatch = ""  # why the reply does not match the schema
        self._last_notice = ""
        self.filtered = False  # something was forgotten
        self.ending: TurnEnded | None = None
        self.usage: list[UsageReported] = []
        self.subagent_usage: list[UsageReported] = []  # of its subagents
        self.stop = StopReason.END
        self.is_silent = False  # the last reply has no words

    @property
    def stored_answer(self) -> str:
        """The sentence about where the answer can be read."""
        return f"It is stored: ikigai -r {self._agent} shows it."

    @property
    def incomplete(self) -> str:
        """The sentence about what the reply of a turn that ended completed lacks; "" for nothing."""
        return SHORT_REPLY_REASONS.get(self.stop, "") or (self.ending.reason if self.ending else "")

    async def ended(self) -> None:
        """Wait until the turn has ended, or the message was refused."""
        await self._idle.wait()

    def result(self) -> ResultRecord:
        """Return the outcome of the turn that has ended, or was stopped."""
        ending = self.ending.ending if self.ending else Ending.INTERRUPTED
        stop = self.stop.value if ending is Ending.COMPLETED else ending.value
        if ending is Ending.COMPLETED:
            reason = self.incomplete
        else:
            reason = (self.ending.reason if self.ending else "") or REASONS[ending]
        usage = _counts(self.usage)
        if self.subagent_usage:
            usage = msgspec.structs.replace(usage, agents=_counts(self.subagent_usage))
        matches = self.schema and ending is Ending.COMPLETED and not self.mismatch
        return ResultRecord(
            text="".join(self._words),
            agent=self._agent,
            agent_id=self._agent_id,
            model=self.model,
            usage=usage,
            turn=self._turn or None,
            stop=stop,
            reason=self.mismatch or reason or UNSET,
            structured=self._structured if matches else UNSET,
            sources=tuple(SourceFields(url=page.url, title=page.title) for page in self._sources) or UNSET,
            command=CommandOutcome(name=self._command, did=self._report or UNSET) if self._command else UNSET,
        )

    @property
    def _report(self) -> str:
        return "\n".join(filter(None, (self._did, *(note.text for note in self.notes))))

    def finish(self, cap_refusal: StreamFailed | None = None) -> None:
        """Write the result at the end of the turn; an error if there was none, or a cap stopped the turn."""
        self.streams.has_result = True
        if self.schema and self.ending and self.ending.ending is Ending.COMPLETED:
            self._structured, self.mismatch = self.schema.parse("".join(self._words))
        if self._format == "text":
            rest = self._cleaner.flush() if self._cleaner else ""
            self._write(rest + "\n" * (self._shown[-1:] not in ("", "\n")))
            lines = [source_line(number, page) for number, page in enumerate(self._sources, 1)]
            self._write("".join(f"{line}\n" for line in ("", *lines) if lines))
        elif self.refused and self.ending is None:
            self._write_record(self._refusal())
        elif cap_refusal:
            error = ErrorRecord(code=ExitCode.SPENDING_LIMIT, message=cap_refusal.text, remedy=cap_refusal.remedy)
            self._write_record(error)
        else:
            self._write_record(self.result())
        if self._report:
            self.notice(self._report)
        self._did = ""

    def print_report(self) -> None:
        """Write what a command did; an error if it was refused."""
        self.streams.has_result = True
        text = self._report
        if self._format == "text":
            self._write((clean(text) if self._cleaner else text) + "\n" * bool(text))
        elif self.notes:
            outcome = CommandOutcome(name=self._command, events=tuple(note.id for note in self.notes))
            self._write_record(ResultRecord(text=text, agent=self._agent, agent_id=self._agent_id, command=outcome))
        else:
            self._write_record(self._refusal())

    def _refusal(self) -> ErrorRecord:
        return ErrorRecord(code=ExitCode.FAILED, message=self._last_notice or "Nothing was done.")

    def stored(self, event: StoredEvent) -> None:
        if self._format == "stream-json":
            row = codec.encode(event.event)
            data = msgspec.json.decode(row.data) if row.data else None
            whose = {"agent": self._agent, "agent_id": event.agent}
            words = {"kind": row.kind, "content": row.content, "data": data}
            self._write_record(record_of(EventRecord, event, at=timestamp(event.at), **whose, **words))
        self._by_user, self._fell_back = True, False
        match event.event:
            case SettingsChanged(values, origins):
                self._by_user, self._fell_back = "agent" in origins.values(), bool(values.get(FALLBACK_KEY))
            case UserMessage():
                self._turn = self._turn or event.id
            case AssistantMessage() as reply:
                self._words = [reply.text] if reply.text else self._words
                self._sources = reply.sources if reply.text else self._sources
                self.stop, self.is_silent = reply.stop, not reply.text
                self._between = bool(self._shown)
            case UsageReported() as report:
                self.usage.append(report)
                self.model = report.model
            case TurnEnded() as end if self._turn:
                self.ending = end
                self._idle.set()
            case Filtered(planning=planning) as filtered:
                self._by_user = not planning or self._turn > 0  # else it planned in a turn that another run left open
                self.filtered = self._by_user and bool(filtered.ranges or filtered.ids)

    def add_subagent_usage(self, event: StoredEvent) -> None:
        """Add the usage of a subagent's request."""
        if isinstance(event.event, UsageReported):
            self.subagent_usage.append(event.event)

    def show_delta(self, asked_by: int, event: Delta | RetryScheduled) -> None:
        if isinstance(event, RetryScheduled):
            why = f"{event.why} " if event.why != self._last_failure else ""  # once: there may be many attempts
            self._last_failure = event.why
            self.notice(f"{why}{describe_retry(event, event.seconds)}.")
        elif isinstance(event, ThinkingDelta) and event.text and self._format == "stream-json":
            self._write_record(ThinkingRecord(text=storable(event.text)))
        elif isinstance(event, HostedDelta):
            self._between = bool(self._shown)
        elif isinstance(event, TextDelta):
            text = storable(event.text)  # half a surrogate pair can be written nowhere
            if self._format == "stream-json":
                self._write_record(DeltaRecord(text=text))
            elif self._format == "text":
                self._write_words(text)

    def show(self, block: TranscriptBlock) -> None:
        if block.speaker is Speaker.NOTE and self._fell_back:
            self.notice(block.text)
        elif block.speaker is Speaker.NOTE and self._by_user:
            self.notes.append(block)

    async def ask(self, question: Question) -> QuestionAnswer:
        text = "\n".join((question.title, *question.lines))
        if self._yes and question.yes:
            self.notice(f"{text}\nYes, by --yes.")
            return QuestionAnswer(question.yes)
        if question.remedy:
            self.notice(f"Refused in print mode: {question.about}. {question.remedy}")
        else:
            how = " Add --yes to confirm." * bool(question.yes)
            self.notice(f"{text}\nCannot prompt in print mode: answered no.{how}")
        return QuestionAnswer(question.default, not_asked=True)

    def rule(self, rule: ContextRule) -> None:
        pass

    def progress(self, call_id: str, text: str) -> None:
        pass

    def draft_saved(self, asked_by: int, characters: int) -> None:
        pass

    def attach(self, live: LiveState) -> None:
        pass

    def changed(self, memory: Memory) -> None:
        self.model = self.model or memory.model

    def notice(self, text: str) -> None:
        self._last_notice = text
        self.streams.write_error(f"ikigai: {clean(text)}\n")

    note = notice

    def database_unreachable(self, is_unreachable: bool) -> None:
        pass

    def restore_input(self, text: str) -> None:
        self.refused = True
        self._idle.set()

    def queued(self, texts: tuple[str, ...]) -> None:
        pass

    def _write_record(self, record: PrintedRecord) -> None:
        self._write(encode(record) + "\n")

    def _write_words(self, text: str) -> None:
        """Write words of a reply, after a blank line if another reply came before."""
        if self._between:
            text = text.lstrip("\n")
            if not text:
                return
            self._between = False
            text = "\n" * (2 - min(2, len(self._shown) - len(self._shown.rstrip("\n")))) + text
        self._shown = (self._shown + text)[-2:]
        self._write(text)

    def _write(self, text: str) -> None:
        self.streams.write(self._cleaner.feed(text) if self._cleaner else text)


def _counts(reports: Iterable[UsageReported]) -> UsageCounts:
    """Return the usage of these requests added up."""
    spent = usage_totals.sum_totals(map(usage_totals.totals_of, reports))
    return record_of(UsageCounts, spent, cost=spent.known_cost)
