"""These tests cover screen readers: everything is printed once, in words; a dumb terminal gets it in the same way."""

import re
from pathlib import Path

from prompt_toolkit.completion import Completion

from ikigai.core.views.context_rule import ContextRule
from ikigai.core.views.transcript import Speaker, Thought, TranscriptBlock
from ikigai.terminal.output import screen_reader as words
from ikigai.terminal.output.entries import Entries
from ikigai.terminal.render import blocks as render
from ikigai.terminal.render import plain_words, theme
from ikigai.terminal.render import rule_line as rules
from ikigai.terminal.render.theme import Theme
from tests.terminal.console import DEMO, Console

SPOKEN = Theme(plain=True, words=True)
SIGNS = re.compile("[❯●→←·⚠✗∴⠀-⣿─│█░]")


def drawn(block: TranscriptBlock) -> str:
    return "\n".join(entry.text for entry in Entries(SPOKEN, "fold").draw(block, words.UNWRAPPED_COLUMNS))


def test_blocks_are_named_in_words():
    said = [
        drawn(TranscriptBlock(1, Speaker.USER, "one\ntwo")),
        drawn(TranscriptBlock(2, Speaker.ASSISTANT, "# It *is*\n\n- a\n- b", thoughts=(Thought(0, "hm"),))),
        drawn(TranscriptBlock(3, Speaker.TOOL_CALL, '{"path": "x"}', "read_file")),
        drawn(TranscriptBlock(4, Speaker.TOOL_RESULT, "all", diff="--- a\n+++ b\n@@ -1,2 +7,2 @@\n same\n-old\n+new")),
        drawn(TranscriptBlock(5, Speaker.TOOL_RESULT, "no such file", failed=True)),
        drawn(TranscriptBlock(6, Speaker.NOTE, "Cleared.")),
        drawn(TranscriptBlock(7, Speaker.STOPPED, "by you")),
        drawn(TranscriptBlock(8, Speaker.STOPPED, "The key is wrong.", failed=True)),
        drawn(TranscriptBlock(9, Speaker.SHORT, "It was cut.")),
        drawn(TranscriptBlock(10, Speaker.USER, "before", remembered=False)),
        drawn(TranscriptBlock(11, Speaker.USER, "gone", remembered=False, excluded="forgotten")),
        rules.draw_agent_heading("finch", 80, SPOKEN),
        render.draw_skipped(7, 80, SPOKEN),
    ]
    assert said == [
        "You: one\n  two",
        "Thought: hm\nAssistant: # It *is*\n\n- a\n- b",
        "Tool call: read x",
        "Result: all\n  At line 7:\n  same\n  Removed: old\n  Added: new",
        "Result, failed: no such file",
        "Note: Cleared.",
        "Cancelled: by you",
        "Failed: The key is wrong.",
        "Warning: It was cut.",
        "Out of context. You: before",
        "Forgotten. You: gone",
        "Note: Agent finch",
        "Note: 7 earlier events are not shown again",
    ]
    signs = {sign for sign in vars(theme).values() if isinstance(sign, str) and len(sign) == 1}
    assert set(theme.SPOKEN_SIGNS) == signs


def test_context_rule_is_spoken():
    assert plain_words.describe_rule(ContextRule(1, 0, "", cleared=True)) == "The context begins here."
    assert (
        rules.draw_context_rule(ContextRule(3, 1, "why not"), 80, SPOKEN)
        == 'The context begins here, 1 turn out of context: "why not".'
    )
    assert plain_words.describe_rule(ContextRule(3, 2, "", summarized=4, left=2)) == (
        "The context begins here, 4 turns condensed, 2 turns out of context, 2 just now."
    )


def test_menu_is_read_out():
    choices = [Completion(f"/{n}", display_meta=f"does {n}" if n else "") for n in range(12)]
    said = words.speak_menu(choices).split("\n")
    assert said[:3] == ["12 choices, Tab goes through them:", "/0", "/1: does 1"] and said[-1] == "and 2 more"


def test_screen_reader_gets_everything_once_and_nothing_moves(tmp_path: Path):
    with Console(tmp_path, DEMO, (100, 50), DEMO_WORDS="1", DEMO_HISTORY="1") as console:
        console.until("It keeps *whole turns* under a budget.")
        assert "The context begins here, 12 turns out of context" in console.text
        assert "Out of context. Assistant: An **earlier** answer." in console.text
        console.send("stream 3\r")
        console.until("P003")
        console.send("tools\r")
        console.until("That is *what* there is.")
        console.send("/mo\t")
        console.until(lambda: console.lines[console.screen.cursor.y].startswith("You: /model"))
        console.send("\x15ask\r")
        console.until("Press y for yes; n for no; w for no, because; Esc for no.")
        console.pump(0.5)
        console.send("y")
        console.until(lambda: console.told("answer"))
        console.send("retry\r")
        console.until("Warning: Trying again in 30 s (attempt 2 of 8): The provider is overloaded.")
        console.send("more\r")
        console.until("Queued: more")
        console.send("\x1b")
        console.until("Cancelled: ")
        console.send("\x03" * 3)
        console.until("Ctrl+C again leaves")
        console.ended()
        for once in (
            "P001",
            "P002",
            "P003",
            "Let me look.",
            "Tool call: shell",
            "Tool call: read /etc/passwd (20 lines)",
            "Shall thing 1 be done?\n",
        ):
            assert console.history.count(once) == 1, once
        assert not SIGNS.search(console.history.replace("\u2026", ""))
        own = rb"\x1b\[(?:\?\d+[hl]|0m|K|2[23];0t)|\x1b\]2;[^\x1b]*\x1b\\"
        assert b"\x1b" not in re.sub(own, b"", console.raw)
        console.assert_restored()
