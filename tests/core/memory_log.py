"""Double of the store: rows in a list, through the real codec, each question answered naively.

The log holds many agents and keeps them by the same rules as the database: ids ascend over all agents, `seq` counts
within one, text that the database cannot hold is replaced. `LogOf` is the asynchronous face that the loop sees.
"""

import hashlib
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import NamedTuple, Protocol, TypeVar

from ikigai.core.events import codec
from ikigai.core.events.events import Event, StoredEvent, Undone
from ikigai.core.ports import Appended
from ikigai.core.request.reply_draft import Draft
from ikigai.core.state.grants import Seal, sealed
from ikigai.core.state.lineage import Ancestor, Span
from ikigai.core.state.loading import (
    CONTROL_KINDS,
    TURN_KINDS,
    AskAncestry,
    AskClear,
    AskControls,
    AskEvents,
    AskPage,
    AskSpans,
    Loading,
    Question,
    Reading,
)
from ikigai.core.text.sanitize import storable

T = TypeVar("T")
ENDS_A_REPLY = ("assistant", "turn_end")


def seal(data: bytes) -> str:
    """Return the seal that this program makes."""
    return hashlib.sha256(b"mine" + data).hexdigest()[:32]


class StoredRow(NamedTuple):
    id: int
    agent: str
    seq: int
    kind: str
    content: str | None
    data: str | None

    def event(self) -> StoredEvent:
        return StoredEvent(self.id, self.agent, self.seq, 0.0, codec.decode(self.kind, self.content, self.data))


class Logs(Protocol):
    """The logs of many agents, as tests use them."""

    def create(self, name: str, parent: str | None = None, forked_at: int | None = None) -> str: ...
    def let_go(self, agent: str) -> None: ...
    def append(self, agent: str, events: Sequence[Event], reload: Loading | None = None) -> Appended: ...
    def load(self, asking: Reading[T]) -> T: ...
    def save_draft(self, agent: str, draft: Draft) -> None: ...
    def draft(self, agent: str) -> Draft | None: ...
    def history(self, agent: str) -> list[StoredEvent]: ...
    def close(self) -> None: ...


class MemoryLog:
    """The logs of all agents. `asked` counts the rows that loadings got."""

    def __init__(self) -> None:
        self.agents: dict[str, tuple[str | None, int | None]] = {}
        self.rows: list[StoredRow] = []
        self.drafts: dict[str, Draft] = {}
        self.asked = 0
        self.seal: Seal | None = None

    def create(self, name: str, parent: str | None = None, forked_at: int | None = None) -> str:
        """Create a root, or a child that shares its parent's events up to `forked_at`; 0 shares none, None shares all.

        Return the id of the agent.
        """
        assert name not in self.agents and (parent is None or parent in self.agents)
        self.agents[name] = (parent, forked_at)
        return name

    def let_go(self, agent: str) -> None:
        """Release the agent: the process that wrote to it has ended."""

    def append(self, agent: str, events: Sequence[Event], reload: Loading | None = None) -> Appended:
        seq = sum(row.agent == agent for row in self.rows)
        made = [
            StoredRow(len(self.rows) + n, agent, seq + n, *codec.encode(sealed(event, agent, seq + n, self.seal)))
            for n, event in enumerate(events, start=1)
        ]
        self.rows.extend(made)
        if any(row.kind in ENDS_A_REPLY for row in made):
            self.drafts.pop(agent, None)
        return Appended(tuple(row.event() for row in made), self.load(reload) if reload else None)

    def load(self, asking: Reading[T]) -> T:
        try:
            question = next(asking)
            while True:
                answer = self._answer(question)
                self.asked += len(answer)
                question = asking.send(answer)
        except StopIteration as done:
            return done.value

    def save_draft(self, agent: str, draft: Draft) -> None:
        self.drafts[agent] = Draft(draft.asked_by, storable(draft.text))

    def draft(self, agent: str) -> Draft | None:
        return self.drafts.get(agent)

    def history(self, agent: str) -> list[StoredEvent]:
        """Return all rows along the lineage of `agent`, oldest first, whether they are in memory or not."""
        spans = [Span(line.agent, 0, line.upto) for line in self._ancestry(agent)]
        return [row.event() for span in reversed(spans) for row in self._within(span)]

    def close(self) -> None:
        pass

    def _answer(self, question: Question) -> tuple[Ancestor, ...] | tuple[int, ...] | tuple[StoredEvent, ...]:
        match question:
            case AskAncestry(agent):
                return tuple(self._ancestry(agent))
            case AskClear(agent, before):
                clears = [row.id for row in self._within(Span(agent, 0, before - 1)) if row.kind == "clear"]
                return tuple(clears[-1:])
            case AskEvents(ids):
                return tuple(row.event() for row in self.rows if row.id in ids)
            case AskControls(spans):
                rows = (row for span in spans for row in self._within(span) if row.kind in CONTROL_KINDS)
                return tuple(row.event() for row in rows)
            case AskSpans(spans, limit):
                rows = [row for span in spans for row in self._within(span) if row.kind in TURN_KINDS]
                return tuple(row.event() for row in reversed(rows[-limit:]))
            case AskPage(span, limit, ascending):
                rows = [row for row in self._within(span) if row.kind in TURN_KINDS]
                return tuple(row.event() for row in (rows[:limit] if ascending else reversed(rows[-limit:])))

    def _ancestry(self, agent: str) -> Iterable[Ancestor]:
        name, upto = agent if agent in self.agents else None, None
        while name is not None:
            rows = [row for row in self._within(Span(name, 0, upto)) if row.kind in ("clear", "undo")]
            clears = [row.id for row in rows if row.kind == "clear"]
            undone = [(row.id, row.event().event) for row in rows]
            undos = tuple((id, event.of) for id, event in undone if isinstance(event, Undone))
            yield Ancestor(name, upto, max(clears, default=None), undos)
            name, forked_at = self.agents[name]
            # A child may be forked from what its parent inherited: the nearest limit holds.
            upto = min((limit for limit in (upto, forked_at) if limit is not None), default=None)

    def _within(self, span: Span) -> list[StoredRow]:
        shared = takewhile(lambda row: span.last is None or row.id <= span.last, self.rows)
        return [row for row in shared if row.agent == span.agent and row.id >= span.first]


class LogOf:
    """The log of one agent as the loop sees it: `ports.Log`."""

    def __init__(self, logs: MemoryLog, agent: str) -> None:
        self._logs, self._agent = logs, agent

    async def append(
        self,
        events: Sequence[Event],
        reload: Loading | None = None,
        ids: Sequence[str] = (),
    ) -> Appended:
        return self._logs.append(self._agent, events, reload)

    async def load(self, asking: Reading[T]) -> T:
        return self._logs.load(asking)

    async def save_draft(self, draft: Draft) -> None:
        self._logs.save_draft(self._agent, draft)

    async def draft(self) -> Draft | None:
        return self._logs.draft(self._agent)
