"""These tests find the marks of prompts: each once, in the scrollback, around its text, and invisible."""

import re
from pathlib import Path

import pytest

from ikigai.core.views.context_rule import ContextRule
from ikigai.core.views.transcript import Speaker, Thought, TranscriptBlock
from ikigai.terminal.output.entries import Entries
from ikigai.terminal.output.live_reply import FinishedBlock, FoldedThinking
from ikigai.terminal.output.prompt_marks import PromptMarks
from ikigai.terminal.render.blocks import ReplyContext
from ikigai.terminal.render.theme import Theme, strip_styles
from tests.terminal.console import Console

MARK = re.compile(r"\x1b\]133;([^\x1b]*)\x1b\\")
USER, ANSWER = (
    TranscriptBlock(1, Speaker.USER, "ask  this\nand that"),
    TranscriptBlock(2, Speaker.ASSISTANT, "So it is."),
)


def marking(theme: Theme) -> Entries:
    entries = Entries(theme, "fold")
    entries.marks = PromptMarks()
    return entries


def told(entries: Entries, *shown: TranscriptBlock | ContextRule | None) -> str:
    """Return the drawn text, with the marks in brackets; None is the end of the turn."""
    made = [entry.text for each in shown for entry in (entries.draw(each, 60) if each else entries.ended())]
    return strip_styles(MARK.sub(r"[\1]", "\n".join(made)))


@pytest.mark.parametrize("theme", [Theme(), Theme(color=False), Theme(plain=True)])
def test_turn_has_its_prompt_marks(theme: Theme):
    entries = marking(theme)
    wanted = "[A;redraw=0]❯ [B]ask  this\n  and that\n[C]● So it is.\n[D;0]"
    assert told(entries, USER, ANSWER, None) == told(entries, USER, ANSWER, None) == wanted
    assert told(entries, None) == "", "once"
    unmarked = Entries(theme, "fold")
    assert [strip_styles(e.text) for e in entries.draw(USER, 60)] == [
        strip_styles(e.text) for e in unmarked.draw(USER, 60)
    ]


def test_end_mark_has_the_status_of_the_turn():
    entries, stopped = marking(Theme(plain=True)), TranscriptBlock(3, Speaker.STOPPED, "interrupted")
    failed = TranscriptBlock(4, Speaker.STOPPED, "No key.", failed=True)
    assert told(entries, USER, stopped, USER, failed, None).replace("\n  and that", "") == (
        "[A;redraw=0]❯ [B]ask  this\n[C]✗ interrupted\n[D;130][A;redraw=0]❯ [B]ask  this\n[C]✗ No key.\n[D;1]"
    )
    assert told(entries, USER, None).endswith("[D;0]"), "the next one is another"


def test_notes_get_no_mark():
    entries, note = marking(Theme(plain=True)), TranscriptBlock(5, Speaker.NOTE, "Mark x set.")
    assert told(entries, note, ContextRule(1, 2, "w"), ANSWER).count("[") == 0
    thought = TranscriptBlock(6, Speaker.ASSISTANT, "Yes.", thoughts=(Thought(0, "Hm."),))
    assert told(entries, USER, note, ContextRule(1, 2, "w"), thought).split("\n")[-2:] == [
        "[C]∴ thought: Hm.",
        "● Yes.",
    ]
    call, result = TranscriptBlock(7, Speaker.TOOL_CALL, "{}", "ls"), TranscriptBlock(8, Speaker.TOOL_RESULT, "x")
    assert told(entries, USER, call, result).split("\n")[-2:] == ["[C]→ ls()", "← x"]


def test_streaming_reply_is_marked_once():
    entries, voice = marking(Theme(plain=True)), ReplyContext()
    told(entries, USER)
    pieces = [FoldedThinking("Hm.", 2.0), FinishedBlock("One.\n", voice), FinishedBlock("Two.\n", voice)]
    made = [entry.text for piece in pieces for entry in entries.draw_piece(piece, 60)]
    assert [MARK.sub(r"[\1]", text) for text in made] == ["[C]∴ thought for 2 s: Hm.", "● One.", "  Two."]
    assert told(entries, None) == "[D;0]"


def test_redraws_print_no_mark_again(tmp_path: Path):
    with Console(tmp_path, DEMO_HISTORY="1") as console:
        console.ready().send("stream 6\r")
        console.until("P003")
        for width in (70, 90, 80):
            console.resize(width, 24)
            console.send("typed \x0c")
            console.pump(0.15)
        console.send("\x15again\r")
        console.until("You said: again")
        console.until(lambda: "Esc stops" not in console.text)
        marks = MARK.findall(console.raw.decode())
        replayed = ["A;redraw=0", "B", "C", "D;0"]
        assert marks == replayed * 2 + [*replayed] * 2, "two that were replayed, two that were sent"
