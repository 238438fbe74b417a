"""What can be typed: the table of commands, with what is refused and what is said then."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikigai.core.commands import table as commands
from ikigai.core.commands.arguments import budget
from ikigai.core.commands.parsers import Local, Meaning, typed
from ikigai.core.commands.table import COMMANDS, help_text, is_command, parse
from ikigai.core.errors import Refused
from ikigai.core.forget.selection import Wanted
from ikigai.core.state.inputs import Change, Clear, Condense, Edit, Forget, Plan, Retry, RewindTo, SetMark, Undo

MEANINGS: list[tuple[str, Meaning]] = [
    ("/clear", Clear()),
    ("/clear  ", Clear()),
    ("/mark", SetMark("")),
    ("/mark before the mess", SetMark("before the mess")),
    ("/mark\tx", SetMark("x")),
    ("/mark  two  words ", SetMark("two  words")),
    ("/rewind", RewindTo("")),
    ("/rewind before the mess", RewindTo("before the mess")),
    ("/rewind 45", RewindTo("45")),
    ("/undo", Undo()),
    ("/undo 45", Undo(45)),
    ("/retry", Retry()),
    ("/edit", Edit()),
    ("/forget 45", Forget((Wanted(45, 45),), "45")),
    ("/forget 45-67, 70,last 3", Forget((Wanted(45, 67), Wanted(70, 70), Wanted(back=3)), "45-67, 70,last 3")),
    ("/forget 45 – 67", Forget((Wanted(45, 67),), "45 – 67")),
    ("/forget 45-67 and 70", Plan("forget", "45-67 and 70")),
    ("/forget 45,", Plan("forget", "45,")),
    ("/forget the last 3", Plan("forget", "the last 3")),
    ("/forget -5", Plan("forget", "-5")),
    ("/remember the API", Plan("remember", "the API")),
    ("/remember 45-67", Plan("remember", "45-67")),
    ("/model", Local("model")),
    ("/model openai/gpt-5-mini", Change({"level": "", "model": "openai/gpt-5-mini"})),
    ("/model openai/gpt-5-mini:high", Change({"model": "openai/gpt-5-mini", "level": "high"})),
    ("/model openrouter/meta/llama:free", Change({"level": "", "model": "openrouter/meta/llama:free"})),
    ("/model x/:high", Change({"level": "", "model": "x/:high"})),
    ("/model default", Change({"model": None, "level": None})),
    ("/system", Local("system")),
    ("/system Answer in verse.", Change({"system": "Answer in verse."})),
    ("/system default", Change({"system": None})),
    ("/profile", Local("profile")),
    ("/profile fast", Change({"profile": "fast"})),
    ("/profile default", Change({"profile": None})),
    ("/pin", Local("pin")),
    ("/pin my notes.md", Local("pin", "my notes.md")),
    ("/pin --refresh", Local("pin", "--refresh")),
    ("/unpin notes.md", Local("unpin", "notes.md")),
    ("/budget", Local("context")),
    ("/budget 200k", Change({"budget": 200_000})),
    ("/budget default", Change({"budget": None})),
    ("/think", Local("think")),
    ("/think high", Change({"level": "high"})),
    ("/think off", Change({"level": "off"})),
    ("/think default", Change({"level": None})),
    ("/context", Local("context")),
    ("/condense", Condense()),
    ("/condense the paths, and why", Condense("the paths, and why")),
    ("/summary", Local("summary")),
    ("/send heron Look again.", Local("send", "heron Look again.")),
    ('/send heron "Look again."', Local("send", "heron Look again.")),
    ("/recall what was it", Local("recall", "what was it")),
    ("/quote 45", Local("quote", "45")),
    ("/wait heron  kite", Local("wait", "heron  kite")),
    ("/export my talk.md 3-9", Local("export", "my talk.md 3-9")),
    ("/copy", Local("copy")),
    ("/copy 2", Local("copy", "2")),
    ("/approve edits", Local("approve", "edits")),
    ("/trust yes", Local("trust", "yes")),
    ("/tools off web", Local("tools", "off web")),
    ("/cost", Local("cost")),
    ("/cost --plot a b.png", Local("cost", "--plot a b.png")),
    ('/search  "a  phrase" x*', Local("search", '"a  phrase" x*')),
    ("/search #12", Local("search", "#12")),
    ("/history", Local("history")),
    ("/help", Local("help")),
    ("/help mark", Local("help", "mark")),
    ("/status", Local("status")),
    ("/config", Local("config")),
    ("/new", Local("new")),
    ("/new side", Local("new", "side")),
    ("/switch side", Local("switch", "side")),
    ("/fork", Local("fork")),
    ('/fork at 5 --name x "two\nlines"', Local("fork", 'at 5 --name x "two\nlines"')),
    ("/agents --all", Local("agents", "--all")),
    ("/answer", Local("answer")),
    ("/rename old new", Local("rename", "old new")),
    ("/kill", Local("kill")),
    ("/revive side", Local("revive", "side")),
    ("/takeover", Local("takeover")),
    ("/exit", Local("exit")),
    ("/quit", Local("exit")),
]

REFUSED = [
    ("/claer", "There is no command /claer.", "Did you mean /clear?"),
    ("/exi", "There is no command /exi.", "/exit"),
    ("/cl", "There is no command /cl.", "Did you mean /clear?"),
    ("/mo", "There is no command /mo.", "Did you mean /model?"),
    ("/", "There is no command /.", "/help"),
    ("/xyzzy", "There is no command /xyzzy.", "/help"),
    ("/frok", "There is no command /frok.", "Did you mean /fork?"),
    ("/qzzj", "There is no command /qzzj.", "/help lists them."),  # nothing is written much like it
    ("/revive", "Which agent?", "Write it behind /revive."),
    ("/CLEAR", "There is no command /CLEAR.", "/help"),
    ("/clear all", "/clear takes no argument.", "/clear alone"),
    ("/exit now", "/exit takes no argument.", "/exit alone"),
    ("/quit now", "/exit takes no argument.", "/exit alone"),
    ("/mark " + "x" * 81, "A label has 80 characters at most.", "shorter"),
    ("/undo it", "'it' is no id of an event.", "/undo alone"),
    ("/undo 0", "'0' is no id of an event.", "/undo alone"),
    ("/undo " + "9" * 30, f"'{'9' * 30}' is no id of an event.", "/undo alone"),
    ("/retry now", "/retry takes no argument.", "/retry alone"),
    ("/recall", "What do you want to know?", "/recall"),
    ("/quote", "Which message?", "/quote"),
    ("/unpin", "Which file?", "/unpin"),
    ("/export", "Where to?", "/export"),
    ("/forget", "What to forget?", "45-67, 70, last 3"),
    ("/remember", "What to remember?", "criteria in words"),
    ("/forget 67-45", "'67-45' names nothing.", "45-67"),
    ("/forget last 0", "'last 0' names nothing.", "last 3"),
    ("/forget " + "9" * 30, f"'{'9' * 30}' names nothing.", "45-67"),
    ("/model gpt", "'gpt' is no model.", "PROVIDER/NAME"),
    ("/model gpt-5", "'gpt-5' is no model.", "Did you mean openai/gpt-5?"),
    ("/model claude-x:high", "'claude-x:high' is no model.", "Did you mean anthropic/claude-x:high?"),
    ("/model gemini-9", "'gemini-9' is no model.", "Did you mean google/gemini-9?"),
    ("/model gpt-5 mini", "'gpt-5 mini' is no model.", "PROVIDER/NAME"),
    ("/model gpt-5/", "'gpt-5/' is no model.", "PROVIDER/NAME"),
    ("/model /gpt", "'/gpt' is no model.", "PROVIDER/NAME"),
    ("/model openai/", "'openai/' is no model.", "PROVIDER/NAME"),
    ("/model openai/gpt 5", "'openai/gpt 5' is no model.", "PROVIDER/NAME"),
    ("/think hard", "'hard' is no thinking level.", "off, min, low, med, high"),
    ("/think HIGH", "'HIGH' is no thinking level.", "'default'"),
    ("/search", "There is nothing to search for.", "#ID"),
    ("/summary 3", "/summary takes no argument.", "/summary alone"),
    ("/cost all", "/cost takes nothing but --plot.", "/cost --plot FILE.png"),
    ("/budget lots", "'lots' is no budget.", "100k"),
    ("/budget -5", "'-5' is no budget.", "100k"),
]


@pytest.mark.parametrize(("line", "meaning"), MEANINGS, ids=lambda cell: cell if isinstance(cell, str) else "")
def test_meaning(line: str, meaning: Meaning) -> None:
    assert is_command(line.rstrip()) and parse(line) == meaning


@pytest.mark.parametrize(("line", "what", "remedy"), REFUSED, ids=lambda cell: cell[:20])
def test_refusal(line: str, what: str, remedy: str) -> None:
    with pytest.raises(Refused) as refused:
        parse(line)
    assert refused.value.what == what and remedy in refused.value.remedy


def test_every_command_of_the_table_is_tried_here() -> None:
    tried = {line.split()[0][1:] for line, _ in MEANINGS}
    assert tried == {*commands.BY_NAME}
    assert len(commands.BY_NAME) == len(COMMANDS) + sum(len(command.aliases) for command in COMMANDS)


TYPED = [line for line, meaning in MEANINGS if not isinstance(meaning, Local)]


@pytest.mark.parametrize("line", [line for line in TYPED if not line.startswith("/model")])
def test_what_was_typed_can_be_told_again(line: str) -> None:
    meaning = parse(line)
    assert not isinstance(meaning, Local) and parse(typed(meaning)) == meaning


@given(st.text(max_size=20))
def test_any_line_has_a_meaning_or_a_refusal(text: str) -> None:
    for line in ("/" + text, f"/budget {text}", f"/model {text}", f"/think {text}", f"/undo {text}", f"/forget {text}"):
        try:
            parse(line)
        except Refused as refusal:
            assert refusal.what and refusal.remedy


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/clear", True),
        ("/nonsense", True),
        ("/mark a/b", True),
        ("/model openai/gpt", True),
        ("/usr/bin/python fails", False),
        ("/ clear", False),
        ("//", False),
        ("/", False),
        ("", False),
        ("/2", False),
        (" /clear", False),
        ("clear", False),
        ("/clear\nand more", False),
    ],
)
def test_what_is_a_command(text: str, expected: bool) -> None:
    assert is_command(text) is expected


BUDGETS = {
    "0": 0,
    "7": 7,
    "200000": 200_000,
    "200k": 200_000,
    "200K": 200_000,
    "1.5M": 1_500_000,
    "1.001k": 1_001,
    "0.5k": 500,
    "2.0": 2,
    "0.000001m": 1,
    "1000m": 1_000_000_000,
    "default": None,
}


@pytest.mark.parametrize(("text", "tokens"), BUDGETS.items())
def test_budget(text: str, tokens: int | None) -> None:
    assert budget(text) == tokens


NO_NUMBERS = ["k", "-1", "+1", "1e5", "nan", "inf", "1_000", "١٢", "²", "1,5k", "1.k", ".5k", "1kk", "0x10"]
TOO_FINE_OR_TOO_MUCH = ["1.5", "0.0001k", "1000.001m", "1001m", "9" * 99]


@pytest.mark.parametrize("text", ["", "1 k", "5\n", *NO_NUMBERS, *TOO_FINE_OR_TOO_MUCH])
def test_no_budget(text: str) -> None:
    with pytest.raises(Refused, match="is no budget"):
        budget(text)


@given(st.integers(0, 1_000_000_000))
def test_a_budget_in_thousands_is_exact(tokens: int) -> None:
    assert budget(f"{tokens // 1000}.{tokens % 1000:03}k") == tokens


def test_help_names_every_command_and_fits_the_screen() -> None:
    lines = help_text().splitlines()
    assert [line.split()[0] for line in lines] == [f"/{command.name}" for command in COMMANDS]
    assert max(map(len, lines)) <= 100
    assert help_text("exit") == help_text("/quit") == "/exit: leave; the conversation stays (also /quit)"
    assert "level that you chose stays if the new model has it" in help_text("model")
    assert help_text("mark") == "/mark [label]: remember this place"
    with pytest.raises(Refused, match="There is no command /nonsense"):
        help_text("nonsense")
