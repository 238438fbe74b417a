"""What the rules of the log come to, worked out a second time: slowly, from every row, without the core's machinery.

Nothing is kept from row to row but lists; the window is found by serialising whole requests. What the core computes
incrementally has to agree with this.
"""

from dataclasses import dataclass, field

from ikigai.core import events as ev
from ikigai.core.memory import Run
from ikigai.core.messages import Block, Message, Role, Text, ToolCall, ToolResult
from ikigai.core.request import NOT_RUN, OUTCOME_UNKNOWN, UNANSWERED, Request
from tests.core.encoders import encoder


@dataclass
class Said:
    """A turn: its rows, and how it ended."""

    rows: list[ev.StoredEvent]
    end: int = 0
    ending: ev.Ending | None = None
    tokens: int = 0
    counted: str = ""

    @property
    def id(self) -> int:
        return self.rows[0].id

    def messages(self) -> list[Message]:
        """As they came: replies with their calls, results one message for each stretch of them."""
        found: list[Message] = []
        for row in self.rows:
            match row.event:
                case ev.UserMessage(text, images):
                    words = [Text(text)] if text or not images else []
                    found.append(Message(Role.USER, (*images, *words)))
                case ev.AssistantMessage(blocks):
                    unsent = [b for b in blocks if (b.text if isinstance(b, Text) else b.signature) == ""]
                    kept = [b for b in blocks if b not in unsent]
                    _add(found, Role.ASSISTANT, *kept)
                case ToolCall():
                    _add(found, Role.ASSISTANT, row.event)
                case ToolResult(id, content, error):
                    _add(found, Role.TOOL, ToolResult(id, content, error, self.named(id)))
                case _:
                    pass
        return found

    def named(self, id: str) -> str:
        """The tool that was called under this id."""
        return next(row.event.name for row in self.rows if isinstance(row.event, ToolCall) and row.event.id == id)

    def sent(self) -> list[Message]:
        """As a model is sent them: results right behind their calls and in their order, none missing."""
        came = [b for message in self.messages() for b in message.blocks if isinstance(b, ToolResult)]
        results = {result.call_id: result for result in came}
        started = {row.event.call_id for row in self.rows if isinstance(row.event, ev.ToolStarted)}
        found: list[Message] = []
        for message in self.messages():
            if message.role is Role.TOOL:
                continue
            found.append(message)
            answers = []
            for call in message.calls:
                lost = ToolResult(call.id, OUTCOME_UNKNOWN if call.id in started else NOT_RUN, True, call.name)
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
                self.open.tokens, self.open.counted = row.event.tokens, row.event.counted
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
        given = self.run.limits(self.model)
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

    def plain(self) -> int:
        """Bytes of the request that is sent now, whatever its turns count for."""
        return self._weight(self.request())

    def counts(self, turn: Said) -> int:
        """Tokens that were stored for the turn by the counter of this run, of this model; 0 for none."""
        wanted = f"{self.run.counter} {self.model}"
        return turn.tokens if self.run.counter != "bytes" and turn.counted == wanted else 0

    def _bytes(self, first: int, opened: list[Message], notice: bool = True) -> int:
        """The body without the turns that somebody counted, and four bytes for each of their tokens."""
        measured = [turn for turn in self.turns[first:] if not self.counts(turn)]
        tokens = sum(self.counts(turn) for turn in self.turns[first:])
        return self._weight(self._request(first, opened, notice, measured)) + 4 * tokens

    def _weight(self, request: Request) -> int:
        nothing = 0 if request.messages else 1  # the separator that a first message would not need
        return encoder(self.model).weight(request) - nothing

    def _request(
        self, first: int, opened: list[Message], notice: bool = True, kept: list[Said] | None = None
    ) -> Request:
        older = sum(len(messages) for messages in self.sent[:first]) if notice else 0
        s = "" if older == 1 else "s"
        told = [Message(Role.USER, (Text(f"[conversation truncated — {older} older message{s} omitted]"),))]
        kept = self.turns[first:] if kept is None else kept
        turns = [message for turn in kept for message in turn.sent()]
        given = self.run.limits(self.model)
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
