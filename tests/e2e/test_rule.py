"""Tests of the context rule where terminals differ, and after the user has moved it."""

import re

import psycopg
import pytest
from wcwidth import wcswidth

from tests.e2e.account import WIRE, Account, Wire
from tests.e2e.program import Program
from tests.e2e.test_window import asked, drawn

BUDGET = {"IKIGAI_SLIDING_CONTEXT_TOKENS": "400"}
WIDE = "漢字は幅が二つ 🦉 árvíztűrő e\u0301"
COLOURS = (*range(30, 50), *range(90, 108))


def turn(program: Program, account: Account, text: str) -> None:
    """Send a message, and wait until nothing of its turn is under way."""
    turns, end = len(account.turns()), "".join(text.split())[-9:]
    program.type(text)
    program.wait(lambda: program.input().replace(" ", "").endswith(end), f"{text!r} in the input")
    program.type("\r")
    program.wait(lambda: len(account.turns()) == turns + 1, "the end of the turn")
    program.settled()


def asked_first(account: Account, words: str) -> int:
    """Return the id of the message that begins with these words."""
    with psycopg.connect(account.dsn) as connection:
        rows = connection.execute("select id from messages where kind = 'user' and starts_with(content, %s)", [words])
        ((id,),) = rows.fetchall()
    return id


def rules(program: Program) -> list[int]:
    """Return the rows of the scrollback that are rules."""
    return [n for n, line in enumerate(program.scrollback()) if re.match(r"─+( .* ─+)?$", line)]


def looks_right(program: Program, columns: int) -> list[str]:
    """Check that every rule is a row from edge to edge, labeled in its middle, between blank rows; return the
    labels.
    """
    lines, labels = program.scrollback(), list[str]()
    for at in rules(program):
        assert wcswidth(lines[at]) == columns, lines[at]
        assert lines[at - 1] == lines[at + 1] == "", lines[at - 2 : at + 3]
        left, label, right = re.fullmatch(r"(─+) (.*) (─+)", lines[at]).groups()  # type: ignore[union-attr]
        assert 0 <= len(right) - len(left) <= 1, lines[at]
        labels.append(label)
    return labels


@pytest.mark.ordinary("cut")
@pytest.mark.parametrize(
    ("columns", "words", "told", "again"),
    [
        (40, "plain words", r"\d out, \d now \(\d+ → \d+\)", r"\d turns? out"),
        (40, WIDE, r"\d out, \d now \(\d+ → \d+\)", r"\d turns? out"),
        (60, WIDE, r'\d out, \d now \(\d+ → \d+\) · "漢字は幅が二つ 🦉 á.*"', r'\d turns? out · .*: "漢字は幅が.*"'),
        (110, WIDE, r'\d turns? out, .* begins: "漢字.* q\d word w…"', r'\d turns? out · .*: "漢字.* q\d word.*…"'),
    ],
    ids=["narrow", "narrow and wide", "cut", "whole"],
)
def test_context_rule_is_readable_without_colors(
    account: Account, wire: Wire, columns: int, words: str, told: str, again: str
):
    env = {**BUDGET, "NO_COLOR": "1"}
    with account.terminal(*WIRE, columns=columns, rows=30, env=env) as program:
        program.ready()
        for n in range(6):
            turn(program, account, f"{words} q{n} {'word ' * 50}z{n}")
        program.wait(lambda: len(rules(program)) >= 2, "two rules")
        labels = looks_right(program, columns)
        assert all(re.fullmatch(told, label) for label in labels), labels
        program.leave()
        written = program.raw
    with account.terminal(*WIRE, columns=columns, rows=30, env=env) as program:
        program.ready()
        program.wait(lambda: bool(rules(program)), "the rule")
        (label,) = looks_right(program, columns)
        assert re.match(again, label), label
        program.leave()
        written += program.raw
    codes = {code for found in re.findall(rb"\x1b\[([\d;:]*)m", written) for code in re.split(rb"[;:]", found) if code}
    assert not {int(code) for code in codes} & {*COLOURS}, codes


def test_context_rule_is_redrawn_after_forget_and_its_undo(account: Account, wire: Wire):
    with account.terminal(*WIRE, columns=120, rows=40, env=BUDGET) as program:

        def said(line: str, told: str) -> tuple[str, int]:
            """Send a command that draws the rule anew, below the line that reports it; return where it is then."""
            before, reports = len(rules(program)), program.words().count(told)
            program.say(line)
            if "/forget" in line:
                program.wait(lambda: "[y] yes" in program.text(), "the question")
                for _ in range(12):
                    program.pump(0.05)  # a key at once would be one typed before it was read
                program.type("y")
            program.wait(lambda: program.words().count(told) > reports, f"the report of {line}")
            program.wait(lambda: len(rules(program)) == before + 1, f"the rule, once, after {line}")
            program.settled()
            lines = program.scrollback()
            at = max(n for n, line in enumerate(lines) if told in line)
            assert at < rules(program)[-1], "below the report"
            looks_right(program, 120)
            return drawn(program)

        program.ready()
        for n in range(8):
            turn(program, account, f"q{n} {'word ' * 50}z{n}")
        first, out = drawn(program)
        assert out >= 4
        # The oldest turn in context: everything behind it is as it was, and one more turn comes back before it.
        id = asked_first(account, first)
        earlier, fewer = said(f"/forget {id}-{id + 1}", "Forgot ")
        assert (earlier, fewer) == (f"q{int(first[1:]) - 1}", out - 1)
        assert said("/undo", "Undid ") == (first, out)
        # The newest word alone: nothing comes back for it, and the rule stands where it stood.
        assert said(f"/forget {asked_first(account, 'q7')}", "Forgot ")[0] in (first, earlier)
        now = said("/undo", "Undid ")
        assert now == (first, out)
        turn(program, account, "one more")
        assert asked(wire)[0] == first
        program.leave()
    assert set(account.endings()) == {"completed"}
