"""These tests draw blocks, the context rule and the status line at any width."""

import asyncio
import re
from decimal import Decimal
from functools import reduce

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.buffer import Buffer

from ikigai.core.events.events import AssistantMessage, StoredEvent, ToolStarted, UserMessage
from ikigai.core.events.messages import Message, Text, ToolCall
from ikigai.core.request.build import Request
from ikigai.core.request.model import ModelLimits
from ikigai.core.request.reply import RetryScheduled
from ikigai.core.search.snippets import MarkedText
from ikigai.core.state.effective_settings import RunConfig
from ikigai.core.state.fold import empty_memory, evolve
from ikigai.core.state.memory import Memory
from ikigai.core.state.open_turn import OpenTurn
from ikigai.core.state.window import Totals, Turn, Window
from ikigai.core.views.context_rule import ContextRule
from ikigai.core.views.questions import yes_or_no
from ikigai.core.views.transcript import Speaker, TranscriptBlock
from ikigai.core.views.usage_totals import UsageTotals
from ikigai.terminal.output import status_line as status
from ikigai.terminal.output.dialog import Dialog
from ikigai.terminal.output.entries import Entries
from ikigai.terminal.output.live_area import LiveArea
from ikigai.terminal.output.live_reply import LiveReply
from ikigai.terminal.render import blocks as render
from ikigai.terminal.render import rule_line as rules
from ikigai.terminal.render.text_width import cell_width, cut, wrap
from ikigai.terminal.render.theme import Theme, strip_styles

PLAIN, COLOUR = Theme(plain=True), Theme()


@given(st.text(), st.integers(2, 60))
def test_wrapped_rows_fit_and_lose_nothing_but_blanks(text: str, width: int):
    text = "".join(char for char in text if char.isprintable() or char == "\n")
    rows = list(wrap(text, width))
    assert all(cell_width(row) <= width for row in rows)
    assert "".join("".join(rows).split()) == "".join(text.split())


@given(st.text(alphabet="ab 日é"), st.integers(1, 20))
def test_cut_fits(text: str, width: int):
    shown = cut(text, width)
    assert cell_width(shown) <= width
    assert shown == text or (shown[:-1] == text[: len(shown) - 1] and shown[-1:] in ("…", ""))


@pytest.mark.parametrize("width", [20, 24, 40, 80, 200])
@pytest.mark.parametrize("speaker", Speaker)
def test_every_block_fits_and_is_clean(speaker: Speaker, width: int):
    text = "some words \x1b]52;c;eA==\x07 \x9b31m and 日本語 \u202e " * 20 + "\nnext line"
    for failed in (False, True):
        drawn = render.draw_block(TranscriptBlock(1, speaker, text, "tool\x1b[2J", failed), width, COLOUR)
        rows = strip_styles(drawn).split("\n")
        assert all(cell_width(row) <= width for row in rows)
        assert not any(bad in strip_styles(drawn) for bad in "\x1b\x9b\u202e\x07")


def test_forgotten_block_is_dim_and_nothing_else():
    drawn = render.draw_block(TranscriptBlock(1, Speaker.ASSISTANT, "# A\n\n**bold**", remembered=False), 40, COLOUR)
    assert drawn == "\x1b[2m● A\x1b[0m\n\n\x1b[2m  bold\x1b[0m"


@pytest.mark.parametrize(
    ("speaker", "text", "drawn"),
    [
        (Speaker.USER, "Name three rivers.", "❯ [rewound] Name three rivers."),
        (Speaker.USER, "one\ntwo", "❯ [rewound] one\n  two"),
        (Speaker.USER, "x" * 38, f"❯ [rewound]\n  {'x' * 38}"),
        (Speaker.ASSISTANT, "- **a**\n- b", "● [rewound]  • a\n   • b"),
        (Speaker.ASSISTANT, "words " * 7, f"● [rewound]\n  {'words ' * 6}\n  words".replace(" \n", "\n")),
        (Speaker.ASSISTANT, "```\ncode\n```", f"● [rewound]\n{'─' * 24}\ncode\n{'─' * 24}"),
        (Speaker.ASSISTANT, "漢" * 19, f"● [rewound]\n  {'漢' * 19}"),
        (Speaker.TOOL_CALL, "{}", "→ [rewound] tool()"),
        (Speaker.TOOL_RESULT, "", "← [rewound]"),
        (Speaker.STOPPED, "interrupted", "✗ [rewound] interrupted"),
        (Speaker.SHORT, "It was cut.", "⚠ It was cut."),
    ],
)
@pytest.mark.parametrize("theme", [PLAIN, COLOUR], ids=["plain", "color"])
def test_block_that_the_user_took_out_says_so_behind_its_sign(speaker: Speaker, text: str, drawn: str, theme: Theme):
    block = TranscriptBlock(1, speaker, text, "tool", remembered=False, excluded="rewound")
    assert strip_styles(render.draw_block(block, 40, theme)) == drawn


def test_signs():
    def first(speaker: Speaker, text: str = "text", **more: object) -> str:
        return render.draw_block(TranscriptBlock(1, speaker, text, **more), 40, PLAIN).split("\n")[0]  # type: ignore[arg-type]

    assert first(Speaker.USER) == "❯ text"
    assert first(Speaker.ASSISTANT) == "● text"
    assert first(Speaker.TOOL_CALL, '{"path": "a b", "n": [1, 2]}', name="read") == "→ read(path=a b, n=[1,2])"
    assert first(Speaker.TOOL_CALL, "{broken", name="read") == "→ read({broken)"
    assert first(Speaker.TOOL_RESULT) == "← text"
    assert first(Speaker.STOPPED, "interrupted") == "✗ interrupted"
    assert first(Speaker.NOTE) == "· text"
    assert first(Speaker.SHORT) == "⚠ text"
    assert render.draw_notice("careful", 40, PLAIN) == "⚠ careful"


def test_results_and_very_long_messages_are_shortened():
    result = render.draw_block(TranscriptBlock(1, Speaker.TOOL_RESULT, "\n".join(map(str, range(90)))), 40, PLAIN)
    assert result == "← 0\n  1\n  2\n  3\n  4\n  5\n  … 84 more lines"
    failed = TranscriptBlock(1, Speaker.TOOL_RESULT, "1\n2\n3\n4\n5\n6\n7\n8\n[exit\x1b[2J status 1]\n", failed=True)
    last = "  … 2 more lines\n  [exit<U+001B>[2J status 1]"
    assert render.draw_block(failed, 40, PLAIN) == f"← 1\n  2\n  3\n  4\n  5\n  6\n{last}"
    assert (
        render.draw_block(TranscriptBlock(1, Speaker.TOOL_RESULT, "1\n2\n3", failed=True), 40, PLAIN) == "← 1\n  2\n  3"
    )
    for failed in (False, True):  # a row that says that one is missing would take its place
        seven = TranscriptBlock(1, Speaker.TOOL_RESULT, "1\n2\n3\n4\n5\n6\n7\n", failed=failed)
        assert render.draw_block(seven, 40, PLAIN) == "← 1\n  2\n  3\n  4\n  5\n  6\n  7" and not render.is_long(
            seven, 40
        )
    message = render.draw_block(TranscriptBlock(1, Speaker.USER, "x" * 1_000_000), 40, PLAIN).split("\n")
    assert len(message) == render.MAX_MESSAGE_ROWS + 1 and message[-1] == "  … 1,000,000 characters in all"


def test_code_stands_at_the_left_edge_and_prose_hangs():
    drawn = render.draw_reply("Look:\n\n```\ncode here\n```\n\nprose that is long enough to be wrapped here", 30, PLAIN)
    rule = "─" * 24
    assert drawn == f"● Look:\n\n{rule}\ncode here\n{rule}\n\n  prose that is long enough to\n  be wrapped here"


PROSE = "Words that are more than fit into forty columns of a terminal"


@pytest.mark.parametrize("markup", ["", "**", "漢字 "])
def test_paragraphs_are_whole_lines_where_the_terminal_breaks_them(markup: str):
    source = f"{PROSE} {markup}here{markup}.\n\n- {PROSE}\n\n{PROSE} again."
    theme = Theme(plain=True)
    wrapped = render.draw_reply(source, 40, theme)
    theme.wraps_prose = False
    drawn = render.draw_reply(source, 40, theme)
    first, *_, last = drawn.split("\n")
    assert first == f"● {PROSE} {markup.strip('*')}here{markup.strip('*')}.".rstrip() and last == f"  {PROSE} again."
    assert all(cell_width(row) <= 40 for row in drawn.split("\n")[1:-1]), "items of lists hang as before"
    assert "".join(drawn.split()) == "".join(wrapped.split())
    assert all(cell_width(row) <= 40 for row in wrapped.split("\n"))


def test_only_the_last_screenfuls_of_a_history_are_drawn():
    turn = [TranscriptBlock(1, Speaker.USER, "a question"), TranscriptBlock(2, Speaker.ASSISTANT, "an answer\n\n" * 10)]
    shown = [*turn * 5, ContextRule(1, 2, ""), *turn * 5]
    assert render.first_visible(shown, 80, 500) == 0
    first = render.first_visible(shown, 80, 24)
    assert shown[first] == turn[0] and len(shown) - first == 4
    wide = [turn[0], msgspec.structs.replace(turn[1], text="海" * 400)] * 20  # 10 rows each
    assert len(wide) - render.first_visible(wide, 80, 24) == 8
    assert render.first_visible([], 80, 24) == 0
    assert render.first_visible([TranscriptBlock(1, Speaker.ASSISTANT, "x\n" * 1000)], 80, 24) == 0


def test_context_rule_fits_every_width():
    rule = ContextRule(5, 12, "What is a sliding window, and why would one want it at all", cleared=False)
    wide = rules.draw_context_rule(rule, 80, PLAIN)
    assert len(wide) == 80 and ' 12 turns out · context begins: "What is a sliding' in wide
    assert wide.startswith("─") and wide.endswith("─")
    assert " 12 turns out · context begins here " in rules.draw_context_rule(rule, 44, PLAIN)
    assert rules.draw_context_rule(rule, 20, PLAIN) == "─── 12 turns out ───"
    assert rules.draw_context_rule(rule, 8, PLAIN) == "────────"
    assert "1 turn out ·" in rules.draw_context_rule(ContextRule(5, 1, ""), 80, PLAIN)
    assert rules.draw_context_rule(ContextRule(5, 0, "", cleared=True), 31, PLAIN) == "───── context begins here ─────"


@given(st.text(), st.integers(1, 120), st.integers(0, 10**6))
def test_context_rule_is_as_wide_as_the_terminal(words: str, width: int, turns: int):
    for cleared in (False, True):
        assert (
            cell_width(strip_styles(rules.draw_context_rule(ContextRule(1, turns, words, cleared), width, COLOUR)))
            == width
        )


LEFT = ContextRule(
    5, 12, "What is a sliding window, and why would one want it at all", left=3, used_before=98_000, used=95_012
)


@pytest.mark.parametrize(
    ("width", "told"),
    [
        (100, '12 turns out, 3 just now (98k → 95k tokens) · context begins: "What is a sliding windo…"'),
        (60, '12 out, 3 now (98k → 95k) · "What is a sliding windo…"'),
        (50, "12 turns out, 3 just now (98k → 95k tokens)"),
        (40, "12 out, 3 now (98k → 95k)"),
        (20, "12 out, 3 now"),
        (12, ""),
    ],
)
def test_context_rule_says_what_has_just_left(width: int, told: str):
    assert rules.draw_context_rule(LEFT, width, PLAIN).strip("─ ") == told
    assert "12 turns out, 3 just now" not in rules.draw_context_rule(msgspec.structs.replace(LEFT, left=0), 100, PLAIN)


@given(st.text(alphabet="a日😀e\u0301\x1b\u202e "), st.integers(1, 140), st.integers(0, 99), st.booleans())
def test_context_rule_is_one_clean_row_at_any_width(words: str, width: int, left: int, plain: bool):
    rule = ContextRule(5, 12, words, left=left, used_before=98_000, used=95_012)
    drawn = rules.draw_context_rule(rule, width, PLAIN if plain else COLOUR)
    assert cell_width(strip_styles(drawn)) == width and "\n" not in drawn and "\u202e" not in drawn
    assert not plain or "\x1b" not in drawn
    assert width < 19 or " out" in drawn


def test_second_column_keeps_its_indent_when_it_wraps():
    text = "budget       100k (from a file with a long name)\nmessages   346   86% ███████░\nwords without any column"
    assert render.draw_plain(text, 40).split("\n") == [
        "  budget       100k (from a file with a",
        "               long name)",
        "  messages   346   86% ███████░",
        "  words without any column",
    ]
    assert render.draw_plain("予算残高  100k (from a file with a long name)", 30).split("\n") == [
        "  予算残高  100k (from a file",
        "            with a long name)",
    ]
    assert render.draw_plain(text, 100) == "\n".join(f"  {line}" for line in text.split("\n"))
    assert all(cell_width(row) <= 12 for row in render.draw_plain(text, 12).split("\n"))


class Body:
    tool_rule = ""

    def __init__(self, size: int) -> None:
        self.size = size

    def envelope(self, request: Request) -> int:
        return self.size

    def message(self, message: Message) -> int:
        return 0


def memory(used: int = 42_100, budget: int = 100_000, context: int = 200_000, out: int = 12) -> Memory:
    run = RunConfig(
        {"model": "openai/gpt-5-mini", "level": "med", "budget": budget},
        lambda _: ModelLimits(context, 0),
        lambda _: Body(4 * used),
    )
    return msgspec.structs.replace(empty_memory(run, "a"), window=Window(total=Totals(out, 0, 0)))


FULL = "amber-fox · openai/gpt-5-mini:med · ctx 42.1k/100k ██░░ 42% · 12 out · embedded"


def line(
    width: int,
    of: Memory | None = None,
    database: tuple[str, str] = ("dim", "embedded"),
    spent: UsageTotals = status.NOTHING_SPENT,
    theme: Theme = PLAIN,
) -> str:
    return status.draw_status_line("amber-fox", memory() if of is None else of, database, width, theme, spent)


def test_status_line_shows_the_parts_that_fit():
    assert line(100) == FULL
    assert line(len(FULL)) == FULL
    assert line(len(FULL) - 1) == FULL.replace("openai/", "")
    assert line(40) == "amber-fox · gpt-5-mini:med · ctx 42%"
    assert line(20) == "amber-fox · ctx 42%" and line(18) == "amber-f… · ctx 42%"
    assert line(12) == "ctx 42%"
    assert line(3) == ""


def test_status_line_has_the_configured_parts_in_their_order():
    def shown(*parts: str, width: int = 120, database: tuple[str, str] = ("dim", "embedded")) -> str:
        spent = UsageTotals(requests=3, input=12_345, output=4_500, cost=Decimal("0.1234"))
        return status.draw_status_line(
            "amber-fox", memory(), database, width, PLAIN, spent, ("dim", "2 at work"), parts
        )

    full = "amber-fox · 2 at work · openai/gpt-5-mini:med · ctx 42.1k/100k ██░░ 42% · 12 out · ↑12.3k ↓4.5k $0.12"
    assert shown(*status.STATUS_PARTS) == f"{full} · embedded"
    assert shown("database", "cost", "agent") == "embedded · ↑12.3k ↓4.5k $0.12 · amber-fox"
    assert shown("context", "out", "background") == "ctx 42.1k/100k ██░░ 42% · 12 out · 2 at work"
    assert shown("out", "context", width=15) == "ctx 42%"
    assert shown() == "" and shown(database=("warning", "gone")) == "gone"
    area = LiveArea(PLAIN, Buffer())
    area.parts, area.database = (), "embedded"
    assert area.around(1, 80, 24) == ([], [])
    area.hint = "Ctrl+C again leaves"
    assert area.around(1, 80, 24)[1] == ["  Ctrl+C again leaves"]
    area.hint, area.live.database_unreachable = "", True
    assert area.around(1, 80, 24)[1] == ["  embedded unreachable"]


def test_session_usage_is_shown_where_it_fits():
    spent = UsageTotals(requests=3, input=12_345, output=4_500, cost=Decimal("0.1234"), unpriced=1)
    full = FULL.replace(" · embedded", " · ↑12.3k ↓4.5k ≥$0.12 · embedded")
    short = full.replace("openai/", "")
    assert line(120, spent=spent) == full and line(len(full) - 1, spent=spent) == short
    assert line(len(short) - 1, spent=spent) == short.removesuffix(" · embedded")
    cost = FULL.replace("openai/", "").replace(" · embedded", " · ≥$0.12 · embedded")
    assert line(len(cost), spent=spent) == cost
    assert line(75, spent=spent) == FULL.replace("openai/", "")
    assert line(120, spent=spent, database=("warning", "gone")).endswith(" · ↑12.3k ↓4.5k ≥$0.12 · gone")
    assert line(12, spent=spent, database=("warning", "unreachable")) == "unreachable"


def test_status_line_says_why_where_there_is_room():
    """Why a request takes more than the budget, and for whose requests no price is known."""
    full = msgspec.structs.replace(memory(), settings={**memory().settings, "budget": 20_000})
    over = "openai/gpt-5-mini:med · ctx 42.1k/20k ████ 210%"
    assert line(120, full) == f"amber-fox · {over} (the newest turn stays) · 12 out · embedded"
    assert line(80, full) == f"amber-fox · {over} · 12 out · embedded"
    assert "stays" not in line(120)
    spent = UsageTotals(requests=1, input=900, output=4, unpriced=1)
    assert line(140, spent=spent).endswith(" · 12 out · ↑900 ↓4 no price known for openai · embedded")
    assert line(102, spent=spent).endswith(" · ↑900 ↓4 no price known · embedded")
    priced = UsageTotals(requests=2, input=900, output=4, unpriced=1, cost=Decimal("0.5"))
    assert line(140, spent=priced).endswith(" · ↑900 ↓4 ≥$0.50 · embedded")


def test_background_agents_are_shown_before_other_parts():
    def shown(width: int, text: str = "finch asks: /answer", database: tuple[str, str] = ("dim", "embedded")) -> str:
        return status.draw_status_line("amber-fox", memory(), database, width, PLAIN, others=("warning", text))

    assert shown(120) == FULL.replace("amber-fox", "amber-fox · finch asks: /answer")
    assert shown(60) == "amber-fox · finch asks: /answer · gpt-5-mini:med · ctx 42%"
    assert shown(32) == "finch asks: /answer · ctx 42%"
    assert shown(20).startswith("finch a")
    assert (
        status.draw_status_line("amber-fox", memory(), ("dim", "embedded"), 20, PLAIN, others=("dim", "finch done"))
        == "amber-fox · ctx 42%"
    )
    assert shown(40, database=("warning", "gone")).endswith(" · gone")
    for width in range(1, 130):
        for text in ("", "finch asks: /answer", "名前 done · 12 at work" * 9, "\x1b[2Jx\n"):
            for database in (("dim", "embedded"), ("warning", "embedded unreachable")):
                assert cell_width(line := shown(width, text, database)) <= width and "\n" not in line


@pytest.mark.parametrize("width", [20, 30, 40, 60, 80, 200])
def test_retry_wait_shows_its_keys_and_its_reason_in_rows_of_their_own(width: int):
    area = LiveArea(PLAIN, Buffer())
    area.live.memory, area.reply = opened(), LiveReply(1)
    area.reply.add(RetryScheduled(7.0, 3, "Anthropic is overloaded (529): try later.", "overloaded", "", 8))
    area.began = area.reply.since
    rows = [row for row in area.around(1, width, 24)[0] if row]
    assert all(cell_width(row) <= width for row in rows)
    assert rows[0].endswith(" · Enter: now · Esc stops") == (width >= 80)
    assert rows[0].endswith(" · Esc stops") == (width >= 40)
    if width >= 60:
        assert " Trying again in 7 s (attempt 3 of 8)" in rows[0]
    assert (" ".join(row.strip() for row in rows[1:]) == "Anthropic is overloaded (529): try later.") == (width >= 30)


def test_at_a_question_esc_does_not_stop_but_answer():
    area = LiveArea(PLAIN, Buffer())
    area.live.memory = opened()
    asyncio.run(_ask(area))
    rows = area.around(1, 80, 24)[0]
    assert not area.animated and not any("Esc stops" in row or " · 0 s" in row for row in rows)
    assert area.around(1, 80, 24)[1][0].startswith("  waiting for you · openai/")
    assert "Run it?" in rows and "  [y] yes · [n] no · Esc: no" in rows


async def _ask(area: LiveArea) -> None:
    area.dialog = Dialog(yes_or_no("Run it?", ()))


def test_follower_sees_a_question_beside_a_running_call_and_its_end():
    area, memory = LiveArea(PLAIN, Buffer()), opened()
    events = [AssistantMessage((Text("Look:"),)), ToolCall("a", "shell"), ToolCall("b", "edit_file"), ToolStarted("a")]
    for id, event in enumerate(events, 2):
        memory = evolve(memory, StoredEvent(id, "a", id, 0.0, event))
    area.live.memory, area.following = memory, True
    shown: list[str] = []
    for area.asking_elsewhere in (False, True, False):
        (row,) = [row for row in area.around(1, 80, 24)[0] if row]
        shown.append(row.split(" ", 1)[1].partition(" · ")[0].strip())
        assert area.animated is not area.asking_elsewhere
    running = "Running shell, edit_file"
    assert shown == [running, "Waiting for an answer in the other ikigai", running]


def test_command_of_the_user_is_shown_and_can_be_stopped():
    area = LiveArea(PLAIN, Buffer())
    area.command = "!make\x1b[2J all"
    (row,) = [row for row in area.around(1, 80, 24)[0] if "Running" in row]
    assert "Running !make<U+001B>[2J all · " in row and row.endswith(" · Esc stops")


CHANGED = "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n same\tx\r\n-old\n+new\x1b[2J\u202e"


@pytest.mark.parametrize("width", [20, 40, 80])
def test_diff_of_an_edit_is_shown_in_colors_with_nothing_hidden(width: int):
    drawn = render.draw_block(TranscriptBlock(1, Speaker.TOOL_RESULT, "Edited x.", diff=CHANGED), width, COLOUR)
    assert all(cell_width(strip_styles(row)) <= width for row in drawn.split("\n"))
    told = [cut(line, width - 2) for line in ("1   same    x", "2 - old", "2 + new<U+001B>[2J<U+202E>")]
    assert strip_styles(drawn).split("\n") == ["← Edited x.", *("  " + line for line in told)]
    assert "\x1b[31mold" in drawn and "\x1b[32mnew" in drawn
    assert strip_styles(
        render.draw_block(TranscriptBlock(1, Speaker.TOOL_RESULT, "Edited x.", diff=CHANGED), width, PLAIN)
    ) == strip_styles(drawn)


def test_all_of_a_long_change_can_be_opened():
    entries, long = Entries(PLAIN, "fold"), CHANGED.replace("2 @@", "22 @@") + "\n+more\tx\x1b[m" * 20
    short, changed = (
        TranscriptBlock(n, Speaker.TOOL_RESULT, "Edited x.", diff=diff) for n, diff in ((1, CHANGED), (2, long))
    )
    entries.fold(short, 60)
    assert not entries.folded
    entries.fold(changed, 60)
    assert entries.folded.startswith("Edited x.\n\n--- a/x\n+++ b/x\n@@") and "\x1b" not in entries.folded
    assert entries.folded.count("\n+more   x<U+001B>[m") == 20
    rows = [entry.text.split("\n") for block in (short, changed) for entry in entries.draw(block, 60)]
    assert len(rows[0]) == 4 and len(rows[1]) == 12 and rows[1][-1] == "  … 13 more lines of changes (Ctrl+O)"


def test_newest_long_result_can_be_opened():
    entries = Entries(COLOUR, "fold")
    long, short = (
        TranscriptBlock(1, Speaker.TOOL_RESULT, "a\nb\nc\nd\ne\nf\ng\nh\n"),
        TranscriptBlock(2, Speaker.TOOL_RESULT, "a\nb\nc\n"),
    )
    entries.fold(long, 40)
    entries.fold(short, 40)
    assert entries.folded is long.text
    (drawn,) = (entry.text for entry in entries.draw(long, 40))
    assert strip_styles(drawn).endswith("  … 2 more lines (Ctrl+O)")
    entries.fold(TranscriptBlock(3, Speaker.TOOL_RESULT, "another\n" * 9), 40)
    assert not any("Ctrl+O" in entry.text for entry in entries.draw(long, 40))


@pytest.mark.parametrize("line", ["x" * 39, "海" * 20, "🦭" * 20, "a海" * 13, "\t" * 10 + "x", "ab\t" * 10 + "y"])
def test_result_with_a_line_that_is_wider_than_the_screen_can_be_opened(line: str):
    entries, text = Entries(PLAIN, "fold"), f"first\n{line}\nlast"
    entries.fold(TranscriptBlock(1, Speaker.TOOL_RESULT, text), 40)
    assert entries.folded == text
    (drawn,) = (entry.text for entry in entries.draw(TranscriptBlock(1, Speaker.TOOL_RESULT, text), 40))
    first, cut_row, last = drawn.split("\n")
    assert (first, last) == ("← first", "  last") and cut_row.endswith("… (Ctrl+O)") and cell_width(cut_row) <= 40
    fits = TranscriptBlock(2, Speaker.TOOL_RESULT, "海" * 19 + "\n" + "x" * 38)
    entries.fold(fits, 40)
    assert entries.folded_in == 1 and render.draw_block(fits, 40, PLAIN) == f"← {fits.text}".replace("\n", "\n  ")


@pytest.mark.parametrize(("keys", "hint"), [(("f4", "ctrl-o"), " (F4)"), ((), "")])
def test_hint_names_the_key_that_opens_a_cut_result(keys: tuple[str, ...], hint: str):
    theme = Theme()
    theme.bind_keys({"output": keys})
    result = TranscriptBlock(1, Speaker.TOOL_RESULT, "a\n" * 9)
    assert strip_styles(render.draw_block(result, 40, theme, opens=True)).endswith(f"  … 3 more lines{hint}")


def test_output_of_a_user_command_can_be_opened_where_it_is_cut():
    entries = Entries(PLAIN, "fold")
    for lines, opens in ((39, False), (40, False), (60, True)):
        block = TranscriptBlock(lines, Speaker.USER, "!seq 60\n" + "row\n" * lines)
        entries.fold(block, 60)
        (drawn,) = (entry.text for entry in entries.draw(block, 60))
        assert drawn.endswith("  … 21 more lines (Ctrl+O)") == opens == (entries.folded_in == lines)


@pytest.mark.parametrize("speaker", [Speaker.USER, Speaker.NOTE])
@pytest.mark.parametrize("words", ["a walrus and a seal ", "海象と海豹、"])
@pytest.mark.parametrize("width", [40, 80])
def test_long_lines_count_as_the_rows_that_they_take(speaker: Speaker, words: str, width: int):
    lines = [
        "/recall walrus",
        *(f"{n} {words * (600 // len(words))}" for n in range(8)),
        "Sources: #1, #2. /search #ID",
    ]
    block, entries = TranscriptBlock(7, speaker, "\n".join(lines)), Entries(PLAIN, "fold")
    entries.fold(block, width)
    assert (entries.folded, entries.folded_in) == (block.text, 7)
    (drawn,) = (entry.text for entry in entries.draw(block, width))
    rows = drawn.split("\n")
    assert len(rows) == render.MAX_MESSAGE_ROWS + 1 and max(map(cell_width, rows)) <= width
    (told,) = (row for row in rows if re.fullmatch(r"  … \d more lines \(Ctrl\+O\)", row))
    full = sum(strip_styles(drawn).count(f"  {n} ") for n in range(8)) - 1  # the last one is cut
    assert int(told[4]) in (8 - full, 9 - full, 10 - full)
    assert rows[-1].endswith(lines[-1]) == (speaker is Speaker.NOTE)
    few = TranscriptBlock(8, speaker, "\n".join((lines[0], lines[1], lines[-1])))
    entries.fold(few, width)
    assert entries.folded_in == 7 and "in all" not in "".join(entry.text for entry in entries.draw(few, width))


def test_last_line_of_a_long_answer_stays_only_where_it_is_short():
    for text in ("word " * 2_000, "a\n" * 50 + "word " * 2_000):
        rows = render.draw_block(TranscriptBlock(1, Speaker.NOTE, text), 60, PLAIN).split("\n")
        assert len(rows) == render.MAX_MESSAGE_ROWS + 1 and re.search(r"in all|more lines", rows[-1])


def opened() -> Memory:
    return evolve(memory(), StoredEvent(1, "a", 1, 0.0, UserMessage("hi")))


def test_unreachable_database_is_shown_at_any_width():
    trouble = ("warning", "unreachable")
    assert line(100, database=trouble).endswith("unreachable")
    assert line(22, database=trouble) == "ctx 42% · unreachable"
    assert line(12, database=trouble) == "unreachable"
    assert line(5, database=trouble) == "unre…"


NEUTRAL, YELLOW, RED = ("2", ""), ("33", " !"), ("31", " !!")


@pytest.mark.parametrize(
    ("budget", "turns", "opened", "looks"),
    [
        *((0, (143_000,), 0, NEUTRAL), (0, (72_000, 72_000), 0, YELLOW), (0, (171_000,), 0, RED)),
        *((0, (300_000,), 0, RED), (100_000, (49_000, 50_000), 0, NEUTRAL), (180_000, (90_000, 89_000), 0, NEUTRAL)),
        *((500_000, (20_000, 150_000), 0, YELLOW), (100_000, (150_000,), 0, YELLOW), (100_000, (175_000,), 0, RED)),
        *((500_000, (150_000, 20_000), 0, NEUTRAL), (500_000, (90_000, 30_000), 59_000, NEUTRAL)),
        *((500_000, (20_000,), 150_000, YELLOW), (20_000, (), 172_000, RED), (20_000, (19_000,), 90_000, NEUTRAL)),
    ],
)
def test_meter_warns_where_the_room_is_full_and_nothing_can_slide_out(
    budget: int, turns: tuple[int, ...], opened: int, looks: tuple[str, str]
):
    """Use a room of 180k tokens: a context of 200k less a tenth."""
    ended = (Turn(n, n, (), 4 * size, Totals(n), Totals(), Totals()) for n, size in enumerate(turns))
    window = reduce(Window.push, ended, Window())
    busy = OpenTurn(9, 9, size=4 * opened) if opened else None
    shown = line(100, msgspec.structs.replace(memory(0, budget), window=window, open=busy), theme=COLOUR)
    code, mark = looks
    assert f"\x1b[{code}mctx " in shown and f"%{mark}\x1b[0m" in shown.replace(status.OVER_BUDGET, "")


def test_no_model_and_no_memory():
    none = empty_memory(RunConfig({"model": None}, lambda _: ModelLimits(0, 0), lambda _: Body(0)), "a")
    assert line(80, none) == "amber-fox · no model · embedded"
    assert status.draw_status_line("amber-fox", None, ("dim", ""), 80, PLAIN) == "amber-fox"


def test_search_terms_are_highlighted_also_where_they_wrap():
    line = MarkedText("  one two three four", ((6, 9), (10, 15)))
    assert render.draw_marked([MarkedText("#1  head"), line], 80, PLAIN) == "  #1  head\n    one two three four"
    drawn = render.draw_marked([line], 16, COLOUR)
    assert strip_styles(drawn) == "    one two\n  three four"
    assert drawn == f"    one {COLOUR.paint('found', 'two')}\n  {COLOUR.paint('found', 'three')} four"


@given(st.text(alphabet="ab 日é", max_size=40), st.integers(4, 30), st.integers(0, 20), st.integers(1, 20))
def test_marked_lines_fit_and_lose_nothing(text: str, width: int, first: int, length: int):
    text = " ".join(text.split())
    places = ((first, min(first + length, len(text))),) if first < len(text) else ()
    rows = strip_styles(render.draw_marked([MarkedText(text, places)], width, COLOUR)).split("\n")
    assert all(cell_width(row) <= width for row in rows)
    assert "".join("".join(rows).split()) == "".join(text.split())
