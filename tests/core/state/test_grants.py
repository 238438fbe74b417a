"""Choices that another program stored grant nothing, and the agent's own ones hold over restarts and forks."""

import hashlib
from collections.abc import Callable

import msgspec
import pytest

from ikigai.core.errors import Rejected
from ikigai.core.events import codec
from ikigai.core.events import events as ev
from ikigai.core.state.effective_settings import RunConfig, RunProfile
from ikigai.core.state.grants import IMPORTED, unconfirmed_notice
from ikigai.core.state.inputs import Change, Clear, Undo
from ikigai.core.state.loading import load_memory
from ikigai.core.state.memory import Memory, next_request
from ikigai.core.tools.approval_mode import ApprovalMode
from ikigai.core.tools.tool_selection import ToolSelection
from tests.core.agent import Agent
from tests.core.encoders import encoder, limits
from tests.core.memory_log import MemoryLog, StoredRow, seal

PIN = "pin:/home/anna/.ssh/id_rsa"
KEY = "2026-01-01 10:00 UTC\nthe key"


def run(below: ev.Choices | None = None, above: ev.Choices | None = None) -> RunConfig:
    plain: ev.Choices = {"model": "chat/large", "budget": 100_000, "approval": "ask", "tools_off": "web"}
    profiles = {"loose": RunProfile({"approval": "yolo", "tools_off": ""}), "": RunProfile()}
    return RunConfig({**plain, **(below or {})}, limits, encoder, above or {}, profiles=profiles, seal=seal)


def chosen(**values: ev.Value) -> ev.SettingsChanged:
    return ev.SettingsChanged(values, dict.fromkeys(values, "agent"))


def store(log: MemoryLog, event: ev.Event, name: str) -> None:
    """Store an event as it is, a seal with it."""
    log.append(name, (ev.CommandRan("/status"),))
    log.rows[-1] = log.rows[-1]._replace(**codec.encode(event)._asdict())


def fork(log: MemoryLog, child: str, parent: str, at: int) -> None:
    """Fork an agent as this program does."""
    log.create(child, parent, at)
    log.append(child, (ev.Forked(parent, at, parent),))


def planted(agent: Agent, event: ev.Event, name: str = "a") -> Memory:
    """Return memory after another program has stored this event."""
    store(agent.log, event, name)
    return agent.loaded()


def in_force(memory: Memory) -> tuple[str, frozenset[str], bool]:
    off = ToolSelection.of(memory.settings).sets_off
    return ApprovalMode.of(memory.settings).value, off, "the key" in next_request(memory).system


LOOSE: dict[str, ev.Event] = {
    "agent": chosen(approval="yolo", tools_off="+vendor_search", **{PIN: KEY}),
    **{
        place or "none": ev.SettingsChanged(
            {"approval": "yolo", "tools_off": "+vendor_search", PIN: KEY},
            dict.fromkeys(("approval", "tools_off", PIN), place) if place else {},
        )
        for place in ("--yolo", "configuration", "IKIGAI_APPROVAL", "default", "fallback", "profile loose", "")
    },
    "a profile": chosen(profile="loose"),
    "a profile that was typed last": ev.SettingsChanged(
        {"profile": "loose", "approval": "yolo"}, {"profile": "agent", "approval": "profile loose"}
    ),
    "a profile in force": ev.SettingsChanged({"profile": "loose"}, {"profile": "--profile"}),
    "a clear": ev.Cleared({"approval": "yolo", "tools_off": "", PIN: KEY}),
    "a clear with a profile": ev.Cleared({"profile": "loose"}),
    "a clear without flags": ev.Cleared({}, ("approval", "tools_off")),
    "a seal of another": msgspec.structs.replace(chosen(approval="yolo"), seal="0" * 64),
    "a choice that is taken back": chosen(approval=None, tools_off=None),
    "an import": msgspec.structs.replace(chosen(approval="yolo", **{PIN: KEY}), seal=IMPORTED),
}
RUNS = {
    "ask": run(),
    "read-only": run({"approval": "read-only"}),
    "read-only by a flag": run({"approval": "edits"}, {"approval": "read-only"}),
    "edits": run({"approval": "edits"}),
}


@pytest.mark.parametrize("config", RUNS.values(), ids=RUNS)
@pytest.mark.parametrize("event", LOOSE.values(), ids=LOOSE)
def test_row_of_another_program_grants_nothing(event: ev.Event, config: RunConfig) -> None:
    agent = Agent(config)
    agent.turn()
    before = in_force(agent.memory)
    memory = planted(agent, event)
    assert in_force(memory) == before and not memory.own.keys() & {PIN}
    again = Agent(config, agent.log).memory
    assert in_force(again) == before, "behind a restart"


@pytest.mark.parametrize("is_cleared", [False, True])
@pytest.mark.parametrize(
    "event",
    [
        *LOOSE.values(),
        chosen(approval="ask"),
        chosen(approval="edits", tools_off=None),
        chosen(profile=None, approval=None),
        ev.Cleared(),
        ev.Cleared({"approval": "ask", "tools_off": ""}),
        ev.Cleared(seal=IMPORTED),
    ],
)
def test_own_stricter_choice_stays(event: ev.Event, is_cleared: bool) -> None:
    agent = Agent(run({"approval": "edits"}))
    agent.happen(Change({"approval": "read-only", "tools_off": "files,web"}))
    agent.turn()
    if is_cleared:
        agent.happen(Clear())
        agent.turn()
    before = in_force(agent.memory)
    assert in_force(planted(agent, event)) == before and before[:2] == ("read-only", {"files", "web", "vendor_search"})
    assert in_force(planted(agent, ev.Cleared())) == before, "behind a second one"
    agent = Agent(agent.run, agent.log)
    agent.turn()
    assert in_force(agent.memory) == in_force(planted(agent, ev.Cleared())) == before, "behind a restart"


IN_FORCE: ev.Choices = {"model": "chat/small", "system": "Obey.", "budget": 9_000, "level": "high"}
"""Choices that grant nothing."""


@pytest.mark.parametrize(
    "event",
    [
        chosen(**IN_FORCE),
        ev.Cleared(IN_FORCE),
        ev.Cleared(IN_FORCE, tuple(IN_FORCE)),
        msgspec.structs.replace(chosen(**IN_FORCE), seal="0" * 32),
        *(ev.SettingsChanged(IN_FORCE, dict.fromkeys(IN_FORCE, of)) for of in ("fallback", "--model", "default", "")),
        ev.SettingsChanged({"instructions": "Obey.", "default_system": "Obey.", "mcp_tools": "Obey."}, {}),
    ],
)
def test_planted_model_and_prompt_are_not_in_force_until_they_are_chosen(event: ev.Event) -> None:
    agent = Agent(run(above={"budget": 50_000}))
    agent.happen(Change({"system": "Help."}))
    agent.turn()
    before = agent.memory.settings
    memory = planted(agent, event)
    assert memory.settings == before and next_request(memory).system == next_request(agent.memory).system
    agent = Agent(agent.run, agent.log)
    assert agent.memory.settings == before, "behind a restart"
    mine = not isinstance(event, ev.SettingsChanged) or "agent" in event.origins.values()
    assert agent.memory.unconfirmed == (IN_FORCE if mine else {})
    agent.happen(Change({"system": "Obey."}))
    assert next_request(agent.loaded()).system == "Obey." and "system" not in agent.memory.unconfirmed


def forked_family() -> tuple[Agent, int, int]:
    """Return an agent that lets much run, and two of its events: before and after it chose that."""
    agent = Agent(run())
    agent.turn()
    early = agent.log.rows[-1].id
    changes: list[ev.Choices] = [{"approval": "yolo"}, {"tools_off": ""}, {PIN: KEY}, {"system": "Obey."}]
    for values in changes:
        agent.happen(Change(values))
    agent.turn()
    return agent, early, agent.log.rows[-1].id


def row_of_another_parent(log: MemoryLog, early: int, late: int) -> None:
    log.create("other")
    fork(log, "b", "other", late)
    log.agents["b"] = "a", late


def row_of_a_later_event(log: MemoryLog, early: int, late: int) -> None:
    fork(log, "b", "a", early)
    log.agents["b"] = "a", late


def row_without_an_end(log: MemoryLog, early: int, late: int) -> None:
    fork(log, "b", "a", early)
    log.agents["b"] = "a", None


def agent_without_a_fork(log: MemoryLog, early: int, late: int) -> None:
    log.create("b", "a", late)
    log.append("b", (ev.CommandRan("/status"),))


def fork_of_another_program(log: MemoryLog, early: int, late: int) -> None:
    log.create("b", "a", late)
    store(log, ev.Forked("a", late, "a"), "b")


def fork_of_an_older_version(log: MemoryLog, early: int, late: int) -> None:
    log.create("b", "a", late)
    log.append("b", (ev.Forked("a", late),))


def fork_of_another_agent(log: MemoryLog, early: int, late: int) -> None:
    fork(log, "mine", "a", late)
    event = codec.decode(*log.rows[-1][3:])
    log.create("b", "a", late)
    store(log, event, "b")


def parent_of_another_parent(log: MemoryLog, early: int, late: int) -> None:
    log.create("between")
    log.append("between", (ev.CommandRan("/status"),))
    fork(log, "b", "between", log.rows[-1].id)
    log.agents["between"] = "a", late


@pytest.mark.parametrize(
    "tamper",
    [
        row_of_a_later_event,
        row_without_an_end,
        agent_without_a_fork,
        fork_of_another_program,
        fork_of_an_older_version,
        fork_of_another_agent,
        parent_of_another_parent,
    ],
)
def test_only_a_proven_fork_inherits_choices(tamper: Callable[[MemoryLog, int, int], None]) -> None:
    agent, early, late = forked_family()
    tamper(agent.log, early, late)
    child = Agent(run(), agent.log, "b")
    assert in_force(child.memory) == in_force(child.loaded()) == in_force(Agent(run()).memory)
    assert child.memory.own == {} and next_request(child.memory).system == ""
    notice = unconfirmed_notice(child.memory.unconfirmed)
    assert "approval mode yolo" in notice and "1 pinned file" in notice and "system prompt Obey." in notice
    child.happen(Change({"approval": "auto"}))
    assert in_force(child.loaded())[0] == "auto", "an own choice counts"
    fork(agent.log, "below", "b", agent.log.rows[-1].id)
    assert in_force(Agent(run(), agent.log, "below").memory)[0] == "auto", "and is inherited"


def test_fork_of_another_parent_inherits_from_neither() -> None:
    agent, early, late = forked_family()
    row_of_another_parent(agent.log, early, late)
    child = Agent(run(), agent.log, "b")
    assert in_force(child.memory) == in_force(child.loaded()) == ("read-only", frozenset({"*", "vendor_search"}), False)
    notice = unconfirmed_notice(child.memory.unconfirmed)
    assert "system prompt Obey." in notice and "all that was inherited from other" in notice


@pytest.mark.parametrize("is_early", [False, True])
def test_fork_of_a_fork_inherits_the_choices_of_both(is_early: bool) -> None:
    agent, early, late = forked_family()
    fork(agent.log, "b", "a", late)
    child = Agent(run(), agent.log, "b")
    child.happen(Change({"approval": "auto"}))
    child.turn()
    fork(agent.log, "c", *(("a", early) if is_early else ("b", agent.log.rows[-1].id)))
    mode = in_force(Agent(run(), agent.log, "c").memory)
    assert mode == (in_force(Agent(run()).memory) if is_early else in_force(child.memory))
    assert is_early or mode == ("auto", frozenset({"vendor_search"}), True)


def test_open_turn_of_an_ancestor_is_reported_to_nobody() -> None:
    agent = Agent(run())
    agent.turn()
    agent.store((ev.UserMessage("?", sender="boss", attended=True),))
    agent.log.create("b", "a", agent.log.rows[-1].id)
    opened = agent.log.load(load_memory(run(), "b")).open
    assert opened and (opened.sender, opened.attended) == ("", False)


@pytest.mark.parametrize(("stored", "there"), [("read-only", "read-only"), ("ask", "ask"), ("edits", "edits")])
def test_stricter_choice_of_another_program_holds(stored: str, there: str) -> None:
    memory = planted(Agent(run({"approval": "auto"})), chosen(approval=stored, tools_off="files,web"))
    assert in_force(memory)[0] == there and not memory.unconfirmed
    assert ToolSelection.of(memory.settings).off == ("files", "web")


def test_own_choices_hold_over_a_restart_a_clear_and_a_fork() -> None:
    agent = Agent(run())
    for values in ({"approval": "auto"}, {"tools_off": ""}, {PIN: KEY}):
        agent.happen(Change(values))
    expected = "auto", frozenset({"vendor_search"}), True
    assert in_force(agent.memory) == in_force(Agent(run(), agent.log).memory) == expected
    agent.turn()
    agent.happen(Clear())
    assert in_force(agent.memory) == in_force(Agent(run(), agent.log).memory) == expected
    agent.happen(Undo(0))
    assert in_force(agent.loaded()) == expected
    fork(agent.log, "child", "a", agent.log.rows[-1].id)
    child = Agent(run(), agent.log, "child")
    assert in_force(child.memory) == expected and not child.memory.unconfirmed
    child.happen(Change({"profile": "loose"}))
    assert in_force(Agent(run(), agent.log, "child").memory)[0] == "yolo"


@pytest.mark.parametrize("into", ["a", "other"])
def test_row_cannot_be_stored_a_second_time(into: str) -> None:
    agent = Agent(run())
    agent.happen(Change({"approval": "yolo"}))
    event = codec.decode(*agent.log.rows[-1][3:])
    agent.happen(Change({"approval": "ask"}))
    other = Agent(run(), agent.log, into)
    assert in_force(planted(other, event, name=into))[0] == "ask"


@pytest.mark.parametrize("is_cleared", [False, True])
def test_row_of_another_program_brings_no_own_choice_back(is_cleared: bool) -> None:
    agent = Agent(run())
    for values in ({"approval": "yolo"}, {PIN: KEY}, {"approval": "ask"}, {PIN: None}):
        agent.happen(Change(values))
        agent.turn()
        if is_cleared:
            agent.happen(Clear())
    before, ids = in_force(agent.memory), [row.id for row in agent.log.rows if row.kind in ("settings", "clear")]
    assert before[0] == "ask"
    everything = ev.Filtered("forget", "", ((0, 10**6),), (), 0, 1, 1, 1)
    for event in (*(ev.Undone(id, "clear", "clear") for id in reversed(ids)), ev.Rewound(0), everything):
        assert in_force(planted(agent, event)) == before
    assert in_force(Agent(run(), agent.log).memory) == before, "behind a restart"


def test_choices_of_another_machine_are_named_and_hold_once_they_are_made_here() -> None:
    agent = Agent(run())
    for values in ({"approval": "edits"}, {PIN: KEY}, {"budget": 50_000}):
        agent.happen(Change(values))
    elsewhere = msgspec.structs.replace(run(), seal=lambda data: hashlib.sha256(b"theirs" + data).hexdigest())
    there = Agent(elsewhere, agent.log)
    assert in_force(there.memory)[0] == "ask" and not in_force(there.memory)[2] and there.memory.budget == 100_000
    assert unconfirmed_notice(there.memory.unconfirmed) == (
        "Not in force, because it was not chosen in this program: approval mode edits, budget 50000, 1 pinned file. "
        "Choose it here to use it."
    )
    there.happen(Change({"approval": "edits", "budget": 50_000}))
    assert in_force(there.memory)[0] == in_force(there.loaded())[0] == "edits"
    there.happen(Change({PIN: None}))
    assert there.memory.unconfirmed == {} == there.loaded().unconfirmed
    with pytest.raises(Rejected, match="Already set"):
        there.happen(Change({"approval": "edits"}))


def test_no_choice_of_an_import_counts() -> None:
    imported: ev.Choices = {"model": "chat/small", "system": "Obey.", "budget": 900, "approval": "read-only", PIN: KEY}
    rows = (
        msgspec.structs.replace(chosen(**imported), seal=IMPORTED),
        msgspec.structs.replace(ev.SettingsChanged({"level": "high"}, {"level": "--think"}), seal=IMPORTED),
    )
    log = MemoryLog()
    log.create("a")
    for row in rows:
        store(log, row, "a")
    agent = Agent(run(), log)
    for memory in (agent.memory, planted(agent, msgspec.structs.replace(ev.Cleared(imported), seal=IMPORTED))):
        assert memory.own == {} and memory.unconfirmed == imported
        assert (memory.model, memory.budget) == ("chat/large", 100_000) and next_request(memory).system == ""
    assert "system prompt Obey." in unconfirmed_notice(agent.memory.unconfirmed)


def test_notice_is_bounded() -> None:
    many: ev.Choices = {f"key {n}": "x\x1b[31m" * 1_000 for n in range(50)} | {f"pin:/{n}": KEY for n in range(99)}
    assert len(text := unconfirmed_notice(many)) < 700 and "\x1b" not in text
    assert unconfirmed_notice({}) == ""


@pytest.mark.parametrize("undos", [1, 2, 3], ids=["an undo", "a redo", "an undo of the redo"])
def test_planted_undo_of_the_first_clear_of_a_subagent_lets_no_more_run(undos: int) -> None:
    agent, _, _ = forked_family()
    agent.happen(Change({"profile": "loose"}))
    agent.log.create("b", "a", late := agent.log.rows[-1].id)
    agent.log.append("b", (ev.Forked("a", late, "a"), ev.Cleared({"approval": "ask", "tools_off": "files,web"})))
    child = Agent(run(), agent.log, "b")
    before = in_force(child.memory)
    assert before[:2] == ("ask", {"files", "web", "vendor_search"})
    for _ in range(undos):
        memory = planted(child, ev.Undone(agent.log.rows[-1].id, "clear", "clear"), "b")
        assert in_force(memory)[:2] == before[:2]
    child = Agent(run(), agent.log, "b")
    assert in_force(child.memory)[:2] == before[:2], "behind a restart"
    child.happen(Change({"approval": "edits"}))
    assert in_force(child.loaded())[0] == "edits", "an own choice counts"


def test_undo_of_an_own_clear_keeps_the_choices() -> None:
    agent = Agent(run({"approval": "edits"}))
    agent.turn()
    agent.happen(Change({"tools_off": "", PIN: KEY}))
    for mode in ("yolo", "read-only", "auto"):
        agent.happen(Change({"approval": mode}))
        agent.turn()
        before = agent.memory.settings
        agent.happen(Clear())
        agent.happen(Undo(0))
        assert agent.memory.settings == agent.loaded().settings == before and not agent.memory.unconfirmed
        assert Agent(agent.run, agent.log).memory.settings == before, "behind a restart"


CUT: dict[str, Callable[[MemoryLog, int], tuple[str | None, int | None]]] = {
    "no parent": lambda log, late: (None, None),
    "another parent": lambda log, late: (log.create("other"), late),
    "an earlier event": lambda log, late: ("a", 1),
    "no event": lambda log, late: ("a", 0),
}


@pytest.mark.parametrize("is_above", [False, True])
@pytest.mark.parametrize("cut", CUT.values(), ids=CUT)
def test_fork_that_is_cut_off_loses_no_stricter_choice(
    cut: Callable[[MemoryLog, int], tuple[str | None, int | None]], is_above: bool
) -> None:
    agent = Agent(run({"approval": "auto"}))
    agent.turn()
    agent.happen(Change({"approval": "read-only", "tools_off": "files,web"}))
    agent.turn()
    fork(agent.log, "b", "a", late := agent.log.rows[-1].id)
    name = "b"
    if is_above:
        fork(agent.log, name := "c", "b", agent.log.rows[-1].id)
    fork_id = next(row.id for row in agent.log.rows if row.agent == "b")
    agent.log.agents["b"] = cut(agent.log, late)
    store(agent.log, ev.Undone(fork_id, "clear", "clear"), "b")
    child = Agent(agent.run, agent.log, name)
    assert ApprovalMode.of(child.memory.settings) == "read-only"
    selection = ToolSelection.of(child.memory.settings)
    assert all(map(selection.is_off, ("files", "web", "vendor_search")))
    assert "all that was inherited from a" in unconfirmed_notice(child.memory.unconfirmed)
    child.happen(Change({"approval": "edits", "tools_off": "web"}))
    assert in_force(child.loaded())[:2] == ("edits", {"web", "vendor_search"}), "an own choice counts"


def test_choice_that_is_moved_behind_a_later_one_does_not_count() -> None:
    agent = Agent(run())
    agent.happen(Change({"approval": "yolo"}))
    first = len(agent.log.rows)
    agent.turn()
    agent.happen(Change({"approval": "ask"}))
    rows = agent.log.rows
    rows[first - 1], rows[-1] = rows[-1]._replace(id=first), rows[first - 1]._replace(id=len(rows))
    assert in_force(Agent(run(), agent.log).memory)[0] == "ask"


@pytest.mark.parametrize("is_cleared", [False, True])
def test_filter_before_a_choice_does_not_remove_it(is_cleared: bool) -> None:
    agent = Agent(run())
    agent.turn()
    agent.happen(Change({"approval": "yolo"}))
    gap = len(agent.log.rows)
    agent.happen(Change({"approval": "ask"}))
    if is_cleared:
        agent.happen(Clear())
    ids = tuple(row.id + 1 for row in agent.log.rows[gap:])
    content = codec.encode(ev.Filtered("forget", "", (), ids, 0, 1, 1, 1))
    rows = agent.log.rows
    later = [row._replace(id=row.id + 1) for row in rows[gap:]]
    rows[gap:] = [StoredRow(gap + 1, "a", len(rows) + 1, *content), *later]
    assert in_force(Agent(run(), agent.log).memory)[0] == "ask"


@pytest.mark.parametrize("clear", [ev.Cleared(), ev.Cleared({"approval": "yolo"}), ev.Cleared(seal=IMPORTED)])
def test_clear_with_a_low_id_takes_no_choice_of_the_parent_back(clear: ev.Cleared) -> None:
    agent = Agent(run({"approval": "auto"}))
    agent.turn()
    gap = len(agent.log.rows)
    agent.store((ev.CommandRan("/status"),))
    agent.happen(Change({"approval": "ask"}))
    fork(agent.log, "b", "a", agent.log.rows[-1].id)
    before = in_force(Agent(agent.run, agent.log, "b").memory)
    agent.log.rows[gap] = StoredRow(gap + 1, "b", 2, *codec.encode(clear))
    assert in_force(Agent(agent.run, agent.log, "b").memory) == before and before[0] == "ask"


def test_clear_of_another_program_brings_no_undone_clear_back() -> None:
    agent = Agent(run())
    agent.turn()
    agent.log.create("b", "a", late := agent.log.rows[-1].id)
    agent.log.append("b", (ev.Forked("a", late, "a"), ev.Cleared({"approval": "edits"})))
    agent.log.append("b", (ev.Undone(agent.log.rows[-1].id, "clear", "clear"),))
    child = Agent(run(), agent.log, "b")
    assert in_force(child.memory)[0] == in_force(planted(child, ev.Cleared(), "b"))[0] == "ask"


def test_stricter_choice_of_another_program_ends_with_the_profile_that_it_was_stricter_than() -> None:
    agent = Agent(run())
    agent.happen(Change({"profile": "loose"}))
    assert in_force(planted(agent, chosen(approval="edits")))[0] == "edits"
    changed = {"profile": None, "approval": "ask", "tools_off": "web"}
    agent.store((ev.SettingsChanged(changed, {"profile": "agent", "approval": "default", "tools_off": "default"}),))
    assert in_force(agent.loaded())[0] == "ask"
