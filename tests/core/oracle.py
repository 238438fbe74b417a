"""Compute memory a second time: slowly, from every row, without the code of the core.

The oracle keeps only lists from row to row, and finds the window by serializing whole requests. The incremental results
of the core have to agree with it.
"""

import json
import math
from dataclasses import dataclass, field
from dataclasses import replace as copy

from msgspec.structs import replace

from ikigai.core.events import events as ev
from ikigai.core.events.messages import Block, Message, Role, Text, ToolCall, ToolResult, ToolSpec
from ikigai.core.request.build import (
    MAIL_PREFIX,
    NOT_RUN,
    OUTCOME_UNKNOWN,
    PLANNING_MESSAGE,
    REPLY_PLACEHOLDERS,
    Request,
)
from ikigai.core.request.pins import Pin, frame_pin
from ikigai.core.state.effective_settings import RunConfig, WindowRules
from ikigai.core.tools.mcp_tools import offered_specs
from tests.core.encoders import encoder

NONE = ev.Totals()


@dataclass
class Said:
    """A turn: its rows, and its ending."""

    rows: list[ev.StoredEvent]
    end: int = 0
    ending: ev.Ending | None = None
    tokens: int = 0
    counted: str = ""
    size: int = 0
    before: ev.Totals = NONE
    before_previous: ev.Totals = NONE
    thinned: bool = False

    @property
    def id(self) -> int:
        return self.rows[0].id

    @property
    def plans(self) -> bool:
        """True for a planning talk."""
        begun = self.rows[0].event
        return isinstance(begun, ev.UserMessage) and bool(begun.planning)

    def messages(self, rows: int | None = None) -> list[Message]:
        """Return the messages of the first `rows` as they came; results in a row share one message."""
        found: list[Message] = []
        for row in self.rows[:rows]:
            match row.event:
                case ev.UserMessage(text, planning=mode) if mode:
                    found.append(Message(Role.USER, (Text(PLANNING_MESSAGE.format(mode=mode, criteria=text)),)))
                case ev.UserMessage(text, sender=sender) if sender:
                    found.append(Message(Role.USER, (Text(MAIL_PREFIX.format(sender) + text),)))
                case ev.UserMessage(text, images):
                    words = [Text(text)] if text or not images else []
                    found.append(Message(Role.USER, (*images, *words)))
                case ev.TurnsRecalled(text):
                    _add(found, Role.USER, Text(text))
                case ev.AssistantMessage(blocks):
                    unsent = [b for b in blocks if (b.text if isinstance(b, Text) else b.signature) == ""]
                    kept = [b for b in blocks if b not in unsent]
                    _add(found, Role.ASSISTANT, *kept)
                case ToolCall():
                    _add(found, Role.ASSISTANT, row.event)
                case ToolResult(id, content, error, images=images):
                    _add(found, Role.TOOL, ToolResult(id, content, error, self.named(id), images))
                case _:
                    pass
        return found

    def named(self, id: str) -> str:
        """Return the name of the tool that was called under this id."""
        return next(row.event.name for row in self.rows if isinstance(row.event, ToolCall) and row.event.id == id)

    def sent(self, messages: list[Message]) -> list[Message]:
        """Return these messages as a model is sent them: all results right behind their calls, in order."""
        came = [b for message in messages for b in message.blocks if isinstance(b, ToolResult)]
        results = {result.call_id: result for result in came}
        started = {row.event.call_id for row in self.rows if isinstance(row.event, ev.ToolStarted)}
        found: list[Message] = []
        for message in messages:
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
            found.append(Message(Role.ASSISTANT, (Text(REPLY_PLACEHOLDERS[self.ending]),)))
        return found

    def without(self, ids: tuple[int, ...]) -> "Said":
        """Return the turn without these rows; a removed message of the user is replaced by a placeholder."""
        kept = [row for row in self.rows if row.id not in ids or isinstance(row.event, ev.UserMessage)]
        rows = [replace(row, event=ev.UserMessage("[removed]")) if row.id in ids else row for row in kept]
        thinned = self.thinned or bool({row.id for row in self.rows}.intersection(ids))
        return copy(self, rows=rows, thinned=thinned)


def _add(found: list[Message], role: Role, *blocks: Block) -> None:
    if blocks and found and found[-1].role is role:
        found[-1] = Message(role, (*found[-1].blocks, *blocks))
    elif blocks:
        found.append(Message(role, blocks))


def effective(run: RunConfig, own: ev.Choices) -> ev.Choices:
    """Return the settings in force of flags and variables, the agent's own choices and the configuration.

    A level holds with the model that it was given with, and one that the agent chose alone with any. It does not hold
    with a model from another place. A profile's values replace the configuration's. A choice of a profile that does not
    exist does not count.
    """
    if "profile" in own and own["profile"] not in run.profiles:
        own = {key: value for key, value in own.items() if key != "profile"}
    name = [layer["profile"] for layer in (run.below, own, run.above) if "profile" in layer][-1:]
    if name and name[0]:
        run = replace(run, below={**run.below, **run.profiles[str(name[0])].settings})
    found = {**run.below, **own}
    most = run.project_limits
    if most.budget and not 0 < (found.get("budget") or 0) <= most.budget:
        found["budget"] = most.budget
    if most.approval == "edits" and found.get("approval") in ("auto", "yolo"):
        found["approval"] = "edits"
    off = str(found.get("tools_off") or "").split(",")
    if missing := [name for name in most.tools_off.off if name not in off]:
        every = "*" in (*off, *missing)
        found["tools_off"] = "*" if every else ",".join(sorted(filter(None, {*off, *missing})))
    found |= run.above
    strangers = [layer["model"] for layer in (own, run.above) if "model" in layer]
    if "level" in run.above:
        return found
    if "level" in own and (len(strangers) < 2 or strangers[0] == strangers[1]):
        return found
    if "level" in found:
        found["level"] = "" if strangers else run.below.get("level")
    if "level" not in run.below:
        found.pop("level", None)
    return found


@dataclass
class Oracle:
    """Reads a whole lineage, oldest first; then its attributes are the expected memory of the leaf."""

    run: RunConfig
    history: list[ev.StoredEvent]
    own: ev.Choices = field(default_factory=dict)
    turns: list[Said] = field(default_factory=list)
    open: Said | None = None
    marks: list[tuple[int, str]] = field(default_factory=list)
    summaries: list[tuple[int, ev.Summarized]] = field(default_factory=list)
    forgotten: list[tuple[int, int]] = field(default_factory=list)
    cleared: int | None = None

    def __post_init__(self) -> None:
        self.started = self.run
        self.settings = effective(self.run, self.own)
        undone = set[int]()
        for row in reversed(self.history):
            # Recalled excerpts stay rows of their turn, which the undo leaves without them.
            if isinstance(row.event, ev.Undone) and row.id not in undone and row.event.what != "recall":
                undone.add(row.event.of)
        for row in self.history:
            if row.id not in undone:
                self._read(row)
        since = [row for row in self.history if row.id >= (self.cleared or 0)]
        filters = [row.id for row in since if isinstance(row.event, ev.Filtered) and row.id not in undone]
        # The totals stored with turns belong to their time: then they say what is older, and not the rows.
        self.as_stored = bool(filters or self.summaries) or any(isinstance(row.event, ev.Undone) for row in since)
        acts = (ev.Cleared, ev.Rewound, ev.Filtered, ev.Summarized, ev.Undone)
        mine = [row for row in since if row.agent == self.history[-1].agent] if self.history else []
        kept = [row for row in mine if not (isinstance(row.event, ev.Summarized) and row.event.closed)]
        self.acts = [row.id for row in kept if isinstance(row.event, acts) and row.id not in undone]
        self.turns = [self._without_quotes(turn) for turn in self.turns]
        self.open = self.open and self._without_quotes(self.open)
        # What a summary stands for comes back when the summary goes, so it leaves only now that nothing else happens.
        covered = max((summary.upto for _, summary in self.summaries), default=0)
        self.turns = [turn for turn in self.turns if turn.end > covered]
        self.sent = [turn.sent(self.forms(turn)[-1]) for turn in self.turns]
        self.log = [turn.sent(turn.messages()) for turn in self.turns]
        self.opened = self.forms(self.open) if self.open else [[]]
        self.first = self._first()

    def _read(self, row: ev.StoredEvent) -> None:
        match row.event:
            case ev.Cleared(own, overridden):
                self.own, self.turns, self.marks, self.cleared = dict(own), [], [], row.id
                self.summaries, self.run, self.forgotten = [], self.started, []
                self._choose(row, set(overridden))
                self.settings = effective(self.run, self.own)
            case ev.Marked(label):
                self.marks.append((row.id, label))
            case ev.Forked():
                self.marks = []
            case ev.Rewound(to):
                self.turns = [turn for turn in self.turns if turn.end <= to]
                self.marks = [mark for mark in self.marks if mark[0] <= to]
                self.summaries = [each for each in self.summaries if each[0] <= to]
            case ev.Summarized() as summary if not summary.closed:
                self.summaries.append((row.id, summary))
            case ev.Filtered(_, _, ranges, ids, planning):
                away = [*ranges, *([(planning, row.id)] if planning else [])]
                left = [t for t in self.turns if not any(low <= t.id and t.end <= high for low, high in away)]
                self.turns = [turn.without(ids) for turn in left]
                self.forgotten += [*away, *((id, id) for id in ids)]
            case ev.SettingsChanged(values, origins):
                chosen = {key for key in values if origins[key] == "agent"}
                if origins.get("profile") == "agent" and values["profile"]:
                    chosen = set(values)  # the profile was typed last
                    self.own = {key: value for key, value in self.own.items() if key not in values}
                self._choose(row, chosen)
                for key, value in values.items():
                    self.settings[key] = value
                    if origins[key] == "agent":
                        self.own[key] = value
                        if value is None:
                            del self.own[key]
                for key, value in values.items():
                    if origins[key] == "agent" and value is None:
                        self.settings[key] = effective(self.run, self.own).get(key)
            case ev.Undone(of, "recall"):
                self.turns = [turn.without((of,)) for turn in self.turns]
            case (
                ev.UserMessage()
                | ev.TurnsRecalled()
                | ev.AssistantMessage()
                | ToolCall()
                | ToolResult()
                | ev.ToolStarted()
            ):
                if self.open is None:
                    self.open = Said([])
                self.open.rows.append(row)
            case ev.TurnEnded(ending):
                assert self.open
                self.open.end, self.open.ending = row.id, ending
                self.open.tokens, self.open.counted = row.event.tokens, row.event.counted
                self.open.size = row.event.size
                self.open.before, self.open.before_previous = row.event.before, row.event.before_previous
                self.turns.append(self.open)
                self.open = None
            case _:
                pass

    def _without_quotes(self, turn: Said) -> Said:
        """Return the turn without recalled excerpts of events that a filter named."""
        recalled = [(row.id, row.event.ids) for row in turn.rows if isinstance(row.event, ev.TurnsRecalled)]
        quoting = [row for row, ids in recalled if any(a <= id <= b for id in ids for a, b in self.forgotten)]
        return turn.without(tuple(quoting)) if quoting else turn

    def _choose(self, row: ev.StoredEvent, keys: set[str]) -> None:
        """Let the choice of these settings win over flags and variables, if it was made in this run."""
        if row.id > self.started.since:
            gone = keys | ({"level"} if "model" in keys else set())
            self.run = replace(self.run, above={key: value for key, value in self.run.above.items() if key not in gone})

    # What is sent

    @property
    def model(self) -> str:
        return str(self.settings.get("model") or "")

    @property
    def rules(self) -> WindowRules:
        """The rules of the profile in force, or of the run."""
        profile = self.run.profiles.get(str(self.settings.get("profile")))
        return profile.rules if profile else self.run.rules

    @property
    def counter(self) -> str:
        profile = self.run.profiles.get(str(self.settings.get("profile")))
        return profile.counter if profile else self.run.counter

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        off = str(self.settings.get("tools_off") or "").split(",")
        if "*" in off or not self.takes_tools:
            return ()
        foreign = [] if "mcp" in off else json.loads(str(self.settings.get("mcp_tools") or "{}")).get("definitions", [])
        deferred = "mcp" not in off and '"deferred"' in str(self.settings.get("mcp_tools") or "")
        pair = offered_specs(str(self.settings["mcp_tools"])) if deferred else ()
        specs = [ToolSpec(each["name"], each["description"], each["schema"], "mcp") for each in foreign]
        return (*self.run.tools, *specs, *pair)

    @property
    def takes_tools(self) -> bool:
        return self.run.limits(self.model).tools

    @property
    def budget(self) -> int:
        return int(self.settings.get("budget") or 0)

    @property
    def room(self) -> int:
        """Tokens of the context less the reply (a quarter of it at most) and a tenth."""
        given = self.run.limits(self.model)
        return given.context - min(given.max_output, given.context // 4) - given.context // 10

    @property
    def kept(self) -> list[Said]:
        return self.turns[self.first :]

    def apart(self, first: int) -> int:
        """Return the number of turns kept apart before a run that begins at this place: 1 if the first is kept."""
        return 1 if first and self.budget and self.rules.keep_first_turn else 0

    def left_out(self, first: int) -> tuple[int, int]:
        """Return the turns and messages that are not sent if the run begins at this place."""
        apart = self.apart(first)
        gone = self.log[apart:first]
        if not (self.as_stored and gone):
            return len(gone), sum(map(len, gone))
        begin, end = self._behind(0) if apart else self.turns[0].before, self._place(first)
        return max(1, end.turns - begin.turns), max(1, end.messages - begin.messages)

    def _place(self, place: int) -> ev.Totals:
        """Return the totals stored with the turn at this place, or those behind the last turn."""
        return self.turns[place].before if place < len(self.turns) else self._behind(place - 1)

    def _behind(self, place: int) -> ev.Totals:
        turn = self.turns[place]
        return turn.before + ev.Totals(1, len(self.log[place]), turn.size)

    def before(self, place: int) -> tuple[int, int]:
        """Return the turns and messages of live memory before the turn at this place."""
        if self.as_stored:
            stored = NONE
            if self.turns and place >= 0:
                stored = self._place(place)
            elif self.turns:
                stored = self.turns[0].before_previous
            return stored.turns, stored.messages
        return max(place, 0), sum(len(messages) for messages in self.log[: max(place, 0)])

    @property
    def cutoff(self) -> int | None:
        left_out = self.left_out(self.first)[0]
        if not left_out and not self.summaries:
            return None
        if not left_out and self.apart(self.first):
            return self.turns[0].id
        return self.kept[0].id if self.kept else self.open.id if self.open else None

    def request(self) -> Request:
        return self._request(self.first, self.open.sent(self.opened[-1]) if self.open else [])

    # What of a turn is sent

    def forms(self, turn: Said) -> list[list[Message]]:
        """Return the messages after each row: long results cut, old ones masked, and the iterations dropped by then."""
        found: list[list[Message]] = []
        dropped = 0
        for rows in range(1, len(turn.rows) + 1):
            whole = self._readable(turn.messages(rows), self._reads and not turn.plans)
            left = _without(whole, dropped)
            while self.budget and self._droppable(left) and self._alone(left, turn.plans) > self.room:
                dropped += 1
                left = _without(whole, dropped)
            found.append([message for group in left for message in group])
        return found

    def _readable(self, messages: list[Message], reads: bool) -> list[list[Message]]:
        """Return the messages in a group for each iteration and each user's message; results cut and masked."""
        caps, place = self.rules.result_limits, 0
        results = sum(isinstance(block, ToolResult) for message in messages for block in message.blocks)
        masked = caps.keep_first
        while caps.keep_first + caps.keep_last and masked + max(1, caps.keep_last) + caps.keep_last <= results:
            masked += max(1, caps.keep_last)
        groups: list[list[Message]] = []
        for message in messages:
            blocks: list[Block] = []
            for block in message.blocks:
                if isinstance(block, ToolResult):
                    where = f" [read_result {block.call_id}]" if reads else ""
                    text = self._cut(block.content, where)
                    images = block.images
                    if caps.keep_first <= place < masked:
                        lost = " [masked: its picture is not shown any more]" if images else ""
                        text, images = _masked(text, where) + lost, ()
                    block, place = ToolResult(block.call_id, text, block.is_error, block.name, images), place + 1
                blocks.append(block)
            if message.role is Role.TOOL:
                groups[-1].append(Message(message.role, tuple(blocks)))
            else:
                groups.append([Message(message.role, tuple(blocks))])
        return groups

    @property
    def _reads(self) -> bool:
        return "read_result" in [tool.name for tool in self.tools]

    def _cut(self, text: str, where: str) -> str:
        """Return the kept part of a result: the characters that fit into the bytes, if that saves twice the line."""
        caps = self.rules.result_limits
        total, most = len(text.encode()), caps.max_tokens * 4
        names = {"head": "first", "tail": "last", "both": "first+last"}
        line = f"[truncated: kept {names[caps.part]} ~{caps.max_tokens} of ~{total // 4} tokens ({caps.part})]{where}"
        if total <= most or total - most <= 2 * len(line.encode()) + 8:
            return text
        half = most // 2
        parts = {
            "head": [_start(text, most), line],
            "tail": [line, _start(text[::-1], most)[::-1]],
            "both": [_start(text, half), line, _start(text[::-1], half)[::-1]],
        }
        return "\n\n".join(parts[caps.part])

    def _droppable(self, groups: list[list[Message]]) -> bool:
        """Return True if there are two iterations, and the older one has all of its results."""
        iterations = [group for group in groups if group[0].calls]
        if len(iterations) < 2:
            return False
        asked, *answers = iterations[0]
        return sum(len(message.blocks) for message in answers) == len(asked.calls)

    def _alone(self, groups: list[list[Message]], plans: bool) -> int:
        """Return the tokens of the request with only this turn and the longest notice."""
        messages = (*self._told(), _notice(10**12), *(message for group in groups for message in group))
        return -(-self._weight(replace(self._frame(plans), messages=messages)) // 4)

    def tokens(self, first: int, opened: list[Message] | None = None) -> int:
        """Return the tokens of the request that begins with the turn at `first`, from its real body."""
        return -(-self._bytes(first, opened or []) // 4)

    def size(self) -> int:
        """Return the bytes of the request as the log has it so far, with calls without results unanswered."""
        return self._bytes(self.first, self.opened[-1])

    def plain(self) -> int:
        """Return the bytes of the request that is sent now, whatever its turns count for."""
        return self._weight(self.request())

    def counts(self, turn: Said) -> int:
        """Return the tokens stored for the turn by the counter of this run and this model; 0 for none."""
        wanted = f"{self.counter} {self.model}"
        if turn.thinned:
            return 0
        return turn.tokens if self.counter != "bytes" and turn.counted == wanted else 0

    def _bytes(self, first: int, opened: list[Message], notice: bool = True) -> int:
        """Return the size of the body without the counted turns, and four bytes for each of their tokens."""
        tokens = sum(self.counts(self.turns[place]) for place in self._places(first))
        return self._weight(self._request(first, opened, notice, uncounted=True)) + 4 * tokens

    def _places(self, first: int) -> list[int]:
        return [*range(self.apart(first)), *range(first, len(self.turns))]

    def _weight(self, request: Request) -> int:
        nothing = 0 if request.messages else 1  # the separator that a first message would not need
        return encoder(self.model).weight(request) - nothing

    def _request(self, first: int, opened: list[Message], notice: bool = True, uncounted: bool = False) -> Request:
        """Return the request; with `uncounted` only the turns without a count."""
        older = self.left_out(first)[1] if notice else 0
        told = [_notice(older)] if older else []
        turns = [
            (place, message)
            for place in self._places(first)
            if not (uncounted and self.counts(self.turns[place]))
            for message in self.sent[place]
        ]
        apart = [message for place, message in turns if place < first]
        run = [message for place, message in turns if place >= first]
        plans = bool(opened) and self.open is not None and self.open.plans
        return replace(self._frame(plans), messages=(*self._told(), *apart, *told, *run, *opened))

    def _told(self) -> list[Message]:
        """Return the newest summary, and a reply of the model, so that both go on taking turns."""
        if not self.summaries:
            return []
        _, summary = self.summaries[-1]
        turns = f"{summary.turns:,} turn" + ("" if summary.turns == 1 else "s")
        begin = f"[summary of the earlier conversation, {turns} that are no longer shown]"
        said = f"{begin}\n\n{summary.text}\n\n[end of the summary]"
        return [Message(Role.USER, (Text(said),)), Message(Role.ASSISTANT, (Text("[noted]"),))]

    def _frame(self, plans: bool = False) -> Request:
        given = self.run.limits(self.model)
        return Request(
            model=self.model.partition("/")[2],
            system=self._system(),
            tools=self.run.planning() if plans and self.takes_tools else self.tools,
            level=str(self.settings.get("level") or ""),
            max_output=min(given.max_output, given.context // 4),
        )

    def _system(self) -> str:
        """Return the system prompt, with blank lines before the project's instructions and each pinned file."""
        first = self.settings.get("system") or self.settings.get("default_system") or ""
        parts = [first, self.settings.get("instructions") or ""]
        for path in ("/a", "/b"):
            at, _, text = str(self.settings.get(f"pin:{path}") or "").partition("\n")
            parts.append(frame_pin(Pin(path, at, text)) if text else "")
        return "\n\n".join(str(part) for part in parts if part)

    def _first(self) -> int:
        """Return the place of the first turn of the longest run of newest whole turns whose request fits."""
        places = range(len(self.turns))
        if not self.turns:
            return 0
        if not self.budget:
            beyond = [first for first in places if self._bytes(first, [], notice=False) > self.room * 4]
            return max(beyond, default=0)
        ceiling = min(self.budget, self.room)
        fitting = [first for first in places if self.tokens(first) <= ceiling and self._history_fits(first)]
        first = min(fitting, default=places[-1])
        first = self._stepped(first, math.floor(self.rules.prune_fraction * (4 * ceiling)))
        for opened in self.opened if self.open else ():  # it may exceed the budget by its own size, never the room
            while first < len(self.turns) and self.tokens(first, opened) > self.room:
                first += 1
        return first

    def _history_fits(self, first: int) -> bool:
        """Return True if the turns, the notice included, take no more than history may."""
        most = self.rules.max_history
        fixed = self._weight(replace(self._frame(), messages=tuple(self._told())))
        return not most or self._bytes(first, []) - fixed <= 4 * most

    def _stepped(self, first: int, step: int) -> int:
        """Return the first turn of the run that opens a step of live memory, if turns had to leave."""
        if not step or not self.left_out(first)[0]:
            return first
        if self.as_stored:
            opens = [turn.before.bytes // step != turn.before_previous.bytes // step for turn in self.turns]
            return next((place for place in range(first, len(self.turns)) if opens[place]), first)
        sizes = [turn.size for turn in self.turns]
        steps = [sum(sizes[:place]) // step for place in range(len(sizes))]
        return next((place for place in range(first, len(sizes)) if steps[place] != steps[place - 1]), first)


def _without(groups: list[list[Message]], iterations: int) -> list[list[Message]]:
    """Return the groups without the oldest iterations; messages of the user stay."""
    kept: list[list[Message]] = []
    for group in groups:
        if group[0].calls and iterations:
            iterations -= 1
        else:
            kept.append(group)
    return kept


def _start(text: str, most: int) -> str:
    """Return as many of the first characters as take no more bytes."""
    kept = ""
    for character in text:
        if len((kept + character).encode()) > most:
            break
        kept += character
    return kept


def _masked(text: str, where: str) -> str:
    mask = f"[result masked — ~{len(text.encode()) // 4} tokens removed]{where}"
    return mask if len(mask.encode()) < len(text.encode()) else text


def _notice(older: int) -> Message:
    s = "" if older == 1 else "s"
    return Message(Role.USER, (Text(f"[conversation truncated — {older} older message{s} omitted]"),))
