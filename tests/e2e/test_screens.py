"""Tests of the program's screens in each of its states against stored ones: see `tests.support.screens`."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.e2e.account import Account, Wire
from tests.e2e.program import Program
from tests.e2e.test_login import LIST
from tests.e2e.test_tools import TOOLS, answer, asked, call, shell
from tests.support.screens import FOLDER, VARIANTS, Screens
from tests.support.wire_server import failure

HANG = {"do": "hang"}
DOCUMENT = """\
# Windows

A **sliding window** keeps *whole turns*: `/context` shows it.

| part | tokens |
|---|---:|
| system | 120 |
| history | 42,100 |

1. the newest turn stays
   - also when it is long
2. the oldest goes first

```python
def fits(turns, budget):  # newest first
    return sum(turn.size for turn in turns) <= budget
```

> See [the notes](https://example.com/notes) for more.
"""
WIDE = "漢字は二つの幅を持つ 👩‍💻 と 🏳️‍🌈。árvíztűrő tükörfúrógép — नमस्ते\n\n| 名前 | 値 |\n|---|---|\n| 猫 | 🐈 |\n"


@pytest.fixture
def golden(dsn: str) -> Iterator[Account]:
    """Yield a user of the agent amber-fox, whose home has a name of the same length in every run."""
    with tempfile.TemporaryDirectory(prefix="golden-", dir="/tmp") as home:
        with psycopg.connect(dsn) as connection:
            made = "insert into agents (id, name, directory) values (gen_random_uuid(), 'amber-fox', %s) returning id"
            ((agent,),) = connection.execute(made, (home,)).fetchall()
            used = "insert into agent_uses (role, agent_id) values (session_user, %s)"
            connection.execute(used, (agent,))  # else it is nobody's last one
        yield Account(Path(home), dsn)


def clear(program: Program) -> None:
    program.type("\x15")
    program.wait_for_input("")


@pytest.mark.ordinary("dark")
@pytest.mark.parametrize("variant", VARIANTS)
def test_first_ten_minutes_follow_the_readme(golden: Account, variant: str):
    """As the tutorial tells them: no model, the first talk, keys and commands of every day, and the next day."""
    with Screens("first", variant) as screens:
        with golden.terminal(env=VARIANTS[variant]) as program:
            screens.agrees("no-model", program.ready())
            program.type("\x04")
            assert program.ended() == 0
        think = {"do": "think", "text": "Somebody asks for a table.\n\nAnd a list."}
        model = golden.script(["## Half\n\n- one\n- two\n\nand **then** so", HANG], [think, DOCUMENT], [HANG], "Done.")
        with golden.terminal(*model, module="tests.e2e.patient", env=VARIANTS[variant]) as program:
            talk(program.ready(), screens)
            look_around(program, screens)
            program.type("\x03")
            screens.agrees("leaving", program)
            program.type("\x03")
            assert program.ended() == 0
            program.assert_restored()
            screens.agrees("left", program)
        with golden.terminal(*model, env=VARIANTS[variant]) as program:
            screens.agrees("next-day", program.ready())
            program.leave()
    assert golden.endings() == ["interrupted", "completed", "interrupted", "completed"]


def talk(program: Program, screens: Screens) -> None:
    screens.agrees("start", program)
    program.type("How does the window\nwork?")
    screens.agrees("two-lines", program)
    program.type("\r")
    screens.agrees("streaming", program)
    program.type("\x1b")
    screens.agrees("stopped", program)
    program.say("Show me all of it.")
    screens.agrees("answer", program)
    program.settled()
    program.say("And now?")
    program.wait(lambda: "Waiting for the model" in program.text(), "the turn")
    program.say("One more thing.")
    screens.agrees("queued", program)
    program.type("\x1b")
    screens.agrees("given-back", program)
    program.type("\r")
    program.wait_for("● Done.")
    program.settled()


def look_around(program: Program, screens: Screens) -> None:
    for state, typed in (("menu", "/"), ("menu-narrowed", "con"), ("menu-chosen", "\t")):
        program.type(typed)
        screens.agrees(state, program)
    clear(program)
    program.say("/context")
    screens.agrees("context", program)
    program.type("/nonsense\r")
    screens.agrees("unknown-command", program)
    clear(program)
    program.type("\x12all")
    program.wait(lambda: "· just now" in program.text() or " min ago" in program.text(), "when it was sent")
    screens.agrees("search-prompts", program)
    program.type("\x1b")
    program.wait_for_input("")
    for state, typed in (
        ("browser", "\x14"),
        ("browser-query", "/window"),
        ("browser-hit", "\r"),
        ("browser-keys", "?"),
    ):
        program.type(typed)
        screens.agrees(state, program)
    program.type("qq")
    program.ready()
    screens.agrees("browser-left", program)


@pytest.mark.ordinary("dark")
@pytest.mark.parametrize("variant", VARIANTS)
def test_tools(golden: Account, variant: str):
    (golden.home / "a.txt").write_text("".join(f"line {number}\n" for number in range(9)))
    model = golden.script(
        ["I look first.", call("read_file", path="a.txt")],
        [call("edit_file", path="a.txt", old="line 3\n", new="LINE 3\n")],
        [shell("echo one >> log"), shell("echo 'two\u202e' >> log"), shell("rm -r nothing")],
        "All done.",
        [shell("seq 3; sleep 60")],
    )
    env = {**TOOLS, **VARIANTS[variant]}
    with Screens("tools", variant) as screens, golden.terminal(*model, env=env) as program:
        program.ready().say("Go.")
        asked(program, "Make this edit?")
        screens.agrees("edit", program)
        answer(program, "y", "Make this edit?")
        asked(program, "1 of 3 · Run it?")
        screens.agrees("several", program)
        program.type("t")
        asked(program, "Run all 3?")
        screens.agrees("together", program)
        program.type("n")
        program.wait_for("● All done.")
        screens.agrees("refused", program)
        program.settled()
        program.say("Run.")
        answer(program, "y", "Run it?")
        screens.agrees("running", program)
        program.type("\x1b")
        program.settled()
        program.say("/approve auto")
        screens.agrees("mode", program)
        program.leave()


QUESTIONS = {"wide": (80, 24), "small": (40, 12)}


@pytest.mark.ordinary("small")
@pytest.mark.parametrize("size", QUESTIONS)
def test_questions(golden: Account, size: str):
    """A question with all its choices, one of which is a rule for later, and messages that wait meanwhile."""
    columns, rows = QUESTIONS[size]
    (work := golden.home / "work").mkdir()
    ls = [shell("ls -l"), shell("echo one >> log"), shell("ls -l .")]
    model = golden.script(ls, "All done.", "This, too.")
    with (
        Screens(f"questions-{size}") as screens,
        golden.terminal(*model, columns=columns, rows=rows, env=TOOLS, cwd=work) as program,
    ):
        program.ready().say("Go.")
        asked(program, "1 of 3 · Run it?")
        screens.agrees("choices", program)
        program.say("And then this.")
        screens.agrees("queued", program)
        program.type("p")
        asked(program, "Always run commands of this")
        screens.agrees("rule", program)
        program.type("y")
        asked(program, "2 of 3 · Run it?")
        program.type("n")
        program.wait_for("● This, too.")
        program.settled()
        assert "← you said no\n" in program.text()
        program.leave()


CONTRAST = {name: {"IKIGAI_TERMINAL_THEME": name} for name in ("dark-high-contrast", "light-high-contrast")}


@pytest.mark.ordinary("dark-high-contrast")
@pytest.mark.parametrize("variant", CONTRAST)
def test_high_contrast(golden: Account, variant: str):
    """The two themes for eyes that need more, where there is most to tell apart."""
    (golden.home / "a.txt").write_text("one\ntwo\nthree\n")
    model = golden.script(
        [{"do": "think", "text": "Somebody asks for a table."}, DOCUMENT],
        [call("read_file", path="a.txt")],
        [call("edit_file", path="a.txt", old="two\n", new="2\n")],
        "Left as it was.",
    )
    env = {**TOOLS, **CONTRAST[variant]}
    with Screens("contrast", variant) as screens, golden.terminal(*model, env=env) as program:
        program.ready().say("Show me all of it.")
        program.settled()
        screens.agrees("answer", program)
        program.say("Go.")
        asked(program, "Make this edit?")
        screens.agrees("edit", program)
        answer(program, "n", "Make this edit?")
        program.wait_for("● Left as it was.")
        program.settled()
        program.say("/context")
        screens.agrees("context", program)
        program.type("/")
        screens.agrees("menu", program)
        program.type("\x03")
        program.leave()


def test_login(golden: Account, wire: Wire):
    """One key is refused and one works; neither is shown."""
    wire.answers(failure(401, "no such key"), LIST)
    env = {"OPENAI_BASE_URL": wire.server.base_url}
    with Screens("login") as screens:
        for state, key in (("refused", "sk-canary-wrong"), ("stored", "sk-canary-right")):
            with golden.terminal("login", "openai", env=env) as program:
                program.wait_for("Key for openai (hidden):")
                if state == "refused":
                    screens.agrees("asked", program)
                program.type(f"{key}\r")
                assert program.ended() == (0 if state == "stored" else 1)
                screens.agrees(state, program)
                program.assert_restored()


SIZES = {"rule": (80, 24), "narrow": (40, 24), "tiny": (20, 5), "huge": (300, 100)}


def test_sizes(golden: Account):
    """A talk that has lost its beginning, drawn again in terminals of all sizes and without colors."""
    model = golden.script("First.", WIDE, DOCUMENT)
    env = {"IKIGAI_SLIDING_CONTEXT_TOKENS": "220"}
    with Screens("sizes", "dark") as screens:
        with golden.terminal(*model, env=env) as program:
            program.ready()
            for number, text in enumerate(("What was first?", "漢字 and 👩‍💻?", "Show me a document."), start=1):
                program.say(text)
                program.wait(lambda number=number: len(golden.turns()) == number, "the end of the turn")
                program.settled()
                if number == 2:
                    screens.agrees("wide", program)
            screens.agrees("slid", program)
            program.leave()
        for state, (columns, rows) in SIZES.items():
            with golden.terminal(*model, columns=columns, rows=rows, env=env) as program:
                screens.agrees(state, program.ready())
                program.type("\x14")
                screens.agrees(f"{state}-browser", program)
                program.type("q")
                program.wait(lambda program=program: not program.screen.elsewhere, "the screen")
                program.type("\x04")
                assert program.ended() == 0
                program.assert_restored()
        with golden.terminal(*model, env={**env, "NO_COLOR": "1"}) as program:
            screens.agrees("no-color", program.ready())
            program.type("\x04")
            assert program.ended() == 0


def test_recalled_turns(golden: Account):
    """A turn that left the window is suggested in a pause, in terminals of all sizes; Tab adds its excerpts."""
    fact, question = "The quokka service listens on port 4711.", "Which port does the quokka service listen on?"
    model, budget = golden.script(*["Noted."] * 8), {"IKIGAI_SLIDING_CONTEXT_TOKENS": "220"}
    filler = [f"Filler {n}: nothing of note was said here today, as on the days before." for n in range(5)]
    with (
        Screens("recall", "dark") as screens,
        golden.terminal(*model, env=budget) as program,
    ):
        program.ready()
        for number, text in enumerate((fact, *filler), start=1):
            program.say(text)
            program.wait(lambda number=number: len(golden.turns()) == number, "the end of the turn")
            program.settled()
        program.wait(lambda: indexed(golden) == 12, "the index")
        for unclear in ("q", "the of and", "!quokka service", "🦉🦉🦉", "/undo 1"):
            program.type(unclear)
            program.wait(lambda unclear=unclear: unclear in program.text(), "the echo")
            program.pass_time(0.5)
            assert "earlier turn" not in program.text()
            clear(program)
        program.type(question)
        program.wait(lambda: "Tab adds" in program.status(), "the suggestion")
        screens.agrees("suggested", program)
        program.type(" zeppelin airship hangar balloon")
        program.wait(lambda: "earlier turn" not in program.text(), "the end of the suggestion")
        clear(program)
        program.leave()
        for columns, rows in ((40, 12), (20, 5), (80, 24)):
            with golden.terminal(*model, env=budget, columns=columns, rows=rows) as program:
                program.ready().type(question)
                program.wait(lambda program=program: "Tab adds" in program.status(), "the suggestion")
                if rows == 24:
                    program.type("\t")
                    screens.agrees("added", program)
                    program.type("\r")
                    program.wait(lambda: len(golden.turns()) == 7, "the end of the turn")
                    program.settled()
                elif rows == 12:
                    screens.agrees("suggested-narrow", program)
                    clear(program)
                else:
                    clear(program)
                program.leave()
    sent = golden.said("user")[-1]
    assert sent.startswith(f"{question}\n\n[excerpts of earlier turns") and fact in sent and not golden.said("recall")


def indexed(account: Account) -> int:
    """Return the number of messages in the index of recall."""
    with psycopg.connect(account.dsn) as connection:
        ((count,),) = connection.execute("select coalesce(max(last) + 1, 0) from ikigai.search_documents").fetchall()
    return count


HELP_SIZES = {"usual": (80, 24), "narrow": (40, 12), "tiny": (20, 5)}
HELP_VARIANTS: dict[str, dict[str, str]] = {
    "no-color": {"NO_COLOR": "1"},
    "dumb": {"TERM": "dumb"},
    "reader": {"IKIGAI_TERMINAL_SCREEN_READER": "true"},
}


def test_help_inside(golden: Account):
    """The first screen, keys, help and menu of an agent without a conversation; later starts do not show the first."""
    model = golden.script("Hello.")
    with Screens("help") as screens:
        for state, (columns, rows) in HELP_SIZES.items():
            with golden.terminal("--new", *model, columns=columns, rows=rows) as program:
                screens.agrees(f"{state}-first", program.ready())
                program.type("/")
                screens.agrees(f"{state}-menu", program)
                clear(program)
                for name, typed in (("keys", "?"), ("help", "/help\r"), ("command", "/help send\r")):
                    program.type(typed)
                    screens.agrees(f"{state}-{name}", program)
                program.type("\x04")
                assert program.ended() == 0
        for state, env in HELP_VARIANTS.items():
            with golden.terminal("--new", *model, env=env) as program:
                program.wait_for("/exit leaves")
                screens.agrees(f"{state}-first", program)
                program.type("\x04")
                assert program.ended() == 0
        with golden.terminal(*model) as program:
            program.ready().say("Hi.")
            program.settled()
            screens.agrees("first-message", program)
            program.leave()
        with golden.terminal(*model) as program:
            screens.agrees("later", program.ready())
            program.leave()


MODELS = """\
model = "scripted/echo"
favorite_models = ["mine/large:high"]
[providers.mine]
base_url = "http://127.0.0.1:1/v1"
[models."mine/large"]
context = 200000
input_price = 1.5
output_price = 6
[models."mine/small"]
context = 32000
"""


def test_pickers(golden: Account):
    """The lists of agents and models: all of them, filtered, and after a choice that is refused."""
    golden.configure(MODELS)
    with Screens("pickers") as screens:
        with golden.terminal() as program:
            for words in ("Words about owls.", "Words about foxes."):
                program.ready().say(words)
                program.wait_for(f"● {words}")
                program.settled()
                seen = program.text().count("? keys · /help commands")
                program.say("/new")
                program.wait(lambda n=seen: program.text().count("? keys · /help commands") > n, "the new agent")
            program.leave()
        for state in ("usual", "narrow"):
            columns, rows = HELP_SIZES[state]
            with golden.terminal("-r", columns=columns, rows=rows) as program:
                screens.agrees(f"{state}-agents", program)
                program.type("owls")
                screens.agrees(f"{state}-agents-found", program)
                program.type("\r")
                program.ready().say("/model")
                screens.agrees(f"{state}-models", program)
                program.type("nosuch/model\r")
                screens.agrees(f"{state}-model-refused", program)
                program.type("\x1b")
                program.ready().leave()


def test_every_stored_screen_is_of_a_walk():
    one_each = {"contrast", "first", "help", "login", "pickers", "picture", "recall", "setup", "sizes", "tools", "tour"}
    walks = one_each | {f"questions-{size}" for size in QUESTIONS}
    assert {folder.name for folder in FOLDER.iterdir()} == walks
