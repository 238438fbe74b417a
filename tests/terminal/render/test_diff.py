"""Diffs are drawn with line numbers, in colors, and no line of a file passes for a part of the diff."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikigai.core.views.questions import Question
from ikigai.terminal.render import diff
from ikigai.terminal.render.question_lines import draw_question
from ikigai.terminal.render.text_width import cell_width
from ikigai.terminal.render.theme import Theme, strip_styles, terminal_theme
from ikigai.tools.files.diffs import unified_diff

PLAIN = Theme(plain=True)
COLOR = Theme()


def lines_of(before: str, after: str, width: int = 80, name: str = "x", theme: Theme = PLAIN) -> list[str]:
    return [strip_styles(row) for row in diff.draw_diff(unified_diff(before, after, name), width, theme)]


def test_lines_have_the_numbers_of_their_file():
    before = "".join(f"line {n}\n" for n in range(1, 31))
    after = before.replace("line 3\n", "LINE 3\nmore\n").replace("line 28\n", "")
    assert lines_of(before, after) == [
        *(" 1   line 1", " 2   line 2", " 3 - line 3", " 3 + LINE 3", " 4 + more", " 5   line 4", " 6   line 5"),
        *(" 7   line 6", " …", "26   line 25", "27   line 26", "28   line 27", "28 - line 28", "29   line 29"),
        "30   line 30",
    ]
    assert lines_of("", "a\nb") == ["1 + a", "2 + b", "\\ No newline at end of file"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("-- a/x\n", "++ b/y\n"),
        ("-- a/x\nz\n", "++ b/y\n@@ -1 +1 @@\nz\n"),
        ("a\n", "-- c\n++ d\n"),
        ("@@ -1 +1 @@\n", "--- a\n+++ b\n@@ -5 +5 @@\n"),
        ("[1 more lines of this diff are not shown]\n", "… [3 more]\n"),
        ("\\ No newline at end of file\n", " \n-\n+\n"),
    ],
)
def test_line_of_a_file_that_looks_like_a_diff_is_shown(before: str, after: str):
    drawn, old, new = lines_of(before, after), before.split("\n")[:-1], after.split("\n")[:-1]
    signed = [(row[2:3], row[4:]) for row in drawn]
    kept = [text for sign, text in signed if not sign.strip()]
    assert [text for sign, text in signed if sign == "-"] == [line.rstrip() for line in old if line not in kept]
    assert [text for sign, text in signed if sign == "+"] == [line.rstrip() for line in new if line not in kept]


FILE = st.lists(st.text("ab-+@ \\[]1,\t日", max_size=12))


@given(FILE, FILE, st.integers(24, 60))
def test_every_line_is_drawn_whole_and_fits(before: list[str], after: list[str], width: int):
    made = unified_diff("\n".join(before), "\n".join(after), "a.py")
    changed = [line for line in made.split("\n")[2:] if line[:1] in ("+", "-")]
    for theme in (PLAIN, COLOR):
        drawn = [strip_styles(row) for row in diff.draw_diff(made, width, theme)]
        assert all(cell_width(row) <= width for row in drawn)
        text = "".join("".join(drawn).split())
        assert all("".join(line[1:].split()) in text for line in changed)
        assert len(drawn) >= len(changed)


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("return 1  # all", "return 2  # all", ["1", "2"]),
        ("def f(self, name):", "def f(self, name: str):", [": str"]),
        ("日本語 one", "日本語 two", ["one", "two"]),
        ("a = b", "something = else_entirely()", []),
        ("x" * 500 + " 1", "x" * 500 + " 2", []),
    ],
)
def test_changed_words_are_marked_within_their_lines(before: str, after: str, words: list[str]):
    made = unified_diff(f"{before}\n", f"{after}\n", "x")
    environ = {"TERM": "xterm-256color"}
    for theme in (COLOR, terminal_theme({**environ, "NO_COLOR": "1"}), terminal_theme(environ, name="light")):
        drawn = "\n".join(diff.draw_diff(made, 900, theme))
        marked = [part.partition("m")[2].partition("\x1b")[0] for part in drawn.split("\x1b[7")[1:]]
        assert marked == words
    assert "\x1b" not in "\n".join(diff.draw_diff(made, 900, PLAIN))


def test_code_has_its_colors_and_a_removed_line_none():
    made = unified_diff("def f():\n    return 'a'\n", "def f():\n    return 'b'  # why\n", "src/a.py")
    context, removed, added = diff.draw_diff(made, 80, COLOR)
    assert "\x1b[35mdef\x1b[0m" in context and "\x1b[35mreturn\x1b[0m" in added
    assert "\x1b[35m" not in removed and "\x1b[31m" in removed and "# why" in strip_styles(added)
    assert "\x1b[2;3m" not in added  # a comment that is added is not faint
    for name in ("notes.unknown", "Makefile2", "a\u202e.py\n"):
        assert "\x1b[35m" not in "".join(diff.draw_diff(unified_diff("a\n", "def\n", name), 80, COLOR))


def test_hunk_that_is_shorter_than_it_says_hides_nothing():
    """A key of several lines is replaced by one line."""
    made = "--- a/x\n+++ b/x\n@@ -1,9 +1,9 @@\n one\n-[redacted: key]\n@@ -20,2 +20,2 @@\n-old\n+new\n kept\n+after"
    assert [strip_styles(row) for row in diff.draw_diff(made, 60, COLOR)] == [
        *(" 1   one", " 2 - [redacted: key]", " …", "20 - old", "20 + new", "21   kept", "+after"),
    ]


def test_note_before_a_diff_is_shown():
    made = "[replaces a binary or large file of 9 bytes]\n" + unified_diff("", "x\n", "y")
    assert [strip_styles(row) for row in diff.draw_diff(made, 80, PLAIN)] == [
        *("[replaces a binary or large file of 9 bytes]", "1 + x")
    ]


def test_question_draws_call_diff_and_reasons():
    lines = ("edit a.txt", *unified_diff("a\n", "b\n", "a.txt").split("\n"), "- no diff", "Careful.")
    question = Question("Make this edit?", lines, (), "n", headings=(0,), diffs=((1, len(lines) - 2),))
    drawn = strip_styles(draw_question(question, 40, COLOR))
    assert drawn.split("\n") == ["→ edit a.txt", "  1 - a", "  1 + b", "  - no diff", "  Careful."]
    words = draw_question(question, 80, Theme(plain=True, words=True))
    assert words.split("\n") == [
        *("Tool call: edit a.txt", "  At line 1:", "  Removed: a", "  Added: b", "  - no diff", "  Careful."),
    ]
