"""Play people, models, tools and accidents against the core and a log, and check memory after each step.

`Life` runs over a log in memory; a subclass with another `open_log` runs over that one.
"""

import itertools
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule, run_state_machine_as_test
from msgspec.structs import replace

from ikigai.core.agents.mail import Mail
from ikigai.core.context.forget_selection import EventRange, Selection, select_events
from ikigai.core.errors import Rejected
from ikigai.core.events import events as ev
from ikigai.core.events.messages import Image, ReplyBlock, StopReason, Text, ToolCall, ToolResult, Usage
from ikigai.core.request.reply_draft import Draft
from ikigai.core.state import loading as loading_module
from ikigai.core.state.decisions.decisions import work
from ikigai.core.state.decisions.overflow import learned_context
from ikigai.core.state.decisions.stop_reasons import MAX_UNKNOWN_TOOL_ROUNDS
from ikigai.core.state.effective_settings import RunConfig, RunProfile
from ikigai.core.state.inputs import (
    Approved,
    CallModel,
    Change,
    Clear,
    CloseNote,
    Condensed,
    Edit,
    Failed,
    Filter,
    Interrupted,
    Job,
    MailArrived,
    MailDelivered,
    NoteClosed,
    Plan,
    Quote,
    Replied,
    Retry,
    RewindTo,
    RunTool,
    Send,
    SetMark,
    StartTool,
    Submitted,
    ToolDone,
    Undo,
    UsageRecorded,
)
from ikigai.core.state.loading import AskPage, AskSpans, load_memory
from ikigai.core.state.memory import AgentStatus, Memory, next_request, offered_tools, plain_size, request_frame
from ikigai.core.text.sanitize import storable
from ikigai.core.tools.mcp_tools import MCP_TOOLS_KEY, McpDefinition, McpOffer
from tests.core.agreement import agrees
from tests.core.encoders import LIMITS
from tests.core.oracle import Oracle, effective
from tests.core.program import Program
from tests.core.worlds import (
    COUNTS,
    LABELS,
    NAMES,
    RUNS,
    blocks,
    calls,
    counts,
    images,
    places,
    profiled,
    rounds,
    runs,
    words,
)

SENT = itertools.count(1_000_000)
"""Ids of messages that were sent elsewhere, each used once."""

points = st.integers(0, 60)
wanted = st.lists(
    st.builds(lambda first, more: EventRange(first, first + more), points, st.integers(0, 12))
    | st.builds(EventRange, newest_turns=st.integers(1, 4)),
    min_size=1,
    max_size=3,
).map(tuple)
"""Ranges of places in a history, or numbers of newest turns."""


def replace_ids(wanted: EventRange, ids: list[int]) -> EventRange:
    """Return the range with places in the history replaced by ids of events, or ids near them."""
    first, last = (ids[place % len(ids)] for place in (wanted.first, wanted.last))
    return EventRange(min(first, last), max(first, last))


def level_of(keys: Collection[str]) -> Collection[str]:
    """Return the setting that ends with a model, if a model is among `keys`."""
    return {"level"} if "model" in keys else ()


def same(memory: Memory, other: Memory) -> bool:
    """Return True if both make equal requests, whatever inputs led there."""
    sent = [(turn.id, turn.messages) for turn in memory.window.turns] == [
        (turn.id, turn.messages) for turn in other.window.turns
    ]
    return sent and (memory.marks, memory.settings) == (other.marks, other.settings)


class Life(Program):
    """One program with one agent open at a time; others are closed."""

    @initialize(run=runs, texts=st.lists(words, max_size=6), count=counts, rounds=rounds)
    def begin(self, run: RunConfig, texts: list[str], count: int, rounds: list[list[str]]) -> None:
        self.start(self.agents[0], run)
        self.turns(texts, results=0, count=count)
        self.work_on("?", rounds)
        if self.memory.open:
            self.happen(Interrupted())

    # People

    @rule(text=words, shown=images)
    def submit(self, text: str, shown: tuple[Image, ...]) -> None:
        self.happen(Submitted(text, shown))

    @precondition(lambda self: self.memory.status is AgentStatus.IDLE)
    @rule(text=words, excerpts=words, data=st.data())
    def recall(self, text: str, excerpts: str, data: st.DataObject) -> None:
        """Recall excerpts with a message; an undo takes them out of the context, and can be taken back."""
        events = self.send_recalling(text, excerpts)
        if not events or self.memory.open is None:
            return
        assert [type(event) for event in events][-2:] == [ev.UserMessage, ev.TurnsRecalled]
        assert self.memory.open.messages[0].text.endswith(storable(excerpts) + "#")
        self.live_equals_replayed()
        self.replied((Text("!"),))
        turns = self.memory.full_window.turns
        if self.memory.open or not turns or not turns[-1].recalled:
            return
        whole, recalled = self.memory, turns[-1].recalled
        if data.draw(st.booleans()):
            (undone,) = self.happen(Undo())
            assert undone == ev.Undone(recalled, "recall", "recall")
            assert not self.memory.full_window.turns[-1].recalled
            assert self.memory.used < whole.used or self.memory.window != whole.window
            self.memory_is_what_the_rules_say()
            if data.draw(st.booleans()):
                assert self.happen(Undo(self.memory.changes[-1].id))
                assert same(self.memory, whole)

    def send_recalling(self, text: str, excerpts: str = "") -> tuple[ev.Event, ...]:
        there = [turn.id for turn in self.memory.full_window.turns if not self.memory.has_removed(turn.id, turn.id)]
        return self.happen(Submitted(text, recalled=ev.TurnsRecalled(excerpts + "#", tuple(there[:1]))))

    @precondition(lambda self: self.memory.open is not None)
    @rule(said=blocks, count=st.none() | counts)
    def interrupt(self, said: tuple[ReplyBlock, ...], count: int | None) -> None:
        said = said if self.jobs(CallModel) else ()
        usage = None if count is None else self.usage(count)
        events = self.happen(Interrupted(said, usage))
        assert [event for event in events if isinstance(event, ev.UsageReported)] == [usage] * (usage is not None)
        assert events and self.memory.open is None
        self.words_are_kept(said, events)

    @precondition(lambda self: len(self.memory.window.turns) > 1)
    @rule()
    def clear(self) -> None:
        own = self.memory.own
        if self.happen(Clear()):
            assert not self.memory.window.turns and not self.memory.marks and not self.memory.window.older.turns
            assert self.memory.own == own, "the agent's own choices are carried over"

    @rule(label=st.sampled_from(LABELS))
    def mark(self, label: str) -> None:
        if self.happen(SetMark(label)):
            assert self.memory.marks[-1].label == label or not label

    @rule(label=st.sampled_from(LABELS))
    def rewind(self, label: str) -> None:
        known = [mark.id for mark in self.memory.marks if label in ("", mark.label)]
        idle = self.memory.status is AgentStatus.IDLE
        events = self.happen(RewindTo(label))
        assert [event.to for event in events if isinstance(event, ev.Rewound)] == (known[-1:] if idle else [])

    @precondition(lambda self: self.memory.status is AgentStatus.IDLE)
    @rule(wanted=wanted, data=st.data())
    def forget(self, wanted: tuple[EventRange, ...], data: st.DataObject) -> None:
        """Forget events by ids seen anywhere, also of other agents; whole turns; the newest turns."""
        before, ids = self.memory, [row.id for row in self.log.history(self.agent)] or [0]
        spread = tuple(each if each.newest_turns else replace_ids(each, ids) for each in wanted)
        found = self.selected(spread)
        if found is None:
            return
        assert self.happen(Filter(found.ranges, found.ids, found.messages))
        for each in found.turns:
            gone = each.ids or [row.id for row in each.turn.sent_rows]
            assert gone and not any(self.memory.has_in_context(id) for id in gone)
        again = self.selected(tuple(EventRange(id, id) for each in found.turns for id in each.ids[:1]) or spread[:1])
        assert again is None or again != found, "what is gone cannot be named again"
        if data.draw(st.booleans()):
            assert self.happen(Undo())
            assert same(self.memory, before)

    def selected(self, wanted: tuple[EventRange, ...]) -> Selection | None:
        try:
            return self.log.load(select_events(self.run, self.agent, wanted))
        except Rejected as refusal:
            assert refusal.what and refusal.remedy
            return None

    @precondition(lambda self: self.memory.status is AgentStatus.IDLE)
    @rule(mode=st.sampled_from(["forget", "remember"]), text=words, back=st.integers(0, 3), ending=st.integers(0, 3))
    def plan(self, mode: str, text: str, back: int, ending: int) -> None:
        self.talk(mode, text, back, ending)

    def talk(self, mode: str, text: str, back: int, ending: int) -> None:
        """Plan a filter in a talk that stores one, is declined, interrupted or broken off: it always leaves memory."""
        found = self.selected((EventRange(newest_turns=back),)) if back else None
        turns, used = [turn.id for turn in self.memory.full_window.turns], self.memory.used
        if not self.happen(Plan(mode, text)):
            return
        assert self.memory.open and self.memory.open.planning == mode
        self.memory_is_what_the_rules_say()
        self.replied((ToolCall("plan", "filter_context"),))
        self.happen(Approved(self.jobs(StartTool)[0]))
        (running,) = self.jobs(RunTool)
        also = (ev.FilterPlanned(found.ranges, found.ids, found.messages, found.tokens),) if found else ()
        self.happen(ToolDone(running, ToolResult(running.call.id, "done"), also))
        self.live_equals_replayed()
        if ending == 0:
            events = self.happen(Interrupted())
        elif ending == 1:
            self.start(self.agent, self.run)
            events = ()
        else:
            events = self.replied((Text(text),))
        if events:
            assert isinstance(events[-1], ev.Filtered) and events[-1].before == used
        assert self.memory.status is AgentStatus.IDLE and self.memory.changes[-1].empty is (found is None)
        if found is None and self.memory.budget > 1000:
            assert [turn.id for turn in self.memory.full_window.turns] == turns

    @rule(place=st.integers(0, 9), data=st.data())
    def undo(self, place: int, data: st.DataObject) -> None:
        """Undo the newest change, or any event: an undo, a change that is not in force, no change at all."""
        acts, idle = self.memory.changes, self.memory.status is AgentStatus.IDLE
        rows = self.log.history(self.agent)
        id = data.draw(st.sampled_from([0, 0, *(act.id for act in acts), *(row.id for row in rows[-5:])]))
        recalled = {turn.recalled for turn in self.memory.full_window.turns[-1:]} - {0}
        if id:
            recalled = {turn.recalled for turn in self.memory.full_window.turns} & {id}
        events = self.happen(Undo(id))
        known = [act.id for act in acts if (act.id == id if id else act.kind != "undo" and not act.empty)]
        known = sorted({*known, *recalled})
        assert [event.of for event in events if isinstance(event, ev.Undone)] == (known[-1:] if idle else [])
        if events and place % 2:
            there = self.memory
            assert self.happen(Undo(self.memory.changes[-1].id))
            assert self.happen(Undo(self.memory.changes[-1].id))
            assert same(self.memory, there), "undone and done again"

    @precondition(lambda self: self.memory.status is AgentStatus.IDLE and self.memory.full_window.turns)
    @rule(edit=st.booleans())
    def again(self, edit: bool) -> None:
        turn = self.memory.full_window.turns[-1]
        events = self.happen(Edit() if edit else Retry())
        if events:
            assert all(kept.id < turn.id for kept in self.memory.full_window.turns)
            assert (self.memory.open is None) is edit
            said = turn.messages[0].blocks[:-1] if turn.recalled else turn.messages[0].blocks  # excerpts are found anew
            assert edit or (self.memory.open and self.memory.open.messages[0].blocks == said)

    @precondition(lambda self: self.memory.status is AgentStatus.IDLE and self.memory.full_window.turns)
    @rule(data=st.data(), text=words, turns=st.integers(0, 3), back=st.sampled_from(["", "undo", "again"]))
    def condense(self, data: st.DataObject, text: str, turns: int, back: str) -> None:
        """Summarize the events up to the end of a turn, also of an ancestor's; perhaps undo it at once."""
        before = self.memory
        turn = data.draw(st.sampled_from(list(before.full_window.turns)))
        summary = ev.Summarized(text, turn.end, ((turn.id, turn.end),), turns=turns)
        (event,) = self.happen(Condensed(summary, before.start_up_to(turn.end)))
        assert isinstance(event, ev.Summarized) and event.before == before.used
        now = self.memory
        assert now.summary and (now.summary.text, now.summarized_upto) == (storable(text), turn.end)
        assert not any(now.has_in_context(id) for id in (turn.id, turn.end)) and now.marks == before.marks
        if not before.window.older.turns and event.after <= now.ceiling:  # else others come back into view, or leave
            assert event.after == now.used and not now.window.older.turns
        self.live_equals_replayed()
        assert self.happen(Condensed(summary, before.start_up_to(turn.end))) == (), "it begins otherwise now"
        if back:
            assert self.happen(Undo()) and same(self.memory, before) and self.memory.summaries == before.summaries
            if back == "again":
                assert self.happen(Undo(self.memory.changes[-1].id))
                assert same(self.memory, now) and self.memory.summaries == now.summaries

    @precondition(lambda self: self.memory.status is AgentStatus.IDLE)
    @rule(text=words)
    def summarise_what_was_cleared(self, text: str) -> None:
        """Store the summary of a cleared epoch, which changes nothing."""
        before = self.memory
        assert self.happen(Condensed(ev.Summarized(text, closed=before.cleared or 1)))
        assert self.memory == before

    @precondition(lambda self: self.memory.status is AgentStatus.IDLE and self.memory.summaries)
    @rule(data=st.data())
    def rewind_into_condensed(self, data: st.DataObject) -> None:
        """Rewind to the end of any turn behind the clear: among the summarized turns, or right before the summary."""
        rows = [row for row in self.log.history(self.agent) if row.id > (self.memory.cleared or 0)]
        ends = [row.id for row in rows if isinstance(row.event, ev.TurnEnded)]
        summary = data.draw(st.sampled_from(self.memory.summaries))
        to = data.draw(st.sampled_from([end for end in ends if end <= summary.id] or [summary.id - 1]))
        self.store((ev.Rewound(to),))
        assert all(left.id <= to for left in self.memory.summaries)

    @rule(text=words)
    def quote(self, text: str) -> None:
        if self.happen(Quote(text)):
            (job,) = self.jobs(CloseNote)
            assert self.happen(NoteClosed(job)) and self.memory.open is None

    @precondition(lambda self: self.memory.status is AgentStatus.IDLE and self.memory.window.turns)
    @rule(data=st.data())
    def rewind_to_turn(self, data: st.DataObject) -> None:
        """Rewind to the end of a turn, as chosen from the history; also an ancestor's."""
        turn = data.draw(st.sampled_from(list(self.memory.window.turns)))
        self.store((ev.Rewound(turn.end),))
        assert self.memory.window.turns[-1].id == turn.id

    @precondition(lambda self: self.memory.status is AgentStatus.IDLE)
    @rule(labels=st.lists(st.sampled_from("abc"), min_size=2, max_size=4), back=st.sampled_from("abc"))
    def there_and_back(self, labels: list[str], back: str) -> None:
        for label in labels:
            self.mark(label)
            self.turns([label], results=0)
        self.rewind(back)

    @rule(model=st.sampled_from([None, *(f"chat/{size}" for size in LIMITS), "blocks/tiny", "blocks/small"]))
    def model(self, model: str | None) -> None:
        self.change("model", model)

    @rule(budget=st.sampled_from([None, 0, 1, 40, 90, 150, 300, 100_000]))
    def budget(self, budget: int | None) -> None:
        self.change("budget", budget)

    @rule(key=st.sampled_from(["system", "level"]), value=st.sampled_from([None, "", "low", "Answer in verse. " * 9]))
    def setting(self, key: str, value: str | None) -> None:
        self.change(key, value)

    @precondition(lambda self: self.run.profiles or "profile" in self.memory.own)
    @rule(name=st.sampled_from([None, *NAMES]))
    def profile(self, name: str | None) -> None:
        """Choose another profile: all of its settings are in force at once, and all other own choices stay."""
        own, idle, above = self.memory.own, self.memory.status is AgentStatus.IDLE, self.memory.run.above
        events = self.happen(Change({"profile": name}))
        there = name is None or name in self.run.profiles
        mine = self.run.profiles[name].settings if name and there else {}
        mine = {key for key, value in mine.items() if (key, value) != ("level", "")}
        news = own.get("profile") != name or mine & own.keys() or {"profile", *mine, *level_of(mine)} & above.keys()
        assert bool(events) is bool(idle and there and news)
        if events:
            gone = {"profile", *mine}
            assert {key: value for key, value in self.memory.own.items() if key not in gone} == {
                key: value for key, value in own.items() if key not in gone
            }
            assert not mine & self.memory.own.keys() and not gone & self.memory.run.above.keys()
            assert self.settings_in_force == effective(self.memory.run, self.memory.own)
            assert len(events) == 1 and (name is None or self.memory.settings["profile"] == name)

    @precondition(lambda self: self.memory.status is AgentStatus.IDLE)
    @rule(value=st.sampled_from(["", "Date: 1", "Date: 2 " * 9]), text=words)
    def describe_and_submit(self, value: str, text: str) -> None:
        """Change the default system prompt, or not, before a message goes out; the user's own stands in its place."""
        settings, user = self.memory.settings, str(self.memory.settings.get("system") or "")
        events = self.describe(value)
        unsent = not value and bool(user)
        assert bool(events) == (value != (settings.get("default_system") or "") and not unsent)
        assert {**self.memory.settings, "default_system": 0} == {**settings, "default_system": 0}
        assert not self.describe(value), "nothing is written the second time"
        self.live_equals_replayed()
        if self.happen(Submitted(text)):
            assert request_frame(self.memory).system.startswith(user or value)

    @precondition(lambda self: self.memory.status is AgentStatus.IDLE)
    @rule(count=st.sampled_from([0, 1, 3, 9]), deferred=st.booleans(), text=words)
    def offer_and_submit(self, count: int, deferred: bool, text: str) -> None:
        """Offer other tools of MCP servers, or the same, before a message goes out."""
        names = [f"s__t{n}" for n in range(count)]
        made = tuple(McpDefinition("s", name[3:], name, "Does it. " * n, "{}") for n, name in enumerate(names))
        offer = McpOffer(deferred=("s",)) if deferred and count else McpOffer(made)
        before = str(self.memory.settings.get(MCP_TOOLS_KEY) or "")
        assert bool(self.offer(offer.text)) == (before != offer.text)
        assert not self.offer(offer.text), "nothing is written the second time"
        self.live_equals_replayed()
        self.happen(Submitted(text))

    @precondition(lambda self: self.memory.status is AgentStatus.IDLE)
    @rule(value=st.sampled_from(["", "Obey.", "Tabs, not spaces. " * 9]), text=words)
    def instruct_and_submit(self, value: str, text: str) -> None:
        """Change the project's instructions, or not, before a message goes out, so that its request has them."""
        before, settings, own = len(self.log.history(self.agent)), self.memory.settings, self.memory.own
        events = self.instruct(value)
        assert (
            len(events) == (value != (settings.get("instructions") or "")) == len(self.log.history(self.agent)) - before
        )
        assert (self.memory.settings.get("instructions") or "") == value
        assert {**self.memory.settings, "instructions": 0} == {**settings, "instructions": 0}, "nothing else changes"
        assert self.memory.own == own, "nobody chose it for this agent"
        assert not self.instruct(value), "nothing is written the second time"
        self.live_equals_replayed()
        if self.happen(Submitted(text)):
            assert value in request_frame(self.memory).system

    @rule(
        path=st.sampled_from(["/b", "/a"]),
        text=st.sampled_from([None, "", "[purged]", "now\nTabs.", "then\n" + "Spaces, please. " * 9]),
    )
    def pin(self, path: str, text: str | None) -> None:
        self.change(f"pin:{path}", text)

    def change(self, key: str, value: ev.Value) -> None:
        own: ev.Choices = {name: chosen for name, chosen in self.memory.own.items() if name != key}
        above = {name: flag for name, flag in self.memory.run.above.items() if name not in {key, *level_of({key})}}
        run = replace(self.memory.run, above=above)
        wanted = effective(run, own if value is None else {**own, key: value}).get(key)
        idle, before = self.memory.status is AgentStatus.IDLE, self.memory.settings
        events = self.happen(Change({key: value}))
        if idle and key == "level" and value is not None:
            assert self.memory.settings.get(key) == value, "with the model in force, whoever named that"
        elif idle and (value is None or wanted == value):
            assert self.memory.settings.get(key) == wanted
        elif idle:
            assert not events and self.memory.settings == before, "a choice without effect is refused"

    @precondition(lambda self: self.memory.status is AgentStatus.IDLE)
    @rule(texts=st.lists(words, min_size=1, max_size=8), results=st.integers(0, 2), count=counts, shown=images)
    def whole_turns(self, texts: list[str], results: int, count: int, shown: tuple[Image, ...]) -> None:
        """Add some turns at once, so that the window has turns to leave out."""
        self.turns(texts, results, count, shown)

    def turns(self, texts: list[str], results: int, count: int = 0, shown: tuple[Image, ...] = ()) -> None:
        for text in texts:
            self.happen(Submitted(text, shown))
            if results and self.jobs(CallModel):
                self.replied(tuple(ToolCall(f"call-{n}", "look") for n in range(results)))
            while self.jobs(StartTool):
                self.happen(Approved(self.jobs(StartTool)[-1]))
                (running,) = self.jobs(RunTool)
                self.happen(ToolDone(running, ToolResult(running.call.id, text)))
            if self.jobs(CallModel):
                self.replied((Text(text),), count=count)
                assert self.memory.window.turns, "the turn just ended is in the window"

    @precondition(lambda self: self.memory.status is AgentStatus.IDLE)
    @rule(text=words, said=blocks, fails=st.booleans(), count=counts)
    def broken_turn(self, text: str, said: tuple[ReplyBlock, ...], fails: bool, count: int) -> None:
        if self.happen(Submitted(text)):
            (self.fail if fails else self.interrupt)(said, count)

    @precondition(lambda self: self.memory.status is AgentStatus.IDLE)
    @rule(texts=st.lists(words, min_size=1, max_size=4), long=st.integers(1, 6), count=counts, said=blocks)
    def squeezing_turn(self, texts: list[str], long: int, count: int, said: tuple[ReplyBlock, ...]) -> None:
        """Play a turn that older ones have to make room for, and that may take less once it has been counted."""
        self.turns(texts, results=0)
        if self.happen(Submitted("?" * 150 * long)):
            squeezed = self.memory.window
            self.live_equals_replayed()
            self.memory_is_what_the_rules_say()
            self.replied((*said, Text("!")), count=count)
            if self.memory.run.counter == "bytes" and self.memory.open is None:
                assert len(self.memory.window.turns) <= len(squeezed.turns) + 1, "what left stays away"

    @precondition(lambda self: self.memory.status is AgentStatus.IDLE)
    @rule(texts=st.lists(words, min_size=1, max_size=3), by_user=st.booleans(), work=st.booleans(), asked=st.booleans())
    def mail(self, texts: list[str], by_user: bool, work: bool, asked: bool) -> None:
        """Begin a turn with messages of other agents; each comes once."""
        mails = [Mail(next(SENT), "x", "heron", text, "", by_user, work, asked) for text in texts]
        if events := self.happen(MailDelivered(tuple(mails))):
            assert [event.of for event in events if isinstance(event, ev.MailTaken)] == [mail.id for mail in mails]
            assert sum(isinstance(event, ev.UserMessage) for event in events) == 1
            assert self.memory.open and self.memory.open.sender == ("" if by_user else "heron")
            assert self.memory.open.reply_to == (("x",) if work else ())
            assert self.memory.open.attended == (by_user or (work and asked))

    @rule(text=words)
    def send(self, text: str) -> None:
        before = self.memory
        self.happen(Send(ev.MailSent(self.agent, text)))
        self.happen(MailArrived())
        assert self.memory == before, "what is sent is no part of the sender's memory"

    @precondition(lambda self: self.memory.status is AgentStatus.IDLE)
    @rule(
        text=words,
        rounds=rounds,
        backwards=st.booleans(),
        looks=st.integers(0, 7),
        said=blocks,
    )
    def working_turn(
        self, text: str, rounds: list[list[str]], backwards: bool, looks: int, said: tuple[ReplyBlock, ...]
    ) -> None:
        self.work_on(text, rounds, backwards, looks)
        if looks % 2 and self.memory.open:
            self.replied(said)

    def work_on(self, text: str, rounds: list[list[str]], backwards: bool = False, looks: int = -1) -> None:
        """Play many iterations with parallel calls: results are cut, masked, and as the last resort dropped."""
        if not self.happen(Submitted(text)):
            return
        for number, results in enumerate(rounds):
            self.replied((Text("…"), *(ToolCall("call", "look") for _ in results)))
            if self.memory.open is None:
                known = {tool.name for tool in offered_tools(self.memory)}
                assert number == MAX_UNKNOWN_TOOL_ROUNDS - 1 and "look" not in known, (
                    "given up for calling what is not there"
                )
                return
            for result in results:
                self.happen(Approved(self.jobs(StartTool)[-backwards]))
                (running,) = self.jobs(RunTool)
                shown = (Image("image/png", "iVBO" * 9, 75, 20),) if len(result) % 3 == 2 else ()
                self.happen(ToolDone(running, ToolResult(running.call.id, result, images=shown)))
            if number == looks:
                self.live_equals_replayed()
                self.memory_is_what_the_rules_say()
        assert self.memory.open and len(self.memory.open.calls) == sum(map(len, rounds)), "no two under one id"

    # Models and tools

    @precondition(lambda self: self.memory.status is AgentStatus.WAITING)
    @rule(limit=st.sampled_from([None, 1, 260, 300, 700]), again=st.integers(1, 3))
    def too_large_for_the_provider(self, limit: int | None, again: int) -> None:
        """Learn that the model takes less than known: memory is loaded anew, and so is the request."""
        for _ in range(again):
            before = self.memory
            reason = "Too long." if limit is None else f"The maximum context length is {limit} tokens."
            self.learned.learn(before.model, learned_context(before, reason))
            self.memory = self.loaded(self.agent)
            smaller = self.memory.size < before.size
            fewer = len(self.memory.window.turns) < len(before.window.turns)  # a notice may be longer than they were
            assert smaller or fewer or self.memory.size == before.size or not before.budget
            if before.budget and (before.window.turns or before.used > self.memory.room) and not (smaller or fewer):
                opened, was = self.memory.open, before.open
                assert opened and was and not before.window.turns and opened.messages == was.messages
            assert work(self.memory) == work(before), "the same question"

    @precondition(lambda self: self.memory.status is AgentStatus.IDLE)
    @rule(text=words, asked=st.lists(calls, min_size=1, max_size=4))
    def ask_for_tools(self, text: str, asked: list[ToolCall]) -> None:
        if self.happen(Submitted(text)):
            self.replied((Text(text), *asked))
            assert len(self.jobs(StartTool)) == len(asked)

    def usage(self, count: int, failure: str = "") -> ev.UsageReported:
        """Return the usage of a request with the size that was sent; of a one-shot call the size is not known."""
        size = 0 if count == COUNTS[1] else plain_size(self.memory)
        return ev.UsageReported(self.memory.model, Usage(count, 3, cached=count), 0.5, failure=failure, size=size)

    def replied(
        self, said: tuple[ReplyBlock, ...], stop: StopReason = StopReason.END, count: int = 0
    ) -> tuple[ev.Event, ...]:
        (job,) = self.jobs(CallModel)
        return self.happen(Replied(job, said, stop, self.usage(count), count))

    @rule(count=counts)
    def side_call(self, count: int) -> None:
        """Record usage, also of an attempt that is repeated: only the ledger changes."""
        usage, before = self.usage(count, failure="rate"), self.memory
        assert self.happen(UsageRecorded(usage)) == (usage,) and self.memory == before

    def words_are_kept(self, said: tuple[ReplyBlock, ...], events: tuple[ev.Event, ...]) -> None:
        words = [storable(block.text) for block in said if isinstance(block, Text)]
        assert "".join(event.text for event in events if isinstance(event, ev.AssistantMessage)) == "".join(words)

    @precondition(lambda self: self.memory.status is AgentStatus.WAITING)
    @rule(said=blocks, stop=st.sampled_from(StopReason), count=counts)
    def reply(self, said: tuple[ReplyBlock, ...], stop: StopReason, count: int) -> None:
        known = {tool.name for tool in offered_tools(self.memory)}
        events = self.replied(said, stop, count)
        self.words_are_kept(said, events)
        asked = [block for block in said if isinstance(block, ToolCall)]
        assert sum(isinstance(event, ToolCall) for event in events) == len(asked)
        ended = [event.ending for event in events if isinstance(event, ev.TurnEnded)]
        if asked and stop is not StopReason.REFUSED:
            astray = not any(call.name in known for call in asked)
            assert not ended or (ended == [ev.Ending.FAILED] and astray)
        else:
            assert ended == [ev.Ending.COMPLETED]
        assert (self.memory.open is None) is bool(ended)
        if stop is StopReason.REFUSED:
            assert not self.jobs(StartTool)

    @precondition(lambda self: self.memory.status is AgentStatus.WAITING)
    @rule(said=blocks, count=st.none() | counts)
    def fail(self, said: tuple[ReplyBlock, ...], count: int | None) -> None:
        (job,) = self.jobs(CallModel)
        usage = None if count is None else self.usage(count, failure="rate")
        events = self.happen(Failed(job, "Too many requests.", said, usage))
        assert events and self.memory.open is None
        self.words_are_kept(said, events)

    @precondition(
        lambda self: self.memory.status is AgentStatus.WAITING and not (self.memory.open and self.memory.open.alone)
    )
    @rule(count=st.none() | counts)
    def model_is_down(self, count: int | None) -> None:
        """Another model is asked for the same, if the run has one; else the turn fails."""
        (job,) = self.jobs(CallModel)
        before, turn = self.memory.model, self.memory.open
        usage = None if count is None else self.usage(count, failure="overloaded")
        self.happen(Failed(job, "Overloaded. Wait.", (), usage, "Overloaded."))
        if self.memory.open:
            others = [model for model, _ in self.run.fallback]
            assert self.jobs(CallModel) == [job] and self.memory.model in others
            assert self.memory.model != before and turn and self.memory.open.first == turn.first

    @precondition(lambda self: self.jobs(StartTool))
    @rule(data=st.data())
    def approve(self, data: st.DataObject) -> None:
        self.other_jobs_stay(lambda job: self.happen(Approved(job)), data.draw(st.sampled_from(self.jobs(StartTool))))

    @precondition(lambda self: self.jobs(RunTool))
    @rule(data=st.data(), output=words, error=st.booleans(), shown=images)
    def tool(self, data: st.DataObject, output: str, error: bool, shown: tuple[Image, ...]) -> None:
        """Finish a call; its diff of a file is for people, and no part of memory."""
        job = data.draw(st.sampled_from(self.jobs(RunTool)))
        came = ToolResult(job.call.id, output, error, images=shown, diff=output)
        self.other_jobs_stay(lambda job: self.happen(ToolDone(job, came)), job)

    def other_jobs_stay(self, act: Callable[[Any], object], job: Job) -> None:
        others = work(self.memory) - {job}
        act(job)
        assert job not in work(self.memory) and others <= work(self.memory)

    @precondition(lambda self: self.past_jobs)
    @rule(data=st.data(), said=blocks)
    def late(self, data: st.DataObject, said: tuple[ReplyBlock, ...]) -> None:
        job = data.draw(st.sampled_from(self.past_jobs))
        usage = ev.UsageReported("")
        match job:
            case CallModel():
                assert self.happen(Replied(job, said, StopReason.END, usage)) == ()
                assert self.happen(Failed(job, "late", said, usage)) == ()
            case StartTool():
                assert self.happen(Approved(job)) == ()
            case RunTool(_, call):
                assert self.happen(ToolDone(job, ToolResult(call.id, "late"))) == ()

    # Agents and accidents

    @precondition(lambda self: len(self.agents) < 4)
    @rule(places=st.lists(places, min_size=1, max_size=2), clear=st.booleans())
    def fork(self, places: list[str], clear: bool) -> None:
        """Fork, also from a busy parent, whose open turn is not shared; perhaps a grandchild; the parent goes on."""
        parent = self.agent
        for place in places:
            self.forked(place)
        if clear:
            youngest = self.agent
            self.start(parent, self.run)
            self.happen(Clear())
            self.start(youngest, self.run)

    def forked(self, place: str) -> None:
        history = self.log.history(self.agent)
        before = [row.id for row in history if self.memory.open is None or row.id < self.memory.open.first]
        ends = [row.id for row in history if isinstance(row.event, ev.TurnEnded)]
        ages = {"now": before[-1:], "newest turn_end": ends[-1:], "old turn_end": ends[len(ends) // 2 :], "nowhere": []}
        at = ages[place] or [0]
        child = self.log.create(f"a{len(self.agents)}", self.agent, at[0])
        self.log.append(child, (ev.Forked(self.agent, at[0], self.agent),))
        self.agents.append(child)
        self.past_jobs.clear()
        self.start(child, self.run)
        assert not self.memory.marks, "marks are their agent's own"

    @precondition(lambda self: len(self.agents) > 1)
    @rule(data=st.data())
    def switch(self, data: st.DataObject) -> None:
        self.past_jobs.clear()
        self.start(data.draw(st.sampled_from(self.agents)), self.run)

    @rule(run=st.none() | runs, asked=st.booleans(), draft=st.none() | words, stale=st.booleans())
    def crash(self, run: RunConfig | None, asked: bool, draft: str | None, stale: bool) -> None:
        """Kill the program, with or without a saved draft, and restart it, perhaps under another configuration."""
        if asked:
            self.happen(Submitted("?"))
        waiting = self.jobs(CallModel)
        if waiting and draft is not None:
            self.log.save_draft(self.agent, Draft(waiting[0].asked_by - stale, draft))
        before, was_open = len(self.log.history(self.agent)), self.memory.open is not None
        self.past_jobs.clear()
        self.start(self.agent, run or self.run)
        recovered = [row.event for row in self.log.history(self.agent)[before:]]
        said = [event.text for event in recovered if isinstance(event, ev.AssistantMessage) and event.interrupted]
        ends = [event.ending for event in recovered if isinstance(event, ev.TurnEnded)]
        assert said == ([storable(draft)] if waiting and draft and not stale else [])
        assert ends == ([ev.Ending.INTERRUPTED] if was_open else [])
        assert self.log.draft(self.agent) is None or not was_open

    # What always holds

    @invariant()
    def live_equals_replayed(self) -> None:
        assert self.loaded(self.agent) == self.memory
        again = self.log.load(load_memory(self.memory.run, self.agent))
        assert again == self.memory, "as the loop loads it, which has the run of memory"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(loading_module, "AskPage", partial(AskPage, limit=3))
            patch.setattr(loading_module, "AskSpans", partial(AskSpans, limit=3))
            patch.setattr(loading_module, "FIRST_PAGE", 1)
            assert self.loaded(self.agent) == self.memory, "in pages of three"

    @invariant()
    def memory_is_what_the_rules_say(self) -> None:
        history = self.log.history(self.agent)
        agrees(self.memory, Oracle(self.run, history))
        assert [row.id for row in history] == sorted({row.id for row in history}), "ids ascend along a lineage"
        own = [row.seq for row in history if row.agent == self.agent]
        assert own == list(range(1, len(own) + 1))

    @invariant()
    def work_is_empty_exactly_when_idle(self) -> None:
        assert (not work(self.memory)) is (self.memory.status is AgentStatus.IDLE)

    def teardown(self) -> None:
        try:
            for agent in self.agents:
                agrees(self.loaded(agent), Oracle(self.run, self.log.history(agent)))
        finally:
            self.log.close()


def condensed_life(machine: type[Life]) -> None:
    """Play one fixed life: condensed twice, forked before, into and behind the summary, rewound across it, cleared."""
    life, run = machine(), replace(RUNS[0], below={**RUNS[0].below, "model": "chat/large"})
    life.start(life.agents[0], run)
    life.turns(["a", "b", "c", "d"], results=1)
    life.mark("m")
    life.turns(["e", "f"], results=0)
    whole, ends = life.memory, [turn.end for turn in life.memory.full_window.turns]

    def condensed(text: str, upto: int, turns: int) -> None:
        assert life.happen(Condensed(ev.Summarized(text, upto, turns=turns), life.memory.start_up_to(upto)))
        life.live_equals_replayed()
        life.memory_is_what_the_rules_say()

    condensed("a and b", ends[1], 2)
    assert [turn.end for turn in life.memory.window.turns] == ends[2:]
    condensed("a to d", ends[3], 4)
    assert next_request(life.memory).messages[0].text.split("\n\n")[1] == "a to d"
    parent, twice = life.agent, life.memory
    for at, text in ((ends[1], ""), (twice.summaries[0].id, "a and b"), (twice.summaries[1].id, "a to d")):
        child = life.log.create(f"a{len(life.agents)}", parent, at)
        life.log.append(child, (ev.Forked(parent, at, parent),))
        life.agents.append(child)
        life.start(child, run)
        assert (life.memory.summary.text if life.memory.summary else "") == text
        life.turns(["g"], results=0)
        life.live_equals_replayed()
        life.memory_is_what_the_rules_say()
    life.start(parent, run)
    life.rewind("m")
    assert not life.memory.summaries and [turn.end for turn in life.memory.window.turns] == ends[:4]
    life.happen(Undo())
    assert same(life.memory, twice)
    for left in (1, 0):
        life.happen(Undo())
        assert len(life.memory.summaries) == left
    assert same(life.memory, whole)
    condensed("all of it", ends[5], 6)
    assert not life.memory.window.turns and not life.memory.window.older.turns
    life.memory_is_what_the_rules_say()
    life.happen(Clear())
    assert not life.memory.summaries
    life.memory_is_what_the_rules_say()
    life.teardown()


def family_life(machine: type[Life]) -> None:
    """Play one fixed life: children and grandchildren, and a parent that changes after the forks."""
    life = machine()
    life.start(life.agents[0], replace(RUNS[0], counter="provider"))
    life.turns(["a", "b"], results=1, count=40)
    life.change("budget", 300)
    life.instruct_and_submit("Obey.", "?")
    life.memory_is_what_the_rules_say()
    life.interrupt((), None)
    life.there_and_back(["a", "b"], "a")
    life.fork(["now", "newest turn_end"], clear=True)
    life.turns(["c"], results=2, count=9)
    life.mail(["Done.", "So am I."], by_user=False, work=False, asked=True)
    life.live_equals_replayed()
    life.memory_is_what_the_rules_say()
    life.send("Well done.")
    life.interrupt((), None)
    for place, counter in ((1, "provider"), (0, "bytes"), (2, "calibrated")):
        life.start(life.agents[place], replace(RUNS[0], counter=counter))
        life.live_equals_replayed()
        life.memory_is_what_the_rules_say()
        life.crash(replace(RUNS[3], counter="calibrated"), True, "I was say", False)
    life.teardown()


def overriding_life(machine: type[Life]) -> None:
    """Play one fixed life: a choice of the model ends a flag's choice, and with it the level of the configuration."""
    life = machine()
    run = next(each for each in RUNS if "level" in each.below and "model" in each.above)
    profile = RunProfile({"model": run.above["model"], "level": ""}, run.rules, run.counter)
    life.start(life.agents[0], profiled(run, {"q": profile}, ""))
    life.turns(["a", "b"], results=0)
    life.profile("q")
    life.live_equals_replayed()
    found = life.selected((EventRange(newest_turns=1),))
    assert found and life.happen(Filter(found.ranges, found.ids, found.messages))
    life.live_equals_replayed()
    life.memory_is_what_the_rules_say()
    life.teardown()


def recalling_life(machine: type[Life]) -> None:
    """Play one fixed life: recalled excerpts of counted turns are undone, forgotten with turns, and forgotten alone."""
    for counter in ("bytes", "provider", "calibrated"):
        life = machine()
        life.start(life.agents[0], replace(RUNS[0], counter=counter))
        life.turns(["a"], results=1, count=150)
        for text in ("b", "c"):
            life.send_recalling(text)
            life.replied((Text("!"),), count=9)
        whole, recalled = life.memory, life.memory.full_window.turns[-1].recalled
        for _ in range(2):
            assert life.happen(Undo()) == (ev.Undone(recalled, "recall", "recall"),)
            assert not life.memory.full_window.turns[-1].recalled
            life.memory_is_what_the_rules_say()
            assert life.happen(Undo(life.memory.changes[-1].id))
            assert same(life.memory, whole)
            life.memory_is_what_the_rules_say()
        for wanted in (EventRange(newest_turns=2), EventRange(recalled, recalled)):
            found = life.selected((wanted,))
            assert found and life.happen(Filter(found.ranges, found.ids, found.messages))
            assert not life.memory.has_in_context(recalled)
            life.memory_is_what_the_rules_say()
            assert life.happen(Undo())
        forget_quoted(life)
        life.again(edit=False)
        assert life.memory.open and not life.memory.open.recalled
        life.memory_is_what_the_rules_say()
        life.teardown()


def forget_quoted(life: Life) -> None:
    """Forget the turn that two messages recalled: no excerpt stays, also where the filter is undone and done again."""
    whole, quoted = life.memory, life.memory.full_window.turns[0]
    recalled = [turn.recalled for turn in whole.full_window.turns if turn.recalled]
    for wanted in (EventRange(quoted.id, quoted.end), EventRange(quoted.id, quoted.id)):
        found = life.selected((wanted,))
        assert found and life.happen(Filter(found.ranges, found.ids, found.messages))
        for _ in range(2):
            assert recalled and not any(turn.recalled for turn in life.memory.full_window.turns)
            assert all(life.selected((EventRange(id, id),)) is None for id in recalled), "they are not in the context"
            life.live_equals_replayed()
            life.memory_is_what_the_rules_say()
            assert life.happen(Undo()) and same(life.memory, whole)
            assert life.happen(Undo(life.memory.changes[-1].id))
        assert life.happen(Undo()) and same(life.memory, whole)


def run_lives(machine: type[Life], examples: int, steps: int) -> None:
    configuration = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )
    run_state_machine_as_test(machine, settings=configuration)
