"""These tests show thinking: live in the live area, folded or whole above the reply, and all of it in the pager."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikigai.core.request.reply import TextDelta, ThinkingDelta, ToolCallDelta
from ikigai.core.views.transcript import Speaker, Thought, TranscriptBlock
from ikigai.terminal.output.entries import Entries
from ikigai.terminal.output.live_reply import FinishedPiece, FoldedThinking, LiveReply
from ikigai.terminal.render import blocks as render
from ikigai.terminal.render.text_width import cell_width, format_duration
from ikigai.terminal.render.theme import Theme, strip_styles
from tests.terminal.console import Console

PLAIN, COLOUR = Theme(plain=True), Theme()
LONG = "It says one thing, and then another, and it never comes to any end at all. " * 40


# -- the bookkeeping ----------------------------------------------------------------------------------------------


def up(pieces: list[FinishedPiece]) -> list[str]:
    """Return the pieces that went up, thoughts in brackets."""
    return [f"({piece.text})" if isinstance(piece, FoldedThinking) else piece.source.strip() for piece in pieces]


def test_thinking_is_printed_when_the_words_after_it_are_saved():
    reply = LiveReply(1)
    assert reply.add(ThinkingDelta("Hm, ")) == [] and reply.add(ThinkingDelta("so.")) == []
    assert reply.saved(0) == [], "what was saved by now may be half of it"
    assert reply.add(TextDelta("Words")) == []
    assert up(reply.saved(1)) == ["(Hm, so.)"]
    assert reply.add(TextDelta(" and more.\n\nNext")) == []
    assert up(reply.saved(100)) == ["Words and more."]
    assert up(reply.stored("Words and more.\n\nNext", 1)) == ["Next"]


def test_thinking_between_words_waits_for_the_words_before_it():
    reply = LiveReply(1)
    reply.add(TextDelta("First."))
    reply.add(ThinkingDelta("But then."))
    assert reply.add(TextDelta("Second.")) == []
    assert up(reply.saved(3)) == []
    assert up(reply.saved(6)) == ["First."]
    assert up(reply.saved(7)) == ["(But then.)"]
    assert up(reply.stored("First.Second.", 1)) == ["Second."]


def test_thinking_before_a_call_belongs_to_the_message_before_it():
    reply = LiveReply(1)
    reply.add(ThinkingDelta("I look."))
    assert reply.add(ToolCallDelta(0, "a", "read")) == []
    reply.add(ThinkingDelta("And there."))
    assert reply.add(ToolCallDelta(1, "b", "read")) == []
    reply.add(TextDelta("Then."))
    assert up(reply.stored("", 1)) == ["(I look.)"]
    assert up(reply.stored("", 1)) == ["(And there.)"]
    assert up(reply.stored("Then.")) == ["Then."]


def test_each_message_gets_its_own_thoughts():
    reply = LiveReply(1)
    for delta in (
        ThinkingDelta("One."),
        TextDelta("A"),
        ToolCallDelta(0, "a", "read"),
        ThinkingDelta("Two."),
        ToolCallDelta(1, "b", "read"),
    ):
        reply.add(delta)
    assert up(reply.stored("A", 1)) == ["(One.)", "A"]
    assert up(reply.stored("", 1)) == ["(Two.)"]


def test_reply_that_ends_in_thinking_shows_it():
    reply = LiveReply(1)
    reply.add(TextDelta("Words."))
    reply.add(ThinkingDelta("Afterthought."))
    assert up(reply.stored("Words.", 1)) == ["Words.", "(Afterthought.)"]
    assert reply.dropped() == []


def test_reply_cut_during_thinking_shows_it():
    reply = LiveReply(1)
    reply.add(TextDelta("Words."))
    reply.add(ThinkingDelta("Half a th"))
    assert up(reply.stored("Words.")) == ["Words."]
    assert up(reply.dropped()) == ["(Half a th)"] and reply.dropped() == []


def test_blocks_of_thinking_are_kept_apart_and_signatures_show_nothing():
    reply = LiveReply(1)
    for delta in (
        ThinkingDelta(""),
        ThinkingDelta("One"),
        ThinkingDelta("", "signed"),
        ThinkingDelta("", "signed again"),
        ThinkingDelta("Two"),
    ):
        reply.add(delta)
    assert reply.thinking and reply.thinking.text == "One\n\nTwo"
    silent = LiveReply(2)
    silent.add(TextDelta("Some "))
    silent.add(ThinkingDelta("", "opaque"))
    assert silent.add(TextDelta("words.")) == []
    (piece,) = silent.stored("Some words.")
    assert up([piece]) == ["Some words."], "what cannot be read does not tear the words apart"


DELTAS = st.one_of(
    st.builds(TextDelta, st.sampled_from(["a", "b. ", "c\n\n", "- d\n", "é"])),
    st.builds(ThinkingDelta, st.sampled_from(["", "x", " y", "\n"]), st.sampled_from(["", "", "s"])),
    st.just(ToolCallDelta(0, name="t")),
)


@given(st.lists(st.one_of(DELTAS, st.integers(0, 30)), max_size=30))
def test_all_words_and_thoughts_go_up_once_in_order(steps: list[object]):
    reply, finished, text = LiveReply(1), list[FinishedPiece](), ""
    order = ""  # of what was said and thought, without blanks
    for step in steps:
        if isinstance(step, int):
            finished += reply.saved(min(step, len(text)))
            continue
        assert isinstance(step, TextDelta | ThinkingDelta | ToolCallDelta)
        finished += reply.add(step)
        if isinstance(step, TextDelta):
            text += step.text
        order += "" if isinstance(step, ToolCallDelta) else step.text
    finished += reply.stored(text, 100) if text else []
    finished += reply.dropped()
    went = "".join(piece.text if isinstance(piece, FoldedThinking) else piece.source for piece in finished)
    assert "".join(went.split()) == "".join(order.split())


# -- how it looks -------------------------------------------------------------------------------------------------


@given(st.text(max_size=200), st.integers(10, 120), st.sampled_from([None, 0.3, 12.7, 75.0]), st.booleans())
def test_folded_thinking_is_one_row_that_fits(text: str, width: int, seconds: float | None, opens: bool):
    drawn = render.draw_thought(text, seconds, width, COLOUR, opens=opens)
    assert "\n" not in drawn and cell_width(strip_styles(drawn)) <= width
    assert strip_styles(drawn).startswith("∴ thought"[:width])
    assert not any(char in strip_styles(drawn) for char in "\x1b\x9b\u202e\x07")


def test_folded_thought_shows_its_time_and_beginning():
    assert render.draw_thought("**Weighing it.**\n\nThe one", 12.9, 60, PLAIN, opens=True) == (
        "∴ thought for 12 s: Weighing it. The one (Ctrl+O)"
    )
    assert render.draw_thought(LONG, 64, 40, PLAIN, opens=True) == "∴ thought for 1 min 4 s: It sa… (Ctrl+O)"
    assert render.draw_thought("Hm.", None, 40, PLAIN) == render.draw_thought("Hm.", 0.9, 40, PLAIN) == "∴ thought: Hm."
    assert render.draw_thought("Hm.", None, 40, COLOUR) == "\x1b[2;3m∴ thought: Hm.\x1b[0m"
    full = render.draw_thought("One two three.\n\n\x1b[31mFour.\n", 3, 12, PLAIN, full=True)
    assert full == "∴ thought for 3 s:\n  One two\n  three.\n\n  Four."
    assert [format_duration(seconds) for seconds in (0.2, 59.9, 60, 3725)] == ["0 s", "59 s", "1 min 0 s", "62 min 5 s"]


@pytest.mark.parametrize("thinking", ["fold", "full", "hide"])
def test_replies_are_drawn_with_their_thoughts_in_place(thinking: str):
    block = TranscriptBlock(1, Speaker.ASSISTANT, "First.Second.", thoughts=(Thought(0, "One."), Thought(6, "Two.")))
    entries = Entries(PLAIN, thinking)
    entries.fold(block, 60)
    drawn = [entry.text for entry in entries.draw(block, 60)]
    assert (
        drawn
        == {
            "fold": ["∴ thought: One.", "● First.", "∴ thought: Two. (Ctrl+O)", "● Second."],
            "full": ["∴ thought:\n  One.", "● First.", "∴ thought:\n  Two.", "● Second."],
            "hide": ["● First.", "● Second."],
        }[thinking]
    )
    assert entries.folded == "Two."


def test_forgotten_thoughts_are_dim_like_all_that_is_forgotten():
    block = TranscriptBlock(1, Speaker.ASSISTANT, "Said.", remembered=False, thoughts=(Thought(0, "One."),))
    thought, words = (entry.text for entry in Entries(COLOUR, "fold").draw(block, 60))
    assert thought.startswith("\x1b[2") and words == "\x1b[2m● Said.\x1b[0m"


# -- on a terminal ------------------------------------------------------------------------------------------------


def pager(folder: Path, body: str) -> str:
    """Make a pager that keeps its input and then does this."""
    file = folder / "pager"
    file.write_text(f"#!/bin/sh\n{body}\n")
    file.chmod(0o755)
    return str(file)


@pytest.mark.ordinary("size0")
@pytest.mark.parametrize("size", [(80, 24), (100, 30), (40, 12)])
def test_thinking_is_seen_as_it_comes_and_folds_when_words_begin(tmp_path: Path, size: tuple[int, int]):
    with Console(tmp_path, size=size, DEMO_PACE="0.02") as console:
        console.ready().send("muse " + "one two three four. " * 50 + "\r")

        def live() -> list[str]:
            before, _, _ = console.text.partition("Thinking…")
            return before.rstrip("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏ \n").rpartition("\n\n")[2].split("\n")

        # A third of twelve rows has no room for more than that it thinks.
        rows = {24: 2, 30: 3}.get(size[1], 0)
        seconds = re.compile(r"Thinking… ([2-9]|\d\d) s · Esc stops")
        console.until(lambda: seconds.search(console.text) and len(live()) >= rows)
        if rows:
            assert len(live()) == rows and all(re.fullmatch(r"  [a-z. ]+", row) for row in live())
        console.until("● Thought through.")
        console.until(lambda: "Thinking…" not in console.text)
        (folded,) = [row for row in console.history.split("\n") if row.startswith("∴")]
        assert re.fullmatch(r"∴ thought for \d+ s: one two .*… \(Ctrl\+O\)", folded), folded
        assert "END" not in console.history and console.history.count("Thought through.") == 1


def test_pager_shows_all_thinking_sanitized(tmp_path: Path):
    program = pager(tmp_path, f"cat > {tmp_path}/paged; stty -a < /dev/tty > {tmp_path}/stty")
    with Console(tmp_path, PAGER=program, DEMO_PACE="0") as console:
        console.ready().send("think One \\e[2J\\e[31m\\n\\n" + LONG + "END.\r")
        console.until("● Thought through.")
        console.send("draft\x0f")
        console.until(lambda: (tmp_path / "stty").exists() and (tmp_path / "stty").read_text())
        console.until(lambda: console.prompt == "draft")
        paged = (tmp_path / "paged").read_text()
        assert " ".join(paged.split()) == " ".join(("One " + LONG + "END.").split())
        assert max(map(len, paged.split("\n"))) <= 80 and paged.endswith("END.\n")
        assert re.search(r"[^-]icanon.*[^-]echo ", (tmp_path / "stty").read_text(), re.DOTALL)
        console.send("\x15bye\r")
        assert console.ended() == 0
        console.assert_restored()
    assert b"\x1b[31m" not in console.raw


def test_keys_for_the_pager_are_the_pagers_and_later_ones_ours(tmp_path: Path):
    program = pager(tmp_path, f"cat > /dev/null; touch {tmp_path}/begun; head -n 1 < /dev/tty > {tmp_path}/got")
    with Console(tmp_path, PAGER=program) as console:
        console.ready().send("think Something.\r")
        console.until("● Thought through.")
        console.send("\x0f")
        console.until(lambda: (tmp_path / "begun").exists())
        console.send("quit\n")
        console.until(lambda: (tmp_path / "got").exists() and (tmp_path / "got").read_text() == "quit\n")
        console.send("after")
        console.until(lambda: console.prompt == "after")
        assert console.sent == ["think Something."]


def test_reply_goes_on_while_the_pager_is_open(tmp_path: Path):
    there = f"touch {tmp_path}/there; cat > /dev/null"
    program = pager(tmp_path, f"{there}; while [ ! -e {tmp_path}/enough ]; do sleep 0.05; done")
    with Console(tmp_path, PAGER=program, DEMO_PACE="0.01") as console:
        console.ready().send("think " + LONG[:100] + "\r")
        console.until("● Thought")
        console.send("\x0f")
        console.until((tmp_path / "there").exists)
        console.pump(0.2)
        before = console.raw
        console.pump(0.5)
        assert console.raw == before, "the terminal is the pager's"
        (tmp_path / "enough").touch()
        console.until("● Thought through.")
        console.until(lambda: console.prompt == "")
        assert console.history.count("∴ thought") == console.history.count("● Thought through.") == 1


def test_thinking_under_way_can_be_read_whole(tmp_path: Path):
    program = pager(tmp_path, f"cat > {tmp_path}/paged")
    with Console(tmp_path, PAGER=program) as console:
        console.ready().send("think Old.\r")
        console.until("● Thought through.")
        console.send("ponder " + LONG + "\r")
        console.until("Thinking…")
        console.pump(1.5)
        console.send("\x0f")
        console.until(lambda: (tmp_path / "paged").exists() and "another" in (tmp_path / "paged").read_text())
        console.send("\x1b")
        console.until("✗ interrupted")
        assert re.search(r"∴ thought for \d+ s: It says .*\n\n✗ interrupted", console.text)


@pytest.mark.parametrize(
    ("value", "told"),
    [("/no/such/pager", "⚠ The pager /no/such/pager cannot be started"), ("'", "⚠ $PAGER is not a command: '")],
)
def test_missing_pager_is_reported(tmp_path: Path, value: str, told: str):
    with Console(tmp_path, PAGER=value) as console:
        console.ready().send("think Hm.\r")
        console.until("● Thought through.")
        console.send("draft\x0f")
        console.until(told)
        console.until(lambda: console.prompt == "draft")


def test_pager_that_exits_at_once_is_no_failure(tmp_path: Path):
    with Console(tmp_path, PAGER="true", DEMO_PACE="0") as console:
        console.ready().send("think \x1b[200~" + "words " * 12_000 + "\x1b[201~\r")  # more than a pipe holds
        console.until("● Thought through.", 60)
        console.send("\x0f\x0f\x0fdraft")
        console.until(lambda: console.prompt == "draft")
        assert "⚠" not in console.text


def test_less_is_the_pager_when_none_is_configured(tmp_path: Path):
    with Console(tmp_path, PAGER="", LESS="", DEMO_PACE="0") as console:
        console.ready().send("think " + LONG + "\r")
        console.until("● Thought through.")
        console.send("\x0f")
        console.until("\n:")
        assert "It says one thing" in console.lines[0]
        console.send("q")
        console.until("amber-fox")
        console.send("draft")
        console.until(lambda: console.prompt == "draft")
        console.send("\x15bye\r")
        assert console.ended() == 0
        console.assert_restored()


def test_hint_is_shown_when_there_is_nothing_to_open(tmp_path: Path):
    with Console(tmp_path) as console:
        console.ready().send("typed\x0f")
        console.until("There is nothing to open")
        console.until(lambda: "❯ typed" in console.lines)
        console.until("amber-fox · ")
        assert console.prompt == "typed"


def test_hidden_thoughts(tmp_path: Path):
    with Console(tmp_path, DEMO_THINKING="hide", DEMO_PACE="0.06") as console:
        console.ready().send("muse " + "words " * 40 + "\r")
        console.until(lambda: re.search(r"Thinking… [1-9] s", console.text))
        assert console.text.count("words") == 40, "those that were typed"
        console.until("● Thought through.")
        assert "∴" not in console.history


def test_thoughts_in_full(tmp_path: Path):
    with Console(tmp_path, DEMO_THINKING="full", DEMO_PACE="0") as console:
        console.ready().send("think " + LONG + "\\n\\nEND \\e[31m.\r")
        console.until("● Thought through.")
        thought = console.history.partition("∴ thought")[2].partition("● Thought through.")[0]
        assert " ".join(thought.split(":", 1)[1].split()) == " ".join((LONG + "END .").split())
        assert b"\x1b[31m" not in console.raw


@pytest.mark.ordinary("NO_COLOR")
@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=["NO_COLOR", "dumb"])
def test_folded_thought_says_so_in_words_without_color(tmp_path: Path, env: dict[str, str]):
    with Console(tmp_path, **env) as console:
        console.until(lambda: console.told("ready"))
        console.send("think " + LONG[:200] + "\r")
        console.until("● Thought through.")
        assert "∴ thought" in console.history
    codes = {code for found in re.findall(rb"\x1b\[([\d;]*)m", console.raw) for code in found.split(b";")}
    assert not any(re.fullmatch(rb"[349]\d|10\d", code) for code in codes)
    if "TERM" in env:
        assert b"\x1b" not in console.raw
