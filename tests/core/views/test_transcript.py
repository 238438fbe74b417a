"""Each event has its block, and the context rule its place."""

import pytest

from ikigai.core.events import events as ev
from ikigai.core.events.messages import (
    Citation,
    Document,
    DocumentKind,
    Image,
    StopReason,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from ikigai.core.state.effective_settings import RunConfig, WindowRules
from ikigai.core.state.inputs import (
    CallModel,
    Change,
    Clear,
    Condensed,
    Redo,
    Replied,
    RewindTo,
    SetMark,
    Submitted,
    Undo,
)
from ikigai.core.views.context_rule import ContextRule, context_rule, redraws_rule
from ikigai.core.views.transcript import Speaker, TranscriptBlock, event_block, event_blocks, history_items
from tests.core.agent import RUN, Agent
from tests.core.encoders import encoder, limits

SHOT, UNNAMED = Image("image/png", "iVBO", 640, 480, "shot.png"), Image("image/jpeg", "/9j/", 2, 1)
SHOWN: list[tuple[ev.Event, Speaker | None, str]] = [
    (ev.UserMessage("Hello."), Speaker.USER, "Hello."),
    (ev.UserMessage("What?", (SHOT,)), Speaker.USER, "[image shot.png, 640×480]\nWhat?"),
    (ev.UserMessage("", (SHOT, UNNAMED)), Speaker.USER, "[image shot.png, 640×480]\n[image image/jpeg, 2×1]"),
    (
        ev.UserMessage(
            "See", (SHOT,), documents=(Document("a.py", "1\n2"), Document("src/", "b\n", DocumentKind.FOLDER))
        ),
        Speaker.USER,
        "[image shot.png, 640×480]\n[file a.py, 2 lines]\n[folder src/, 1 entry]\nSee",
    ),
    (ev.UserMessage("", documents=(Document("a", "1\n", whole=9),)), Speaker.USER, "[file a, 1 line, cut]"),
    (ev.AssistantMessage((Thinking("Hm."), Text("Good "), Text("day."))), Speaker.ASSISTANT, "Good day."),
    (ev.AssistantMessage((Thinking("Hm."),)), Speaker.ASSISTANT, ""),
    (ev.AssistantMessage((Thinking(" \n"), Thinking("", "signed"))), None, ""),
    (ToolCall("c", "look", '{"at":1}'), Speaker.TOOL_CALL, '{"at":1}'),
    (ToolCall("c", "look", "{}", '{"at":'), Speaker.TOOL_CALL, '{"at":'),
    (ToolResult("c", "seen"), Speaker.TOOL_RESULT, "seen"),
    (ToolResult("c", ""), Speaker.TOOL_RESULT, ""),
    (ev.ToolStarted("c"), None, ""),
    (ev.UsageReported("m/n"), None, ""),
    (ev.TurnEnded(ev.Ending.COMPLETED), None, ""),
    (ev.TurnEnded(ev.Ending.INTERRUPTED), Speaker.STOPPED, "interrupted"),
    (ev.TurnEnded(ev.Ending.FAILED, "Too many requests."), Speaker.STOPPED, "Too many requests."),
    (ev.TurnsRecalled("x" * 400, (3, 5)), Speaker.NOTE, "Recalled #3, #5: 100 tokens. To undo this: /undo"),
    (
        ev.TurnsRecalled("é" * 2_200, tuple(range(1, 9))),
        Speaker.NOTE,
        "Recalled #1, #2, #3, #4, #5, #6 and 2 more: 1.1k tokens. To undo this: /undo",
    ),
    (ev.Marked("m"), Speaker.NOTE, "Mark m set. /rewind m returns here."),
    (ev.SettingsChanged({"budget": 200_000}, {"budget": "agent"}), Speaker.NOTE, "Budget: 200k tokens"),
    (ev.SettingsChanged({"budget": 0}, {"budget": "--budget"}), Speaker.NOTE, "Budget: off (from --budget)"),
    (ev.SettingsChanged({"budget": None}, {"budget": "agent"}), Speaker.NOTE, "Budget: default"),
    (ev.SettingsChanged({"system": "You are …"}, {"system": "agent"}), Speaker.NOTE, "System: changed"),
    (ev.SettingsChanged({"system": ""}, {}), Speaker.NOTE, "System: none"),
    (ev.SettingsChanged({"model": "m/n", "level": "low"}, {}), Speaker.NOTE, "Model: m/n; Level: low"),
    (ev.Forked("root", 7), Speaker.NOTE, "Forked from root at event 7."),
    (ev.Forked("root", 0), Speaker.NOTE, "Forked from root at event 0."),
    (ev.Forked("root", None), Speaker.NOTE, "Forked from root."),
    (ev.CommandRan("/status"), Speaker.NOTE, "/status"),
    (ev.CommandRan("/status", "Well."), Speaker.NOTE, "/status\nWell."),
    (ev.Unknown("hologram", "Boo."), Speaker.NOTE, "[hologram] Boo."),
]


def stored(event: ev.Event, id: int = 5) -> ev.StoredEvent:
    return ev.StoredEvent(id, "a", id, 0.0, event)


@pytest.mark.parametrize(("event", "speaker", "text"), SHOWN, ids=lambda cell: type(cell).__name__)
def test_what_is_shown(event: ev.Event, speaker: Speaker | None, text: str) -> None:
    made = event_block(stored(event))
    call = event.id if isinstance(event, ToolCall) else event.call_id if isinstance(event, ToolResult) else ""
    plain = made and TranscriptBlock(5, made.speaker, made.text, made.name, made.failed, True, made.thoughts, call=call)
    assert made == plain
    assert (made and made.speaker, made and made.text) == (speaker, None if speaker is None else text)


def test_thoughts_stand_where_they_were_thought() -> None:
    blocks = (
        Thinking("One."),
        Thinking("", "signature without words"),
        Thinking("And on."),
        Text("Some "),
        Text("words. "),
        Thinking(" "),
        Text("More. "),
        Thinking("Two."),
        Text(""),
        Thinking("Three."),
        Text("The end."),
        Thinking("Afterthought."),
    )
    made = event_block(stored(ev.AssistantMessage(blocks)))
    assert made and made.text == "Some words. More. The end."
    assert [part if isinstance(part, str) else (part.at, part.text) for part in made.parts] == [
        (0, "One.\n\nAnd on."),
        "Some words. More. ",
        (18, "Two.\n\nThree."),
        "The end.",
        (26, "Afterthought."),
    ]


def test_block_without_thoughts_is_its_words() -> None:
    for text, parts in (("words", ["words"]), ("", [])):
        assert list(TranscriptBlock(1, Speaker.ASSISTANT, text).parts) == parts


def test_images_are_told_above_the_words() -> None:
    images = (Image("image/png", "aGk=", 30, 20, "cat.png"), Image("image/webp", "aGk=", 5, 4))
    made = event_block(stored(ev.UserMessage("What are @cat.png and the other?", images)))
    assert made and made.text == ("[image cat.png, 30×20]\n[image image/webp, 5×4]\nWhat are @cat.png and the other?")
    alone = event_block(stored(ev.UserMessage("", images[:1])))
    assert alone and alone.text == "[image cat.png, 30×20]"


def test_what_takes_memory_away_says_that_the_history_stays() -> None:
    for event in (ev.Cleared(), ev.Rewound(3), ev.Rewound(3, "m"), ev.Filtered("forget", "it", ((1, 2),), messages=2)):
        made = event_block(stored(event))
        assert made and made.speaker is Speaker.NOTE and "To undo this: /undo" in made.text


@pytest.mark.parametrize("command", ["clear", "rewind", "forget", "remember", "condense", "recall"])
def test_undo_and_redo_name_the_command_that_they_take_back_or_bring_back(command: str) -> None:
    agent = Agent()
    agent.happen(SetMark("m"))
    for text in "abc":
        agent.turn(text)
    first = agent.memory.window.turns[0]
    match command:
        case "clear":
            agent.happen(Clear())
        case "rewind":
            agent.happen(RewindTo("m"))
        case "condense":
            summary = ev.Summarized("sum", first.end, turns=1)
            agent.happen(Condensed(summary, agent.memory.start_up_to(first.end)))
        case "recall":
            agent.happen(Submitted("d", recalled=ev.TurnsRecalled("a", (first.id,))))
            agent.reply(Text("!"))
        case mode:
            agent.store((ev.Filtered(mode, "it", ((first.id, first.end),), messages=2),))

    def told(step: Undo | Redo) -> str:
        agent.happen(step)
        made = event_block(agent.log.rows[-1].event())
        return made.text if made else ""

    undid, redid = f"Undid the {command}. /redo does it again.", f"Redid the {command}. /undo takes it back."
    for _ in range(2):
        assert (told(Undo()), told(Redo())) == (undid, redid)
    assert told(Undo(agent.memory.changes[-1].id)) == undid, "by the id of the redo"
    assert (told(Redo()), told(Undo())) == (redid, undid)


def test_undos_that_older_programs_stored_name_the_event() -> None:
    texts = [made.text for what in ("clear", "undo", "") if (made := event_block(stored(ev.Undone(3, what))))]
    assert texts == [
        "Undid event #3. /redo does it again.",
        "Redid event #3. /undo takes it back.",
        "Undid event #3. /redo does it again.",
    ]


def test_filter_says_what_it_took_and_what_that_came_to() -> None:
    filtered = ev.Filtered("forget", "the schema", ((1, 9), (12, 20)), (25, 26), 0, 1200, 42_100, 4_000)
    made = event_block(stored(filtered))
    assert made and "Forgot 1,200 messages (the schema): context 42.1k → 4k tokens." in made.text
    kept = event_block(stored(ev.Filtered("remember", "the schema", ((1, 9),), (), 0, 1, 42_100, 4_000)))
    assert kept and "Kept only the schema: forgot 1 message, context 42.1k → 4k tokens." in kept.text
    nothing = event_block(stored(ev.Filtered("forget", "the schema", planning=7)))
    assert nothing and nothing.text.startswith("Nothing was forgotten.") and "undo" not in nothing.text
    asked = event_block(stored(ev.UserMessage("the schema", planning="forget")))
    assert asked and asked.text == "/forget the schema" and asked.speaker is Speaker.USER


def test_calls_are_named_and_failures_marked() -> None:
    failed = {
        ToolCall("c", "look"): False,
        ToolCall("c", "look", "{}", "["): True,
        ToolResult("c", "no", is_error=True): True,
        ev.TurnEnded(ev.Ending.INTERRUPTED): False,
        ev.TurnEnded(ev.Ending.FAILED): True,
    }
    for event, is_failed in failed.items():
        made = event_block(stored(event))
        assert made and made.failed is is_failed
        assert made.name == ("look" if isinstance(event, ToolCall) else "")


def shown(agent: Agent) -> list[str]:
    """Return the lineage drawn afresh, a word for each block; blocks out of the context in brackets, the rule as a
    line.
    """
    drawn: list[str] = []
    for thing in history_items(agent.log.history(agent.name), agent.memory):
        if isinstance(thing, ContextRule):
            drawn.append("-----")
        else:
            word = thing.text.split()[0]
            drawn.append(word if thing.remembered else f"({word})")
    return drawn


def test_no_rule_while_everything_is_in_context() -> None:
    agent = Agent()
    assert context_rule(agent.memory) is None
    agent.turn("a", "b")
    agent.happen(SetMark())
    agent.turn("c", "d")
    assert context_rule(agent.memory) is None
    assert shown(agent) == ["a", "b", "Mark", "c", "d"]


def test_rule_stands_right_before_the_first_event_in_context() -> None:
    agent = Agent(RunConfig({"model": "chat/tiny", "budget": 60}, limits, encoder))
    for asked, said in ("ab", "cd", "ef"):
        agent.turn(asked, said)
    first = agent.memory.window.turns[0]
    assert context_rule(agent.memory) == ContextRule(first.id, 2, "e")
    assert shown(agent) == ["(a)", "(b)", "(c)", "(d)", "-----", "e", "f"]
    agent.happen(Change({"budget": 1_000}))
    assert context_rule(agent.memory) is None and shown(agent) == ["a", "b", "c", "d", "e", "f", "Budget:"]


@pytest.mark.parametrize("busy", [False, True])
def test_rule_stands_before_a_kept_first_turn_with_nothing_left_out_behind_it(busy: bool) -> None:
    """The request begins with the summary, and goes on with the first turn that it does not cover."""
    agent = Agent(
        RunConfig({"model": "chat/tiny", "budget": 60}, limits, encoder, rules=WindowRules(keep_first_turn=True))
    )
    agent.turn("a", "b")
    end = agent.memory.window.turns[0].end
    agent.happen(Condensed(ev.Summarized("sum", end, turns=1), agent.memory.start_up_to(end)))
    agent.turn("c " + "d" * 90, "e")
    if busy:
        agent.happen(Submitted("f" * 700))
    else:
        agent.turn("f", "g")
    first = agent.memory.window.first
    assert first and not agent.memory.window.older.turns and agent.memory.used > agent.memory.ceiling
    assert context_rule(agent.memory) == ContextRule(first.id, 0, "c " + "d" * 78, summarized=1)
    assert shown(agent)[:6] == ["(a)", "(b)", "(Condensed:)", "-----", "c", "e"]


def test_rule_names_the_first_words_of_the_turn_on_one_line() -> None:
    agent = Agent(RunConfig({"model": "chat/tiny", "budget": 1}, limits, encoder))
    agent.turn()
    agent.turn("two\nlines\t and  " + "more " * 50)
    drawn = context_rule(agent.memory)
    assert drawn and drawn.words == ("two lines and " + "more " * 50)[:80]


def test_rule_moves_at_once_when_the_open_turn_takes_the_room() -> None:
    agent = Agent(RunConfig({"model": "chat/tiny", "budget": 1_000}, limits, encoder))
    agent.turn("a", "b")
    agent.happen(Submitted("c" * 700))
    assert agent.memory.open and context_rule(agent.memory) == ContextRule(agent.memory.open.first, 1, "c" * 80)


def test_after_a_clear_the_rule_stands_behind_it() -> None:
    agent = Agent()
    agent.turn("a", "b")
    agent.happen(Clear())
    agent.turn("c", "d")
    place = next(row.id for row in agent.log.rows if row.kind == "clear")
    assert context_rule(agent.memory) == ContextRule(place, 0, "", cleared=True)
    assert shown(agent) == ["(a)", "(b)", "Context", "-----", "c", "d"]


def test_turns_that_slid_out_since_the_clear_move_the_rule_on() -> None:
    agent = Agent(RunConfig({"model": "chat/tiny", "budget": 60}, limits, encoder))
    agent.turn("a", "b")
    agent.happen(Clear())
    agent.turn("c", "d")
    agent.turn("e", "f" * 60)
    assert shown(agent)[:-1] == ["(a)", "(b)", "(Context)", "(c)", "(d)", "-----", "e"]
    drawn = context_rule(agent.memory)
    assert drawn and drawn.turns == 1 and not drawn.cleared


def test_what_was_rewound_is_shown_as_forgotten() -> None:
    agent = Agent()
    agent.turn("a", "b")
    agent.happen(SetMark("m"))
    agent.turn("c", "d")
    agent.happen(RewindTo("m"))
    agent.turn("e", "f")
    assert shown(agent) == ["a", "b", "Mark", "(c)", "(d)", "Rewound", "e", "f"]


def test_stretch_that_does_not_hold_the_cutoff_has_no_rule() -> None:
    agent = Agent(RunConfig({"model": "chat/tiny", "budget": 60}, limits, encoder))
    for asked, said in ("ab", "cd", "ef"):
        agent.turn(asked, said)
    assert not any(isinstance(thing, ContextRule) for thing in history_items(agent.log.history("a")[:3], agent.memory))


def test_child_is_shown_with_what_it_inherited() -> None:
    parent = Agent()
    parent.turn("a", "b")
    parent.log.create("child", "a", parent.log.rows[-1].id)
    parent.turn("c", "d")
    parent.log.append("child", (ev.Forked("a", 3),))
    child = Agent(RUN, parent.log, "child")
    child.turn("e", "f")
    assert shown(child) == ["a", "b", "Forked", "e", "f"]


SHORT = {
    StopReason.LENGTH: "The reply was cut off at its length limit.",
    StopReason.REFUSED: "The model refused to answer.",
}


@pytest.mark.parametrize("stop", StopReason)
@pytest.mark.parametrize("said", [(Text("Yes."),), (Thinking("Hm."),), ()])
def test_behind_a_reply_stands_why_it_is_short(stop: StopReason, said: tuple[Text | Thinking, ...]) -> None:
    event = ev.AssistantMessage(said, stop)
    made = event_blocks(stored(event), remembered=False)
    reply = [] if (only := event_block(stored(event), remembered=False)) is None else [only]
    assert [each.text for each in reply] == (
        ["".join(each.text for each in said if isinstance(each, Text))] if said else []
    )
    behind = [TranscriptBlock(5, Speaker.SHORT, SHORT[stop], remembered=False)] if stop in SHORT else []
    assert list(made) == [*reply, *behind]


def test_why_a_reply_is_short_is_shown_again_in_its_place() -> None:
    agent = Agent()
    agent.happen(Submitted("a"))
    agent.happen(Replied(agent.job(CallModel), (), StopReason.REFUSED, ev.UsageReported("m/n")))
    agent.turn("b", "c")
    drawn = [
        each.text
        for each in history_items(agent.log.history(agent.name), agent.memory)
        if isinstance(each, TranscriptBlock)
    ]
    assert drawn == ["a", "The model refused to answer.", "b", "c"]


def test_rule_is_drawn_again_behind_what_the_user_did_to_the_context() -> None:
    again = [
        ev.Rewound(7),
        ev.Filtered("forget", "foxes"),
        ev.Undone(7, "rewind"),
        ev.SettingsChanged({"budget": 7}, {"budget": "agent"}),
    ]
    others = [
        ev.UserMessage("Hello."),
        ev.TurnEnded(ev.Ending.COMPLETED),
        ev.Marked("m"),
        ev.SettingsChanged({"budget": 7}, {"budget": "--budget"}),
        ev.SettingsChanged({"model": "m/n"}, {"model": "agent"}),
    ]
    assert all(map(redraws_rule, again)) and not any(map(redraws_rule, others))


def test_pages_that_a_reply_relies_on_stand_below_it_numbered_and_once() -> None:
    one, two = Citation("https://a.org/1", "A\x1b[31m"), Citation("https://b.org", "")
    reply = ev.AssistantMessage((Text("First. ", (one, two)), Text("Second.", (one,)), Text(" End.")))
    words, sources = event_blocks(ev.StoredEvent(1, "a", 1, 0.0, reply))
    assert words.text == "First. Second. End."
    assert sources.speaker is Speaker.SOURCES and sources.sources == (one, two)
    assert sources.text == "[1] A<U+001B>[31m https://a.org/1\n[2] https://b.org"


def test_hosted_calls_are_marked() -> None:
    for event in (ToolCall("c", "search", hosted="v"), ToolResult("c", "found", hosted="v")):
        (block,) = event_blocks(ev.StoredEvent(1, "a", 1, 0.0, event))
        assert block.hosted
    (own,) = event_blocks(ev.StoredEvent(1, "a", 1, 0.0, ToolCall("c", "ls")))
    assert not own.hosted
