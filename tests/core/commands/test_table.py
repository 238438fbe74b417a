"""The table of commands parses lines, and refuses others in these words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikigai.core.commands import table as commands
from ikigai.core.commands.arguments import parse_budget
from ikigai.core.commands.parsers import Meaning, ProgramCommand, command_line
from ikigai.core.commands.spec import CommandTiming
from ikigai.core.commands.table import COMMANDS, is_command, parse
from ikigai.core.context.forget_selection import EventRange
from ikigai.core.errors import Rejected
from ikigai.core.state.inputs import Change, Clear, Condense, Edit, Forget, Plan, Redo, Retry, RewindTo, SetMark, Undo

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
    ("/edit 45", Edit(45)),
    ("/forget 45", Forget((EventRange(45, 45),), "45")),
    (
        "/forget 45-67, 70,last 3",
        Forget((EventRange(45, 67), EventRange(70, 70), EventRange(newest_turns=3)), "45-67, 70,last 3"),
    ),
    ("/forget 45 – 67", Forget((EventRange(45, 67),), "45 – 67")),
    ("/forget 45-67 and 70", Plan("forget", "45-67 and 70")),
    ("/forget 45,", Plan("forget", "45,")),
    ("/forget the last 3", Plan("forget", "the last 3")),
    ("/forget -5", Plan("forget", "-5")),
    ("/remember the API", Plan("remember", "the API")),
    ("/remember 45-67", Plan("remember", "45-67")),
    ("/model", ProgramCommand("model")),
    ("/model openai/gpt-5-mini", Change({"level": "", "model": "openai/gpt-5-mini"})),
    ("/model openai/gpt-5-mini:high", Change({"model": "openai/gpt-5-mini", "level": "high"})),
    ("/model openrouter/meta/llama:free", Change({"level": "", "model": "openrouter/meta/llama:free"})),
    ("/model x/:high", Change({"level": "", "model": "x/:high"})),
    ("/model default", Change({"model": None, "level": None})),
    ("/system", ProgramCommand("system")),
    ("/system Answer in verse.", Change({"system": "Answer in verse."})),
    ("/system default", Change({"system": None})),
    ("/profile", ProgramCommand("profile")),
    ("/profile fast", Change({"profile": "fast"})),
    ("/profile default", Change({"profile": None})),
    ("/pin", ProgramCommand("pin")),
    ("/pin my notes.md", ProgramCommand("pin", "my notes.md")),
    ("/pin --refresh", ProgramCommand("pin", "--refresh")),
    ("/unpin notes.md", ProgramCommand("unpin", "notes.md")),
    ("/budget", ProgramCommand("budget")),
    ("/budget 200k", Change({"budget": 200_000})),
    ("/budget default", Change({"budget": None})),
    ("/think", ProgramCommand("think")),
    ("/think high", Change({"level": "high"})),
    ("/think off", Change({"level": "off"})),
    ("/think default", Change({"level": None})),
    ("/context", ProgramCommand("context")),
    ("/condense", Condense()),
    ("/condense the paths, and why", Condense("the paths, and why")),
    ("/summary", ProgramCommand("summary")),
    ("/send heron Look again.", ProgramCommand("send", "heron Look again.")),
    ('/send heron "Look again."', ProgramCommand("send", "heron Look again.")),
    ("/recall what was it", ProgramCommand("recall", "what was it")),
    ("/btw what was it", ProgramCommand("btw", "what was it")),
    ("/quote 45", ProgramCommand("quote", "45")),
    ("/wait heron  kite", ProgramCommand("wait", "heron  kite")),
    ("/export my talk.md 3-9", ProgramCommand("export", "my talk.md 3-9")),
    ("/copy", ProgramCommand("copy")),
    ("/copy 2", ProgramCommand("copy", "2")),
    ("/approve edits", ProgramCommand("approve", "edits")),
    ("/mcp restart x", ProgramCommand("mcp", "restart x")),
    ("/skills off pdf", ProgramCommand("skills", "off pdf")),
    ("/trust yes", ProgramCommand("trust", "yes")),
    ("/tools off web", ProgramCommand("tools", "off web")),
    ("/cost", ProgramCommand("cost")),
    ("/limit", ProgramCommand("limit")),
    ("/limit day $2.50", ProgramCommand("limit", "day $2.50")),
    ("/cost --plot", ProgramCommand("cost", "--plot")),
    ('/search  "a  phrase" x*', ProgramCommand("search", '"a  phrase" x*')),
    ("/search #12", ProgramCommand("search", "#12")),
    ("/history", ProgramCommand("history")),
    ("/help", ProgramCommand("help")),
    ("/help mark", ProgramCommand("help", "mark")),
    ("/status", ProgramCommand("status")),
    ("/config", ProgramCommand("config")),
    ("/new", ProgramCommand("new")),
    ("/new side", ProgramCommand("new", "side")),
    ("/switch side", ProgramCommand("switch", "side")),
    ("/fork", ProgramCommand("fork")),
    ('/fork at 5 --name x "two\nlines"', ProgramCommand("fork", 'at 5 --name x "two\nlines"')),
    ("/agents --all", ProgramCommand("agents", "--all")),
    ("/answer", ProgramCommand("answer")),
    ("/rename old new", ProgramCommand("rename", "old new")),
    ("/kill", ProgramCommand("kill")),
    ("/archive side", ProgramCommand("archive", "side")),
    ("/revive side", ProgramCommand("revive", "side")),
    ("/takeover", ProgramCommand("takeover")),
    ("/exit", ProgramCommand("exit")),
    ("/quit", ProgramCommand("exit")),
    ("/keys", ProgramCommand("keys")),
    ("/editor", ProgramCommand("editor")),
    ("/commands", ProgramCommand("commands")),
    ("/login openai", ProgramCommand("login", "openai")),
    ("/doctor --online", ProgramCommand("doctor", "--online")),
    ("/theme light", ProgramCommand("theme", "light")),
    ("/init", ProgramCommand("init")),
    ("/redo", Redo()),
    ("/compact the paths", Condense("the paths")),
    ("/resume side", ProgramCommand("switch", "side")),
    ("/sessions side", ProgramCommand("switch", "side")),
]

REFUSED = [
    ("/claer", "There is no command '/claer'.", "Did you mean /clear?"),
    ("/exi", "There is no command '/exi'.", "/exit"),
    ("/cl", "There is no command '/cl'.", "Did you mean /clear?"),
    ("/mo", "There is no command '/mo'.", "Did you mean /model?"),
    ("/", "Type a command after the slash.", "/help"),
    ("/ help", "A command follows its slash without a space.", "/help"),
    ("/" + "x" * 10_000, f"There is no command '/{'x' * 38}…'.", "/help"),
    ("/xyzzy", "There is no command '/xyzzy'.", "/help"),
    ("/frok", "There is no command '/frok'.", "Did you mean /fork?"),
    ("/qzzj", "There is no command '/qzzj'.", "/help lists them."),  # nothing is written much like it
    ("/revive", "Name an agent; /agents --all lists killed and archived ones.", "Usage: /revive NAME"),
    ("/rename", "Add the new name.", "Usage: /rename [OLD] NEW"),
    ("/rename a b c", "Names have no spaces.", "Usage: /rename [OLD] NEW"),
    ("/kill a b", "/kill takes one agent at a time.", "Usage: /kill [NAME]"),
    ("/send", "Name the agent to send to.", 'Usage: /send NAME "text"'),
    ("/send heron", "Add the text to send.", 'Usage: /send NAME "text"'),
    ("/archive a b", "/archive takes one agent at a time.", "Usage: /archive [NAME]"),
    ("/agents none", "/agents does not take 'none'.", "Usage: /agents [--all]"),
    ("/fork --level low", "/fork has no option --level.", "Usage: /fork [at ID] [--model M[:LEVEL]]"),
    ("/fork --name", "--name needs a value.", "Usage: /fork"),
    ("/fork at noon", "'noon' is not an event id.", "Quote a prompt that begins with `at`. Usage: /fork"),
    ("/CLEAR", "There is no command '/CLEAR'.", "/help"),
    ("/status now", "/status takes no argument.", "Usage: /status"),
    ("/clear all", "/clear takes no argument.", "Usage: /clear"),
    ("/exit now", "/exit takes no argument.", "Usage: /exit"),
    ("/quit now", "/exit takes no argument.", "Usage: /exit"),
    ("/mark " + "x" * 81, "A label has 80 characters at most.", "Usage: /mark [label]"),
    ("/undo it", "'it' is not an event id.", "Usage: /undo [ID]"),
    ("/undo 0", "'0' is not an event id.", "Usage: /undo [ID]"),
    ("/undo " + "9" * 30, f"'{'9' * 30}' is not an event id.", "Usage: /undo [ID]"),
    ("/undo " + "9" * 10_000, f"'{'9' * 39}…' is not an event id.", "Usage: /undo [ID]"),
    ("/forget 1-" + "9" * 10_000, f"'1-{'9' * 37}…' is not an id or a range.", "Usage: /forget"),
    ("/fork at " + "9" * 10_000, f"There is no event {'9' * 20}.", "/search"),
    ("/retry now", "/retry takes no argument.", "Usage: /retry"),
    ("/recall", "Add a question.", "Usage: /recall QUESTION"),
    ("/quote", "Add the id of a message; /search shows ids.", "Usage: /quote ID"),
    ("/unpin", "Which file? /pin lists them.", "Usage: /unpin PATH"),
    ("/export", "Name a file to write to.", "Usage: /export [--force] FILE [FROM-TO]"),
    ("/forget", "Say what to forget.", "45-67, 70, last 3. Usage: /forget CRITERIA|IDS"),
    ("/remember", "Say what to keep.", "Usage: /remember CRITERIA"),
    ("/forget 67-45", "'67-45' is not an id or a range.", "45-67"),
    ("/forget last 0", "'last 0' is not an id or a range.", "last 3"),
    ("/forget " + "9" * 30, f"'{'9' * 30}' is not an id or a range.", "45-67"),
    ("/model gpt", "'gpt' is not a model.", "PROVIDER/NAME"),
    ("/model gpt-5", "'gpt-5' is not a model.", "Did you mean openai/gpt-5?"),
    ("/model claude-x:high", "'claude-x:high' is not a model.", "Did you mean anthropic/claude-x:high?"),
    ("/model gemini-9", "'gemini-9' is not a model.", "Did you mean google/gemini-9?"),
    ("/model gpt-5 mini", "'gpt-5 mini' is not a model.", "PROVIDER/NAME"),
    ("/model gpt-5/", "'gpt-5/' is not a model.", "PROVIDER/NAME"),
    ("/model /gpt", "'/gpt' is not a model.", "PROVIDER/NAME"),
    ("/model openai/", "'openai/' is not a model.", "PROVIDER/NAME"),
    ("/model openai/gpt 5", "'openai/gpt 5' is not a model.", "PROVIDER/NAME"),
    ("/think hard", "'hard' is not a thinking level.", "off, min, low, med, high"),
    ("/think HIGH", "'HIGH' is not a thinking level.", "default. Usage: /think [LEVEL]"),
    ("/search", "Add the words to search for.", "Usage: /search QUERY | #ID"),
    ("/summary 3", "/summary takes no argument.", "Usage: /summary"),
    ("/cost all", "/cost does not take 'all'.", "Usage: /cost [--plot]"),
    ("/budget lots", "'lots' is not a token count.", "100k"),
    ("/budget -5", "'-5' is not a token count.", "100k"),
]


@pytest.mark.parametrize(("line", "meaning"), MEANINGS, ids=lambda cell: cell if isinstance(cell, str) else "")
def test_meaning(line: str, meaning: Meaning) -> None:
    assert is_command(line.rstrip()) and parse(line) == meaning


@pytest.mark.parametrize(("line", "what", "remedy"), REFUSED, ids=lambda cell: cell[:20])
def test_refusal(line: str, what: str, remedy: str) -> None:
    with pytest.raises(Rejected) as refused:
        parse(line)
    assert refused.value.what == what and remedy in refused.value.remedy
    if command := commands.BY_NAME.get(line.split()[0][1:]):
        assert refused.value.remedy.endswith(command.usage)


def test_own_command_is_a_line_of_its_own_unless_the_program_has_that_name() -> None:
    assert parse("/review\ta b", {"review", "clear"}.__contains__) == ProgramCommand("commands", "/review\ta b")
    assert parse("/clear", {"review", "clear"}.__contains__) == Clear()
    with pytest.raises(Rejected, match="There is no command '/revw'"):
        parse("/revw", {"review"}.__contains__)


def test_every_command_of_the_table_is_tried_here() -> None:
    tried = {line.split()[0][1:] for line, _ in MEANINGS}
    assert tried == {*commands.BY_NAME}
    assert len(commands.BY_NAME) == len(COMMANDS) + sum(len(command.aliases) for command in COMMANDS)


def test_input_to_the_agent_is_never_also_a_command_of_the_program() -> None:
    for line, meaning in MEANINGS:
        if isinstance(meaning, ProgramCommand):
            assert commands.BY_NAME[meaning.name].timing is not CommandTiming.AGENT, line
            assert commands.BY_NAME[meaning.name].name == meaning.name, "not an alias"


TYPED = [line for line, meaning in MEANINGS if not isinstance(meaning, ProgramCommand)]


@pytest.mark.parametrize("line", [line for line in TYPED if not line.startswith("/model")])
def test_what_was_typed_can_be_told_again(line: str) -> None:
    meaning = parse(line)
    assert not isinstance(meaning, ProgramCommand) and parse(command_line(meaning)) == meaning


@given(st.text(max_size=20))
def test_any_line_has_a_meaning_or_a_refusal(text: str) -> None:
    for line in ("/" + text, f"/budget {text}", f"/model {text}", f"/think {text}", f"/undo {text}", f"/forget {text}"):
        try:
            parse(line)
        except Rejected as refusal:
            assert refusal.what and refusal.remedy


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/clear", True),
        ("/nonsense", True),
        ("/mark a/b", True),
        ("/model openai/gpt", True),
        ("/usr/bin/python fails", False),
        ("/ clear", True),
        ("/ is the root.\nIs it?", False),
        ("//", False),
        ("/", True),
        ("", False),
        ("/2", False),
        (" /clear", False),
        ("clear", False),
        ("/clear\nand more", False),
        ("/system two\nlines", True),
        ("/nonsense two\nlines", False),
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
    assert parse_budget(text) == tokens


NO_NUMBERS = ["k", "-1", "+1", "1e5", "nan", "inf", "1_000", "١٢", "²", "1,5k", "1.k", ".5k", "1kk", "0x10"]
TOO_FINE_OR_TOO_MUCH = ["1.5", "0.0001k", "1000.001m", "1001m", "9" * 99]


@pytest.mark.parametrize("text", ["", "1 k", "5\n", *NO_NUMBERS, *TOO_FINE_OR_TOO_MUCH])
def test_no_budget(text: str) -> None:
    with pytest.raises(Rejected, match="is not a token count"):
        parse_budget(text)


@given(st.integers(0, 1_000_000_000))
def test_budget_in_thousands_is_exact(tokens: int) -> None:
    assert parse_budget(f"{tokens // 1000}.{tokens % 1000:03}k") == tokens
