"""What the rules of the log come to, worked out a second time: slowly, from every row, without the core's machinery.

Nothing is kept from row to row but lists; the window is found by serialising whole requests. What the core computes
incrementally has to agree with this.
"""

from dataclasses import dataclass, field

from ikigai.core import events as ev
from ikigai.core.memory import Run
from ikigai.core.messages import Block, Message, Role, Text, ToolCall, ToolResult
from ikigai.core.request import NOT_RUN, OUTCOME_UNKNOWN, UNANSWERED, Request
from tests.core.encoders import encoder, limits


@dataclass
class Said:
    """A turn: its rows, and how it ended."""

    rows: list[ev.StoredEvent]
    end: int = 0
    ending: ev.Ending | None = None

    @property
    def id(self) -> int:
        return self.rows[0].id

    def messages(self) -> list[Message]:
        """As they came: replies with their calls, results one message for each stretch of them."""
        found: list[Message] = []
        for row in self.rows:
            match row.event:
                case ev.UserMessage(text):
                    found.append(Message(Role.USER, (Text(text),)))
                case ev.AssistantMessage(blocks):
                    kept = [b for b in blocks if not (isinstance(b, Text) and b.text == "")]
                    _add(found, Role.ASSISTANT, *kept)
                case ToolCall():
                    _add(found, Role.ASSISTANT, row.event)
                case ToolResult():
                    _add(found, Role.TOOL, row.event)
                case _:
                    pass
        return found

    def sent(self) -> list[Message]:
        """As a model is sent them: results right behind their calls and in their order, none missing."""
        results = {row.event.call_id: row.event for row in self.rows if isinstance(row.event, ToolResult)}
        started = {row.event.call_id for row in self.rows if isinstance(row.event, ev.ToolStarted)}
        found: list[Message] = []
        for message in self.messages():
            if message.role is Role.TOOL:
                continue
            found.append(message)
            answers = []
            for call in message.calls:
                lost = ToolResult(call.id, OUTCOME_UNKNOWN if call.id in started else NOT_RUN, True)
                answers.append(results.get(call.id, lost))
            if answers:
                found.append(Message(Role.TOOL, tuple(answers)))
        if self.ending and found[-1].role is not Role.ASSISTANT:
            found.append(Message(Role.ASSISTANT, (Text(UNANSWERED[self.ending]),)))
        return found


def _add(found: list[Message], role: Role, *blocks: Block) -> None:
    if blocks and found and found[-1].role is role:
        found[-1] = Message(role, (*found[-1].blocks, *blocks))
    elif blocks:
        found.append(Message(role, blocks))


@dataclass
class Oracle:
    """Reads a whole lineage, oldest first; afterwards its attributes say what the memory of the leaf has to be."""

    run: Run
    history: list[ev.StoredEvent]
    own: ev.Choices = field(default_factory=dict)
    turns: list[Said] = field(default_factory=list)
    open: Said | None = None
    marks: list[tuple[int, str]] = field(default_factory=list)
    cleared: int | None = None

    def __post_init__(self) -> None:
        self.settings = self.effective()
        for row in self.history:
            self._read(row)
        self.sent = [turn.sent() for turn in self.turns]
        self.first = self._first()

    def effective(self) -> ev.Choices:
        return {**self.run.below, **self.own, **self.run.above}

    def _read(self, row: ev.StoredEvent) -> None:
        match row.event:
            case ev.Cleared(own):
                self.own, self.turns, self.marks, self.cleared = dict(own), [], [], row.id
                self.settings = self.effective()
            case ev.Marked(label):
                self.marks.append((row.id, label))
            case ev.Forked():
                self.marks = []
            case ev.Rewound(to):
                self.turns = [turn for turn in self.turns if turn.end <= to]
                self.marks = [mark for mark in self.marks if mark[0] <= to]
            case ev.SettingsChanged(values, origins):
                for key, value in values.items():
                    self.settings[key] = value
                    if origins[key] == "agent":
                        self.own[key] = value
                        if value is None:
                            del self.own[key]
                            self.settings[key] = self.effective().get(key)
            case ev.UserMessage() | ev.AssistantMessage() | ToolCall() | ToolResult() | ev.ToolStarted():
                if self.open is None:
                    self.open = Said([])
                self.open.rows.append(row)
            case ev.TurnEnded(ending):
                assert self.open
                self.open.end, self.open.ending = row.id, ending
                self.turns.append(self.open)
                self.open = None
            case _:
                pass

    # What is sent

    @property
    def model(self) -> str:
        return str(self.settings.get("model") or "")

    @property
    def budget(self) -> int:
        return int(self.settings.get("budget") or 0)

    @property
    def room(self) -> int:
        """Tokens: the context less the reply (a quarter of it at most) and a tenth."""
        given = limits(self.model)
        return given.context - min(given.max_output, given.context // 4) - given.context // 10

    @property
    def kept(self) -> list[Said]:
        return self.turns[self.first :]

    @property
    def older(self) -> int:
        """Messages in memory's reach that are not sent."""
        return self.before(self.first)[1]

    def before(self, place: int) -> tuple[int, int]:
        """How many turns and messages of live memory lie before the turn at this place."""
        return max(place, 0), sum(len(messages) for messages in self.sent[: max(place, 0)])

    @property
    def cutoff(self) -> int | None:
        if self.first == 0:
            return None
        return self.kept[0].id if self.kept else self.open.id if self.open else None

    def request(self) -> Request:
        return self._request(self.first, self.open.sent() if self.open else [])

    def tokens(self, first: int, opened: list[Message] | None = None) -> int:
        """Tokens of the request that begins with the turn at `first`, from its real body."""
        return -(-self._bytes(first, opened or []) // 4)

    def size(self) -> int:
        """Bytes of the request as the log has it so far, calls without results unanswered."""
        return self._bytes(self.first, self.open.messages() if self.open else [])

    def _bytes(self, first: int, opened: list[Message], notice: bool = True) -> int:
        request = self._request(first, opened, notice)
        nothing = 0 if request.messages else 1  # the separator that a first message would not need
        return len(encoder(self.model).body(request)) - nothing

    def _request(self, first: int, opened: list[Message], notice: bool = True) -> Request:
        older = sum(len(messages) for messages in self.sent[:first]) if notice else 0
        s = "" if older == 1 else "s"
        told = [Message(Role.USER, (Text(f"[conversation truncated — {older} older message{s} omitted]"),))]
        turns = [message for messages in self.sent[first:] for message in messages]
        given = limits(self.model)
        return Request(
            model=self.model.partition("/")[2],
            messages=(*(told if older else []), *turns, *opened),
            system=str(self.settings.get("system") or ""),
            tools=self.run.tools,
            level=str(self.settings.get("level") or ""),
            max_output=min(given.max_output, given.context // 4),
        )

    def _first(self) -> int:
        """The longest run of newest whole turns whose request fits; the place of its first turn."""
        places = range(len(self.turns))
        if not self.turns:
            return 0
        if not self.budget:
            beyond = [first for first in places if self._bytes(first, [], notice=False) > self.room * 4]
            return max(beyond, default=0)
        fitting = [first for first in places if self.tokens(first) <= min(self.budget, self.room)]
        first = min(fitting, default=places[-1])
        if self.open:  # it may exceed the budget by its own size, never the room
            while first < len(self.turns) and self.tokens(first, self.open.messages()) > self.room:
                first += 1
        return first
