"""Between an agent and whoever watches: on stage everything passes; in the wings what it takes to come back is kept.

An agent in the wings draws nothing. Its stored events are in the log; what is not there yet (the reply as it streams,
what tools write, the queue, notices, questions) is kept here and told when the agent comes on stage.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from ikigai.core.events import AssistantMessage, Ending, StoredEvent, TurnEnded, UsageReported, UserMessage
from ikigai.core.ports import Delta, View
from ikigai.core.questions import Answered, Question
from ikigai.core.request.reply import Waiting
from ikigai.core.state.memory import Memory
from ikigai.core.views.transcript import Block, Rule

NOTICES = 20
"""Notices kept for who comes back; older ones are dropped."""
LATEST = 2_000
"""Characters kept of what a running tool writes."""


class Asked:
    """A question that waits for its answer; `shown` is the task that has it on the screen."""

    def __init__(self, question: Question) -> None:
        self.question = question
        self.answered: asyncio.Future[Answered] = asyncio.get_running_loop().create_future()
        self.shown: asyncio.Task[None] | None = None


class Relay:
    """The View of one agent. `front` is who watches now, None in the wings.

    `news` is called when what `asked`, `unseen` or `memory` says has changed; `ledger` gets the usage of requests made
    in the wings, `heard` all that is stored. With `asks` false questions that nobody watches are answered with their
    default.
    """

    def __init__(
        self,
        front: View | None = None,
        news: Callable[[], object] = lambda: None,
        ledger: Callable[[StoredEvent], object] = lambda event: None,
        asks: bool = True,
        heard: Callable[[StoredEvent], object] = lambda event: None,
    ) -> None:
        self.front = front
        self.memory: Memory | None = None
        self.asked: list[Asked] = []
        self.unseen: Ending | None = None  # how its newest turn ended while nobody watched
        self.words = ""  # of the newest turn's last reply
        self.ended: TurnEnded | None = None  # the end of the newest turn, since it was opened
        self.returned_text = ""  # what was not taken, for the input
        self.queue: tuple[str, ...] = ()  # what waits for the end of the turn
        self._news, self._ledger, self._asks, self._heard = news, ledger, asks, heard
        self.moved = asyncio.Event()  # its memory is another, or something that was sent to it was refused
        self._arrived: list[StoredEvent] | None = None  # stored while the log is being read for who comes
        self._drawn = 0  # the last event that was drawn from the log
        self._live: tuple[int, list[Delta | Waiting]] = (0, [])
        self._saved = 0
        self._outputs: dict[str, str] = {}
        self._notices: deque[str] = deque(maxlen=NOTICES)
        self._away = False
        self._answering: tuple[View, str] | None = None  # where it is answered from the wings, until its next reply

    # ── coming and going ──

    def arriving(self) -> None:
        """From here on stored events are kept until `enter`: the log is being read."""
        self._arrived = []

    @property
    def awaited(self) -> bool:
        """Whether somebody is about to come in front of it."""
        return self._arrived is not None

    def missed(self, last: int) -> list[StoredEvent]:
        """What was stored behind the event `last` since `arriving`; who enters now shows nothing before it again."""
        found = [event for event in self._arrived or () if event.id > last]
        self._arrived = None
        self._drawn = found[-1].id if found else last
        return found

    def enter(self, front: View) -> str:
        """Come on stage: tell what is not in the log yet; returns what belongs into the input."""
        self.front, self._arrived, self.unseen, self._answering = front, None, None, None
        if self.memory:
            front.changed(self.memory)
        asked_by, deltas = self._live
        for each in deltas:
            front.live(asked_by, each)
        if deltas and self._saved:
            front.saved(asked_by, self._saved)
        for call, text in self._outputs.items():
            front.progress(call, text)
        front.queued(self.queue)
        front.away(self._away)
        while self._notices:
            front.notice(self._notices.popleft())
        for asked in self.asked:
            self.present(asked, front)
        text, self.returned_text = self.returned_text, ""
        self._news()
        return text

    async def leave(self) -> None:
        """Go into the wings: questions leave the screen unanswered."""
        shown = [asked.shown for asked in self.asked if asked.shown]
        self.front = None
        for task in shown:
            task.cancel()
        if shown:
            await asyncio.wait(shown)
        self._news()

    def present(self, asked: Asked, front: View, who: str = "") -> None:
        """Show a question that waits; `who` asks, in the wings: what it asks next, before its next reply, follows."""

        async def show() -> None:
            question = asked.question
            if who:
                title, lines = f"{who}: {question.title}", question.lines
                question = Question(title, lines, question.choices, question.default, question.yes)
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

    def show(self, block: Block) -> None:
        if self.front and block.id > self._drawn:
            self.front.show(block)

    def rule(self, rule: Rule) -> None:
        if self.front:
            self.front.rule(rule)

    def live(self, asked_by: int, event: Delta | Waiting) -> None:
        if self._live[0] != asked_by:
            self._live, self._saved = (asked_by, []), 0
        self._live[1].append(event)
        if self.front:
            self.front.live(asked_by, event)

    def progress(self, call_id: str, text: str) -> None:
        self._outputs[call_id] = (self._outputs.get(call_id, "") + text)[-LATEST:]
        if self.front:
            self.front.progress(call_id, text)

    def saved(self, asked_by: int, characters: int) -> None:
        if self._live[0] == asked_by:
            self._saved = characters
        if self.front:
            self.front.saved(asked_by, characters)

    def stored(self, event: StoredEvent) -> None:
        if self._arrived is not None:
            self._arrived.append(event)
        if self.front:
            self.front.stored(event)
        elif isinstance(event.event, UsageReported):
            self._ledger(event)
        match event.event:
            case UserMessage():
                self.words, self.ended = "", None
            case AssistantMessage() as said:
                self.words, self._answering = said.text or self.words, None
            case TurnEnded() as end:
                self.ended, self._answering = end, None
                if self.front is None:
                    self.unseen = end.ending
                    self._news()
            case _:
                pass
        self._heard(event)

    def changed(self, memory: Memory) -> None:
        before, self.memory = self.memory, memory
        self.moved.set()
        opened = memory.open
        if opened is None or opened.last != self._live[0]:
            self._live, self._saved = (0, []), 0
        pending = {call.id for _, call in opened.pending} if opened else set[str]()
        self._outputs = {id: text for id, text in self._outputs.items() if id in pending}
        if self.front:
            self.front.changed(memory)
        elif before is None or before.status is not memory.status:
            self._news()

    def notice(self, text: str) -> None:
        if self.front:
            self.front.notice(text)
        elif text not in self._notices:
            self._notices.append(text)

    def away(self, is_away: bool) -> None:
        self._away = is_away
        if self.front:
            self.front.away(is_away)

    async def ask(self, question: Question) -> Answered:
        if self.front is None and not self._asks:
            return Answered(question.default, nobody=True)
        asked = Asked(question)
        self.asked.append(asked)
        try:
            if self.front:
                self.present(asked, self.front)
            else:
                self._news()
                if self._answering:
                    self.present(asked, *self._answering)
            return await asked.answered
        finally:
            self.asked.remove(asked)
            if asked.shown:
                asked.shown.cancel()
            self._news()

    def returned(self, text: str) -> None:
        self.moved.set()
        if self.front:
            self.front.returned(text)
        elif text:
            self.returned_text = "\n".join(filter(None, (self.returned_text, text)))

    def queued(self, texts: tuple[str, ...]) -> None:
        self.queue = texts
        if self.front:
            self.front.queued(texts)
