"""The View of an agent: writes its live state, which the front end that is attached draws.

A detached agent draws nothing. Its stored events are in the log. The rest (notices, questions, text for the prompt) is
buffered here until a front end attaches.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from ikigai.core.events.events import AssistantMessage, Ending, StoredEvent, TurnEnded, UsageReported, UserMessage
from ikigai.core.ports import AttachedView, Delta
from ikigai.core.request.reply import RetryScheduled
from ikigai.core.state.memory import Memory, replace
from ikigai.core.views.context_rule import ContextRule
from ikigai.core.views.live_state import LiveState
from ikigai.core.views.questions import Question, QuestionAnswer
from ikigai.core.views.transcript import TranscriptBlock

MAX_BUFFERED_NOTICES = 20
"""Notices buffered while detached; older ones are dropped."""


class PendingQuestion:
    """A question that waits for its answer; `shown` is the task that shows it on the screen."""

    def __init__(self, question: Question) -> None:
        self.question = question
        self.answered: asyncio.Future[QuestionAnswer] = asyncio.get_running_loop().create_future()
        self.shown: asyncio.Task[None] | None = None


class BufferedView:
    """The View of one agent, and the only writer of its `live_state`.

    `on_change` is called when `questions`, `unseen_ending` or `live_state` changed. `on_usage` gets the usage of
    requests made while detached, `on_stored` every stored event. `on_asking` gets True while a question waits. With
    `can_ask` false, questions are answered with their default while detached.
    """

    def __init__(
        self,
        on_change: Callable[[], object] = lambda: None,
        on_usage: Callable[[StoredEvent], object] = lambda event: None,
        can_ask: bool = True,
        on_stored: Callable[[StoredEvent], object] = lambda event: None,
        on_asking: Callable[[bool], object] = lambda asks: None,
    ) -> None:
        self.attached_view: AttachedView | None = None  # of the front end
        self.live_state = LiveState()
        self.questions: list[PendingQuestion] = []
        self.unseen_ending: Ending | None = None  # the ending of its newest turn, if it ended while detached
        self.words = ""  # of the newest turn's last reply
        self.ended: TurnEnded | None = None  # the end of the newest turn, since it was opened
        self.returned_text = ""  # messages that were not sent, for the prompt
        self._on_change, self._on_usage, self._can_ask = on_change, on_usage, can_ask
        self._on_stored, self._on_asking = on_stored, on_asking
        self._buffer: list[StoredEvent] | None = None  # stored while the log is being read for a front end
        self._last_drawn = 0  # the last event that was drawn from the log
        self._notices: deque[tuple[str, bool]] = deque(maxlen=MAX_BUFFERED_NOTICES)  # True for a warning
        # Where questions are answered while detached, until its next reply, and its name there.
        self._answering: tuple[AttachedView, str] | None = None

    # ── attach and detach ──

    def begin(self, memory: Memory) -> None:
        """Begin an agent with this memory, before a front end attaches; texts that were typed ahead go on waiting."""
        waiting, self.live_state = self.live_state.waiting, LiveState()
        self.live_state.memory, self.live_state.waiting = memory, waiting

    def start_buffering(self) -> None:
        """Buffer stored events from now on until `attach`, while the log is being read."""
        self._buffer = []

    @property
    def is_buffering(self) -> bool:
        """True while a front end is about to attach."""
        return self._buffer is not None

    def drain_buffer(self, last: int) -> list[StoredEvent]:
        """Stop buffering; return the events stored after the event `last`. No event before them is shown again."""
        events = [event for event in self._buffer or () if event.id > last]
        self._buffer = None
        self._last_drawn = events[-1].id if events else last
        return events

    def attach(self, front: AttachedView) -> str:
        """Attach a front end: it draws the live state from now on. Return the text for its prompt."""
        self.attached_view, self._buffer, self.unseen_ending, self._answering = front, None, None, None
        front.attach(self.live_state)
        while self._notices:
            text, warns = self._notices.popleft()
            (front.notice if warns else front.note)(text)
        for asked in self.questions:
            self.show_question(asked, front)
        text, self.returned_text = self.returned_text, ""
        self._on_change()
        return text

    def continue_reply(self, followed: BufferedView) -> None:
        """Take over the reply that was shown of this agent while another program wrote it."""
        self.live_state.reply = followed.live_state.reply

    def drop_reply(self) -> None:
        """Drop the streamed reply, because its request is sent anew."""
        self.live_state.reply = None
        if self.attached_view and self.live_state.memory:
            self.attached_view.changed(self.live_state.memory)

    async def detach(self) -> None:
        """Detach the front end; questions leave the screen unanswered."""
        shown = [asked.shown for asked in self.questions if asked.shown]
        self.attached_view = None
        for task in shown:
            task.cancel()
        if shown:
            await asyncio.wait(shown)
        self._on_change()

    def show_question(self, asked: PendingQuestion, front: AttachedView, who: str = "") -> None:
        """Show a waiting question. `who` names a detached agent; its questions until its next reply are also shown."""

        async def show() -> None:
            question = asked.question
            if who:
                question = replace(question, title=f"{who}: {question.title}")
            try:
                answered = await front.ask(question)
                if not asked.answered.done():
                    asked.answered.set_result(answered)
            finally:
                asked.shown = None

        if who:
            self._answering = (front, who)
        if asked.shown is None and not asked.answered.done():
            asked.shown = asyncio.create_task(show(), name="question")

    # ── the view ──

    def show(self, block: TranscriptBlock) -> None:
        if self.attached_view and block.id > self._last_drawn:
            self.attached_view.show(block)

    def rule(self, rule: ContextRule) -> None:
        if self.attached_view:
            self.attached_view.rule(rule)

    def show_delta(self, asked_by: int, event: Delta | RetryScheduled) -> None:
        self.live_state.reply_to(asked_by).deltas.append(event)
        if self.attached_view:
            self.attached_view.show_delta(asked_by, event)

    def progress(self, call_id: str, text: str) -> None:
        self.live_state.progress(call_id, text)
        if self.attached_view:
            self.attached_view.progress(call_id, text)

    def draft_saved(self, asked_by: int, characters: int) -> None:
        if (reply := self.live_state.reply) and reply.asked_by == asked_by:
            reply.saved = characters
        if self.attached_view:
            self.attached_view.draft_saved(asked_by, characters)

    def stored(self, event: StoredEvent) -> None:
        if self._buffer is not None:
            self._buffer.append(event)
        if self.attached_view:
            self.attached_view.stored(event)
        elif isinstance(event.event, UsageReported):
            self._on_usage(event)
        match event.event:
            case UserMessage():
                self.words, self.ended = "", None
            case AssistantMessage() as message:
                self.words, self._answering = message.text or self.words, None
            case TurnEnded() as end:
                self.ended, self._answering = end, None
                if self.attached_view is None:
                    self.unseen_ending = end.ending
                    self._on_change()
            case _:
                pass
        self._on_stored(event)

    def changed(self, memory: Memory) -> None:
        before = self.live_state.memory
        self.live_state.changed(memory)
        if self.attached_view:
            self.attached_view.changed(memory)
        elif before is None or before.status is not memory.status:
            self._on_change()

    def notice(self, text: str) -> None:
        if self.attached_view:
            self.attached_view.notice(text)
        elif (text, True) not in self._notices:
            self._notices.append((text, True))

    def note(self, text: str) -> None:
        if self.attached_view:
            self.attached_view.note(text)
        elif (text, False) not in self._notices:
            self._notices.append((text, False))

    def database_unreachable(self, is_unreachable: bool) -> None:
        self.live_state.database_unreachable = is_unreachable
        if self.attached_view:
            self.attached_view.database_unreachable(is_unreachable)

    async def ask(self, question: Question) -> QuestionAnswer:
        if self.attached_view is None and not self._can_ask:
            return QuestionAnswer(question.default, not_asked=True)
        asked = PendingQuestion(question)
        self.questions.append(asked)
        self._on_asking(True)
        try:
            if self.attached_view:
                self.show_question(asked, self.attached_view)
            else:
                self._on_change()
                if self._answering:
                    self.show_question(asked, *self._answering)
            return await asked.answered
        finally:
            self.questions.remove(asked)
            self._on_asking(bool(self.questions))
            if asked.shown:
                asked.shown.cancel()
            self._on_change()

    def restore_input(self, text: str) -> None:
        if self.attached_view:
            self.attached_view.restore_input(text)
        elif text:
            self.returned_text = "\n".join(filter(None, (self.returned_text, text)))

    def queued(self, texts: tuple[str, ...]) -> None:
        self.live_state.waiting = texts
        if self.attached_view:
            self.attached_view.queued(texts)
