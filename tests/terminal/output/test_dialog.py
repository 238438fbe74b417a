"""These tests ask questions above the input: rows shown, keys that answer, and words typed meanwhile."""

import asyncio
import re
from pathlib import Path

import pytest

from ikigai.core.views.questions import Choice, Question, QuestionAnswer, yes_or_no
from ikigai.terminal.output.dialog import MIN_SEEN_SECONDS, TYPING_GUARD, Dialogs
from tests.terminal.console import Console
from tests.terminal.modes import ENTER

KEYS = "[y] yes · [n] no · [w] no, because · Esc: no"


async def at_once() -> None:
    """Return once the question is on screen."""


def answers(console: Console) -> list[tuple[object, object]]:
    return [(line["key"], line["words"]) for line in console.told("answer")]


def asked(console: Console, number: int = 1) -> None:
    """Wait for the question, and until it has been read."""
    console.until(lambda: f"thing {number} be done?" in console.text and KEYS in console.text)
    console.pump(MIN_SEEN_SECONDS + 0.1)


def test_key_answers_and_the_question_is_printed(tmp_path: Path):
    with Console(tmp_path) as console:
        console.ready().send("ask\r")
        asked(console)
        assert not console.modes().get("1049") and b"\x1b[2Jthing" not in console.raw and b"\x1b]0" not in console.raw
        title = next(n for n, line in enumerate(console.lines) if line.startswith("Shall "))
        assert console.lines[title + 1] == f"  {KEYS}" and console.lines[title + 3].startswith("❯")
        console.send("y")
        console.until(lambda: answers(console) == [("y", "")])
        console.until(lambda: KEYS not in console.text)
        console.until(lambda: re.search(r"^  Shall .*thing 1 be done\? yes$", console.text, re.MULTILINE))
        assert console.history.count("thing 1, first") == 1 and console.prompt == ""
        for number, keys in ((2, "\x1b"), (3, "\x03"), (4, "n")):
            console.send("ask\r")
            asked(console, number)
            console.send(keys)
            console.until(lambda number=number: len(answers(console)) == number)
        assert answers(console)[1:] == [("n", "")] * 3 and not console.told("interrupt")


def test_type_ahead_goes_into_the_input_and_does_not_answer(tmp_path: Path):
    with Console(tmp_path, DEMO_PAUSE="60") as console:  # however long the machine takes between two letters
        console.ready().send(f"ask 0.3{ENTER}")
        for letter in "may nobody say y":
            console.send(letter)
            console.pump(0.08)
        console.until(KEYS)
        assert TYPING_GUARD > MIN_SEEN_SECONDS + 0.2
        console.pump(MIN_SEEN_SECONDS + 0.2)  # between two words
        console.send("n")
        console.until(lambda: console.prompt == "may nobody say yn")
        assert not answers(console)
        console.send("\r")  # what was typed is sent as before
        console.until("You said: may nobody say yn")
        assert not answers(console) and KEYS in console.text


def test_after_a_pause_a_key_answers_and_what_was_typed_stays(tmp_path: Path):
    with Console(tmp_path) as console:
        console.ready().send("ask\r")
        asked(console)
        console.send("xy")
        console.until(lambda: console.prompt == "xy")
        console.pump(TYPING_GUARD + 0.2)
        console.send("n")
        console.until(lambda: answers(console) == [("n", "")])
        console.until(lambda: console.prompt == "xy")


def test_words_go_with_an_answer_and_the_draft_comes_back(tmp_path: Path):
    with Console(tmp_path) as console:
        console.ready().send("ask\r")
        asked(console)
        console.send("a draft")
        console.until(lambda: console.prompt == "a draft")
        console.pump(TYPING_GUARD + 0.2)
        console.send("w")
        console.until(lambda: "Why not?" in console.text and console.prompt == "")
        assert "Enter sends it · Esc goes back" in console.text
        console.send("\x1b")
        console.until(lambda: KEYS in console.text and console.prompt == "a draft")
        console.pump(MIN_SEEN_SECONDS + 0.1)
        console.send("w")
        console.until(lambda: console.prompt == "")
        console.send("yes and no\r")
        console.until(lambda: answers(console) == [("w", "yes and no")])
        console.until(lambda: console.prompt == "a draft")
        console.until("thing 1 be done? no, because: yes and no")
        assert console.sent == ["ask"]


def test_questions_wait_for_one_another_and_leaving_takes_them_along(tmp_path: Path):
    with Console(tmp_path) as console:
        console.ready().send(f"ask 0.2{ENTER}ask 0.2{ENTER}")
        asked(console)
        console.until(lambda: len(console.told("asked")) == 2)
        assert "thing 2" not in console.history
        console.send("y")
        asked(console, 2)
        assert answers(console) == [("y", "")] and console.history.count("thing 2, first") == 1
        console.send("\x04")
        assert console.ended() == 0
        console.assert_restored()
        assert len(answers(console)) == 1


@pytest.mark.parametrize("size", [(40, 9), (20, 6)], ids=str)
def test_small_terminals_show_what_can_be_pressed(tmp_path: Path, size: tuple[int, int]):
    with Console(tmp_path, size=size, NO_COLOR="1") as console:
        console.ready().send("ask\r")
        console.until(lambda: "[y] yes" in console.text)
        console.pump(MIN_SEEN_SECONDS + 0.1)
        title = "Shall <U+001B>[2Jthing 1 be done?"
        assert (title if size[0] > 20 else "Shall <U+001B>[2Jth…") in console.lines and "❯" in console.text
        console.send("y")
        console.until(lambda: answers(console) == [("y", "")])


def test_dumb_terminal_is_asked_in_lines(tmp_path: Path):
    with Console(tmp_path, TERM="dumb") as console:
        console.until(lambda: console.told("ready"))
        console.send("ask\r")
        asked(console)
        console.send("w")
        console.until("Why not?")
        console.send("because\r")
        console.until(lambda: answers(console) == [("w", "because")])
        console.until("no, because: because")
        console.send("ask\r")
        asked(console, 2)
        assert console.history.count(KEYS) == 2
        console.send("half a draft")
        console.until("half a draft")
        console.send("\x1b")
        console.until(lambda: len(answers(console)) == 2)
        console.until(lambda: console.lines[console.screen.cursor.y] == "❯ half a draft")
        assert console.history.count("half a draft") == 1 and b"\x1b" not in console.raw


# -- without a terminal --------------------------------------------------------------------------------------------


async def test_withdrawn_question_makes_room_for_the_next():
    shown: list[str] = []
    dialogs = Dialogs(lambda: None)

    def ask(title: str) -> asyncio.Task[QuestionAnswer]:
        async def show() -> None:
            shown.append(title)

        question: Question = yes_or_no(title, ())
        return asyncio.create_task(dialogs.ask(question, show))

    first, second, third = ask("first"), ask("second"), ask("third")
    await asyncio.sleep(0.01)
    second.cancel()
    first.cancel()
    await asyncio.wait({first, second})
    await asyncio.sleep(0.01)
    assert shown == ["first", "third"] and dialogs.current and dialogs.current.prompt == "third"
    assert not dialogs.pressed("y", ""), "nobody can have read it"
    dialogs.back()
    assert await third == QuestionAnswer("n") and dialogs.current is None
    assert not dialogs.pressed("y", "")


async def steps() -> None:
    """Let the loop run what is ready."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_key_answers_when_the_question_can_have_been_read_and_typing_has_paused():
    dialogs = Dialogs(lambda: None)
    asking = asyncio.create_task(dialogs.ask(yes_or_no("Well?", ()), at_once))
    await asyncio.sleep(MIN_SEEN_SECONDS + 0.05)
    assert not dialogs.pressed("Y", "") and not dialogs.pressed("x", "")
    dialogs.typed()
    assert not dialogs.pressed("y", "x")
    assert dialogs.pressed("y", ""), "what was typed has been sent or taken back"
    await steps()
    assert asking.done() and asking.result() == QuestionAnswer("y")


async def test_question_of_a_command_comes_before_one_that_is_open():
    dialogs = Dialogs(lambda: None)

    def ask(question: Question) -> asyncio.Task[QuestionAnswer]:
        return asyncio.create_task(dialogs.ask(question, at_once))

    call = ask(Question("Run it?", (), (Choice("y", "yes"), Choice("n", "no")), default="n"))
    await asyncio.sleep(MIN_SEEN_SECONDS + 0.05)
    command = ask(yes_or_no("Run everything without asking?", ()))
    await asyncio.sleep(0.01)
    assert dialogs.current and dialogs.current.prompt == "Run everything without asking?"
    assert not dialogs.pressed("y", ""), "nobody can have read it"
    dialogs.back()
    assert await command == QuestionAnswer("n") and dialogs.current.prompt == "Run it?"
    assert not dialogs.pressed("y", ""), "the key was meant for the other question"
    await asyncio.sleep(MIN_SEEN_SECONDS + 0.05)
    assert dialogs.pressed("y", "") and await call == QuestionAnswer("y")
