"""Tests of the history browser in a terminal: the context rule in it, its keys, and the screen after it."""

import re
import signal
from base64 import b64decode
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import conninfo

from tests.conftest import address
from tests.e2e.account import ECHO, WIRE, Account, Wire
from tests.e2e.program import Program
from tests.e2e.test_context_commands import answer
from tests.e2e.test_repl import first_kept
from tests.terminal.modes import ENTER

CTRL_T = "\x14"


def opened(program: Program, keys: str = CTRL_T) -> None:
    """Open the browser, and wait until it shows something."""
    program.type(keys)
    program.wait(lambda: program.screen.elsewhere and selected(program) != "", "the browser")


def selected(program: Program) -> str:
    """Return the row with the cursor; "" while a frame is being drawn."""
    if program.halfway:
        return ""
    return next((line for line in program.lines() if line.startswith("▌")), "")


def chosen(program: Program, keys: str, wanted: str) -> None:
    """Press keys until the cursor is on a row with `wanted`."""
    for _ in range(40):
        program.wait(lambda: selected(program) != "", "the cursor")
        before = selected(program)
        if wanted in before:
            return
        program.type(keys)
        program.wait(lambda before=before: selected(program) not in ("", before), f"a step on the way to {wanted!r}")
    raise AssertionError(f"no {wanted!r}:\n{program.text()}")


def left(program: Program, keys: str = "q") -> None:
    program.type(keys)
    program.wait(lambda: not program.screen.elsewhere, "the screen")
    program.ready()


def head(program: Program) -> str:
    """Return the first row, which says where the cursor is."""
    return program.lines()[0].strip()


def foot(program: Program) -> str:
    return program.lines()[-1].strip()


def talked(program: Program, account: Account, *texts: str) -> None:
    for text in texts:
        turns = len(account.turns())
        program.say(text)
        program.wait(lambda turns=turns: len(account.turns()) > turns, "the end of the turn")
        program.settled()


def test_context_rule_is_where_the_next_request_begins_and_leaving_restores_the_screen(account: Account, wire: Wire):
    with account.terminal(*WIRE, rows=60, env={"IKIGAI_SLIDING_CONTEXT_TOKENS": "120", "NO_COLOR": "1"}) as program:
        program.ready()
        talked(program, account, *(f"question {n} about things" for n in range(1, 6)))
        program.wait(
            lambda: "─ 3 out, " in program.text() and "3 out · ↑50 ↓25" in program.status(), "the last figures"
        )
        before = program.scrollback()
        opened(program)
        lines = program.lines()
        (at,) = [n for n, line in enumerate(lines) if re.search(r"─ \d turns out · .* ─", line)]
        inside = next(line.strip() for line in lines[at:] if "❯" in line).removeprefix("❯ ")
        assert all(line[1] == " " for line in lines[at + 1 : -2] if line)
        outside = [line for line in lines[1 : at - 1] if "❯" in line or "●" in line]
        assert all(line[1] == "o" for line in outside) and f"─ {len(outside) // 2} turns out" in lines[at]
        program.resize(20, 5)
        program.wait(lambda: len(program.lines()) == 5 and foot(program).startswith("? keys"), "a small browser")
        program.type("g")
        program.wait(lambda: head(program).startswith("#1 "), "the first event")
        program.resize(80, 60)
        program.wait(lambda: foot(program).endswith("q close") and "question 5" in program.text(), "a large one")
        left(program)
        program.wait(lambda: program.scrollback() == before, "the screen as it was")
        talked(program, account, "question 6 about things")
        assert first_kept(wire, 5) == (inside, len(outside) // 2)
        styles = {int(code) for codes in re.findall(rb"\x1b\[([\d;]+)m", program.raw) for code in codes.split(b";")}
        assert styles <= {0, 1, 2, 3, 7}, "colours"
        program.leave()


def test_actions_do_what_they_say(account: Account, tmp_path: Path):
    paged = tmp_path / "paged"
    with account.terminal(*ECHO, env={"PAGER": f"tee {paged}"}) as program:
        program.ready()
        talked(program, account, "the first one", "!seq 60", "the second one", "the third one")
        opened(program, "\x1b\x1b")  # Esc Esc, to rewind
        assert "the third one" in selected(program) and "e edit and resend · r go back" in foot(program)
        program.type("/FIRST\r")
        program.wait(lambda: "the first one" in selected(program), "a hit")
        program.type("n")
        program.wait(lambda: "❯ the first one" in selected(program), "the next one")
        program.type("n")
        program.wait(lambda: "no earlier match" in foot(program), "that there is none")
        program.type("N")
        program.wait(lambda: "● the first one" in selected(program), "the one before")
        program.type("c")
        program.wait(lambda: "Copied" in foot(program), "that it was copied")
        (copied,) = re.findall(rb"\x1b\]52;c;([^\x07]*)\x07", program.raw)
        assert b64decode(copied) == b"the first one"
        program.type("]")
        program.wait(lambda: "seq 60" in selected(program), "the next message")
        program.type(ENTER)
        program.type("]")
        program.wait(lambda: "the second one" in selected(program), "the message behind it")
        program.type("\x1b[A")
        program.wait(lambda: selected(program).endswith("[exit status 0]"), "the last row of what is unfolded")
        program.type("o")
        program.wait(lambda: paged.exists() and paged.read_text().endswith("60\n[exit status 0]\n"), "the pager")
        program.wait(
            lambda: program.screen.elsewhere and selected(program).endswith("[exit status 0]"), "the browser again"
        )

        left(program, "r")
        program.wait_for("Rewound to")
        opened(program)
        chosen(program, "\x1b[A", "❯ the third one")
        assert selected(program)[1] == "r" and "rewound by #" in head(program)
        left(program, "u")
        program.wait_for("Undid the rewind.")
        opened(program, "/rewind\r")  # there is no mark
        assert "e edit and resend" in foot(program)
        chosen(program, "\x1b[A", "❯ the third one")
        assert selected(program)[1] == " " and "in the context" in head(program)
        program.type("x")
        answer(program, "Forget 1 message", "y")
        assert not program.screen.elsewhere
        program.wait_for("Forgot ")
        opened(program)
        chosen(program, "[", "❯ the third one")
        assert "forgotten by #" in head(program)

        with account.terminal(*ECHO) as other:  # read-only, because the first one has the write lock
            other.wait_for("Esc: only watch")
            opened(other)
            chosen(other, "[", "❯ the third one")
            for key in "rxu":
                other.type(key)
                other.wait(lambda key=key: "read-only" in foot(other) or "forgotten already" in foot(other), key)
                other.type("?")
                other.wait(lambda: "a row down" in other.text(), "the help")
                other.type("?")
                other.wait(lambda: "? keys" in foot(other), "the history")
            parent = account.agents()[0]
            chosen(other, "[", "seq 60")
            left(other, "f")
            other.wait(lambda: account.agents()[0] not in other.status() and " ctx " in other.status(), "the child")
            opened(other)
            assert "Forked from" in selected(other) and head(other).endswith(account.agents()[1])
            chosen(other, "[", "seq 60")
            assert head(other).endswith(parent) and all("the second one" not in line for line in other.lines())
            left(other)
            other.type("\x04")
            assert other.ended() == 0
        left(program)
        opened(program)
        chosen(program, "\x1b[A", f"Forks from here: {account.agents()[1]}.")
        left(program)
        program.leave()
    assert [kind for kind, _, _ in account.rows("rewind", "undo", "filter")] == ["rewind", "undo", "filter"]


def test_events_behind_the_browser_are_shown_once(account: Account):
    words = [f"paragraph {n} of it" for n in range(40)]
    pause = {"do": "pause", "seconds": 0.02}
    call = {"do": "call", "name": "shell", "arguments": {"command": "touch x"}}
    model = account.script("an answer", [part for text in words for part in (f"{text}\n\n", pause)], [pause, call])
    with account.terminal(*model, env={"IKIGAI_TOOLS_ENABLED": "true"}) as program:
        program.ready()
        talked(program, account, "first")
        program.say("second")
        program.wait_for("paragraph 1 of")
        opened(program)
        program.wait(lambda: len(account.turns()) == 2, "the end of the turn")
        program.wait(lambda: "paragraph 39 of it" in program.text(), "the reply in the browser")
        left(program, "qtyped ahead")
        program.wait_for_input("typed ahead")
        program.type("\x15")
        program.settled()
        lines = program.scrollback()
        assert [line.strip("● ") for line in lines if "paragraph" in line] == words
        program.type("third\r\x14")
        program.wait(lambda: program.screen.elsewhere and foot(program).endswith("a question waits: q"), "the question")
        program.type("q")
        program.wait(lambda: any("[y] yes" in line for line in program.lines()), "the question itself")
        program.type("\x1b")
        program.wait(lambda: len(account.turns()) == 3, "the end of the turn")
        program.settled()
        opened(program)
        program.process.send_signal(signal.SIGTERM)
        assert program.ended() == 143
        assert not program.screen.elsewhere
        program.assert_restored()
        assert [line.strip("● ") for line in program.scrollback() if "paragraph" in line] == words
    with account.terminal(*model) as program:
        opened(program.ready())
        program.hang_up()
        assert program.process.wait(60) == 129
    assert account.endings() == ["completed"] * 3


@pytest.fixture
def unreachable(account: Account) -> Iterator[Callable[[bool], None]]:
    """Yield a function that takes the database away, and gives it back."""
    name = conninfo.conninfo_to_dict(account.dsn)["dbname"]

    def switch(away: bool) -> None:
        with psycopg.connect(address(account.dsn, dbname="postgres"), autocommit=True) as admin:
            admin.execute(f"alter database {name} allow_connections {not away}".encode())
            if away:
                admin.execute("select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", (name,))

    yield switch
    switch(False)


def test_browser_reports_that_the_database_is_gone(account: Account, unreachable: Callable[[bool], None]):
    with account.terminal(*ECHO) as program:
        talked(program.ready(), account, "hello")
        program.leave()
    with psycopg.connect(account.dsn) as connection:
        connection.execute("""
            insert into messages (event_id, agent_id, seq, kind, content)
            select gen_random_uuid(), agent_id, last + n, 'command', 'command number ' || n
            from (select agent_id, max(seq) as last from messages group by 1) agent, generate_series(1, 2000) n
        """)
    with account.terminal(*ECHO) as program:
        opened(program.ready())
        program.wait(lambda: "command number 2000" in selected(program), "the end")
        unreachable(True)
        program.type("g")
        program.wait(lambda: "database" in foot(program).lower(), "what is wrong")
        assert "command number 2000" in selected(program) and "Traceback" not in program.text()
        unreachable(False)
        program.type("g")
        program.wait(lambda: head(program).startswith("#1 "), "the beginning")
        left(program)
        program.leave()
