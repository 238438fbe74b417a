"""A walk through one conversation, whose stored screens the documentation shows as a picture and as a recording."""

from tests.e2e.account import Account
from tests.e2e.test_screens import TOOLS, answer, asked, call, golden
from tests.support.screens import VARIANTS, Screens

__all__ = ["golden"]

CODE = '''\
def fields(line):
    """Split a line of a list at its commas."""
    return line.split(",")
'''
FIXED = '    return line.rstrip(",").split(",")\n'
EXPLAINED = """\
`fields` split at the **trailing comma**, too, so that the list ended with an empty field.

- A list may now end with a comma: `a, b,` has two fields.
- An empty field in the middle still counts.
"""
FIRST = """\
A *sliding window* of whole turns, the newest that fit your budget.

- When a turn ends, the oldest turns leave. A line across the screen shows where my memory begins.
- Nothing is deleted: `Ctrl+T` shows the whole history, `/search` finds every word of it, and `/recall` answers from it.
- `/forget`, `/rewind` and `/clear` take things out of what I see. `/undo` takes each of them back.
- `/context` shows what the next request holds, and how large each part is.
"""
FILES_ALONE = """\
profile = "tour"
[profiles.tour]
tools_off = ["shell", "web", "memory", "agents", "external"]
sliding_context_tokens = 1600
"""
"""Few tools, so that the figures do not change with each new one."""
HANGING = ["`fields` split at the **trailing comma**, too, so that", {"do": "hang"}]


def test_tour(golden: Account) -> None:
    """Ask, approve an edit, lose the first turn from the window, search, forget, undo, kill, and go on."""
    (golden.home / "parser.py").write_text(CODE)
    golden.configure(FILES_ALONE)
    golden.script(
        FIRST,
        [call("read_file", path="parser.py")],
        [call("edit_file", path="parser.py", old='    return line.split(",")\n', new=FIXED)],
        EXPLAINED,
        HANGING,
    )
    (golden.home / "script.json").rename(golden.home / "talk")
    model = ("-m", "scripted/talk")
    env = {**TOOLS, **VARIANTS["dark"]}
    size = {"columns": 96, "rows": 26}
    with Screens("tour", "dark") as screens:
        with golden.terminal(*model, **size, env=env) as program:
            screens.agrees("01-start", program.ready())
            program.type("What do you remember of a long talk?")
            screens.agrees("02-typed", program)
            program.type("\r")
            program.wait(lambda: len(golden.turns()) == 1, "the end of the turn")
            program.settled()
            screens.agrees("03-answered", program)
            program.type("Why does the list in parser.py end with an empty field? Please fix it.")
            screens.agrees("04-typed", program)
            program.type("\r")
            asked(program, "Make this edit?")
            screens.agrees("05-asked", program)
            answer(program, "y", "Make this edit?")
            program.wait(lambda: len(golden.turns()) == 2, "the end of the turn")
            program.settled()
            screens.agrees("06-fixed", program)
            program.say("/search trailing comma")
            program.settled()
            screens.agrees("07-found", program)
            program.say("/forget last 1")
            program.wait_for("Forget")
            screens.agrees("08-forget", program)
            asked(program, "Forget 8 messages")
            program.type("y")
            program.wait_for("Forgot 8 messages")
            program.settled()
            screens.agrees("09-forgotten", program)
            program.say("/undo")
            program.settled()
            screens.agrees("10-undone", program)
            program.say("And why did nobody see it?")
            program.wait_for("so that")
            screens.agrees("11-streaming", program)
            program.wait(lambda: golden.drafts() == HANGING[:1], "the draft of the reply")
            program.kill()
        with golden.terminal(*model, **size, env=env) as program:
            screens.agrees("12-again", program.ready())
            program.leave()


TALK = {
    "Staging listens on port 4711, behind nginx.": "Noted: staging is on port **4711**, behind nginx.",
    "By the way, my password is hunter2.": "I will not repeat it. `/forget last 1` takes it out of what I see.",
    "Which of our services still run on Python 3.9?": "`billing` and `mailer`. Both pin it in their Dockerfile.",
    "Draft the plan to move them to 3.13.": """\
1. Raise the pin in `mailer`, which has the better tests.
2. Run both versions side by side for a week.
3. Then `billing`, outside of the days on which invoices go out.
""",
    "Why mailer first?": "It is small, and nothing but a queue calls it: a failure waits there, "
    "and no customer sees it.",
}


def test_picture(golden: Account) -> None:
    """The next start: turns that the model no longer sees, one that was forgotten, the rule at its place, the rest."""
    golden.configure('[terminal]\nstatus = ["agent", "context", "out", "database"]\n')
    model = golden.script(*TALK.values(), "Yes.")
    env = {"IKIGAI_SLIDING_CONTEXT_TOKENS": "210", **VARIANTS["dark"]}
    size = {"columns": 96, "rows": 26}
    with Screens("picture", "dark") as screens:
        with golden.terminal(*model, **size, env=env) as program:
            program.ready()
            for number, text in enumerate(TALK, start=1):
                program.say(text)
                program.wait(lambda number=number: len(golden.turns()) == number, "the end of the turn")
                program.settled()
                if number == 2:
                    program.say("/forget last 1")
                    asked(program, "Forget 2 messages (1 turn)")
                    program.type("y")
                    program.wait_for("Forgot 2 messages")
                    program.settled()
            program.leave()
        with golden.terminal(*model, **size, env=env) as program:
            screens.agrees("memory", program.ready())
            program.leave()
