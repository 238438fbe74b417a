"""These tests put foreign text into every place that shows some: it reaches the terminal only as text."""

import re
from collections.abc import Callable
from functools import cache, partial

import pytest
from prompt_toolkit.buffer import Buffer, CompletionState
from prompt_toolkit.completion import Completion
from prompt_toolkit.document import Document
from prompt_toolkit.layout.controls import BufferControl
from prompt_toolkit.layout.processors import TransformationInput

from ikigai.core.events.events import AssistantMessage, Event, StoredEvent, UserMessage
from ikigai.core.events.messages import Citation, Text, ToolCall
from ikigai.core.request.model import ModelLimits
from ikigai.core.request.reply import Delta, RetryScheduled, TextDelta, ThinkingDelta, ToolCallDelta
from ikigai.core.state.effective_settings import RunConfig
from ikigai.core.state.fold import empty_memory, evolve
from ikigai.core.state.memory import Memory
from ikigai.core.text.sanitize import Cleaner, clean, storable
from ikigai.core.views.context_rule import ContextRule
from ikigai.core.views.exclusion_reason import Exclusions
from ikigai.core.views.questions import Question, yes_or_no
from ikigai.core.views.transcript import Speaker, TranscriptBlock
from ikigai.terminal.browser import frame as browser_frame
from ikigai.terminal.browser.items import build_items
from ikigai.terminal.browser.picker_page import draw_entry
from ikigai.terminal.browser.picker_source import PickerRow
from ikigai.terminal.browser.view import BrowserView
from ikigai.terminal.input.prompt import VisibleControls
from ikigai.terminal.output.dialog import Dialog
from ikigai.terminal.output.live_area import LiveArea
from ikigai.terminal.output.live_reply import FinishedBlock, LiveReply
from ikigai.terminal.render import blocks as render
from ikigai.terminal.render import diff as changes
from ikigai.terminal.render import rule_line as rules
from ikigai.terminal.render.question_lines import draw_question
from ikigai.terminal.render.theme import Theme
from tests.core.encoders import encoder
from tests.core.test_sanitize import every, forbidden

HOSTILE = "a\x1b]52;c;eA==\x07 \x9b31m\u202eb \x1b[2J\x00\x08c"
OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]")
JOINED = re.compile("👩\u200d💻")
"""Texts in which a joiner has its place."""
PLAIN = Theme(plain=True)
"""A theme that draws no escape sequence of our own."""


@cache
def bad() -> list[str]:
    return [char for char in every() if forbidden(char) and char != "\r"]


@cache
def any_bad() -> re.Pattern[str]:
    return re.compile(f"[{re.escape(''.join(bad()))}]")


def chunks() -> list[str]:
    return ["".join(bad()[at : at + 100]) for at in range(0, len(bad()), 100)]


def memory(*events: Event, model: str = "m/n") -> Memory:
    made = empty_memory(
        RunConfig({"model": model, "budget": 1_000}, lambda _: ModelLimits(8_000, 100), lambda _: encoder("chat/tiny")),
        "a",
    )
    for id, event in enumerate(events, start=1):
        made = evolve(made, StoredEvent(id, "a", id, 0.0, event))
    return made


OPEN = (UserMessage("?"), AssistantMessage((Text("!"),)))


def agent(area: LiveArea, text: str) -> None:
    area.agent = text


def model(area: LiveArea, text: str) -> None:
    area.live.memory = memory(model=f"m/{storable(text)}")


def queue(area: LiveArea, text: str) -> None:
    area.live.waiting = (text,)


def tools(area: LiveArea, text: str) -> None:
    area.live.memory = memory(*OPEN, ToolCall("c", storable(text), "{}"))


def output(area: LiveArea, text: str) -> None:
    area.live.memory = memory(*OPEN, ToolCall("c", "look", "{}"))
    area.live.outputs = {"c": text}


def replying(area: LiveArea, *deltas: Delta | RetryScheduled) -> None:
    area.live.memory, area.reply = memory(UserMessage("?")), LiveReply(1)
    for delta in deltas:
        area.reply.add(delta)


def saying(area: LiveArea, text: str) -> None:
    replying(area, TextDelta(text))


def calling(area: LiveArea, text: str) -> None:
    replying(area, ToolCallDelta(0, "c", text))


def thinking(area: LiveArea, text: str) -> None:
    replying(area, ThinkingDelta(text))


def waiting(area: LiveArea, text: str) -> None:
    replying(area, RetryScheduled(7.0, 3, text))


def command(area: LiveArea, text: str) -> None:
    area.command = text


def question(area: LiveArea, text: str) -> None:
    area.dialog = Dialog(yes_or_no(text, ()))


def completions(area: LiveArea, text: str) -> None:
    area.buffer.complete_state = CompletionState(Document(""), [Completion(text)])


def explained(area: LiveArea, text: str) -> None:
    area.buffer.complete_state = CompletionState(Document(""), [Completion("x", display_meta=text)])


def others(area: LiveArea, text: str) -> None:
    area.others = ("dim", text)


def hint(area: LiveArea, text: str) -> None:
    area.hint = text


def database(area: LiveArea, text: str) -> None:
    area.database = text


PUTS = (
    *(agent, model, queue, tools, output, saying, calling, thinking, waiting, command, question, completions),
    *(explained, others, hint, database),
)


def around(put: Callable[[LiveArea, str], None], text: str, width: int) -> str:
    """Return the rows around the input with the text in one place of them."""
    area = LiveArea(PLAIN, Buffer())
    area.live.memory = memory()
    put(area, text)
    above, below = area.around(1, width, 60)
    return "\n".join((*above, *below))


def typed(text: str, width: int) -> str:
    shown = TransformationInput(BufferControl(), Document(text), 0, lambda at: at, [("", text)], width, 24)
    return "".join(fragment[1] for fragment in VisibleControls().apply_transformation(shown).fragments)


def spoken(speaker: Speaker) -> Callable[[str, int], str]:
    def draw(text: str, width: int) -> str:
        sources = (Citation("https://example.com", text),) if speaker is Speaker.SOURCES else ()
        return render.draw_block(TranscriptBlock(1, speaker, text, sources=sources), width, PLAIN)

    return draw


def browsed(text: str, width: int) -> str:
    view = BrowserView(PLAIN, width, 20)
    view.show(build_items([StoredEvent(1, "a", 1, 0.0, UserMessage(text))], memory(), Exclusions([]), {}))
    return "\n".join(view.frame())


def questioned(part: str, text: str, width: int) -> str:
    marks = {"heading": {"headings": (1,)}, "subject": {"subject": (1,)}, "diff": {"diffs": ((1, 4),)}}.get(part, {})
    lines = ("@@ -1 +1 @@", f"-{text}", f"+{text}") if part == "diff" else (text,)
    question = Question("Run it?", ("in a folder", *lines), (), default="n", **marks)
    return draw_question(question, width, PLAIN)


SINKS: dict[str, Callable[[str, int], str]] = {
    **{put.__name__: partial(around, put) for put in PUTS},
    **{str(speaker): spoken(speaker) for speaker in Speaker},
    "input": typed,
    "answer of a command": render.draw_plain,
    "notice": lambda text, width: render.draw_notice(text, width, PLAIN),
    "how thoughts begin": lambda text, width: render.draw_thought(text, 3.0, width, PLAIN),
    "whole thoughts": lambda text, width: render.draw_thought(text, 3.0, width, PLAIN, full=True),
    "reply": lambda text, width: render.draw_reply(text, width, PLAIN),
    "code": lambda text, width: render.draw_reply(f"```python\n{text}\n```", width, PLAIN),
    "table": lambda text, width: render.draw_reply(f"| a |\n|---|\n| {text} |", width, PLAIN),
    "where a link leads": lambda text, width: render.draw_reply(f"[a](http://x/{text.replace(' ', '')})", width, PLAIN),
    **{f"question, {part}": partial(questioned, part) for part in ("heading", "subject", "diff", "reason")},
    "change": lambda text, width: "\n".join(changes.draw_first_rows(f"@@ -1 +1 @@\n-{text}\n+{text}", width, PLAIN)),
    "another agent": lambda text, width: rules.draw_agent_heading(text, width, PLAIN),
    "rule": lambda text, width: rules.draw_context_rule(ContextRule(1, 2, text), width, PLAIN),
    "browser": browsed,
    "head of the browser": lambda text, width: browser_frame.draw_head(text, width, PLAIN),
    "foot of the browser": lambda text, width: "\n".join(browser_frame.draw_foot(text, "", (), width, 3, PLAIN)),
    "entry of a picker": lambda text, width: "\n".join(
        draw_entry(PickerRow("", text, (text,), text), True, width, 2, PLAIN)
    ),
    "search in the browser": lambda text, width: browser_frame.draw_typed("/", text, width, PLAIN),
}
"""All places that show foreign text: functions of the text and a width that return what the terminal gets."""
PARTLY = ("model", "tools", "saying", "rule", "where a link leads")
"""Places that shorten a text, drop what cannot be stored, or write it as an address."""


@pytest.mark.parametrize("sink", SINKS)
async def test_foreign_text_is_shown_as_text(sink: str):
    drawn = SINKS[sink](HOSTILE, 160)
    assert not OBEYED.search(drawn), repr(drawn)
    assert ("<U+202E>" if sink != "where a link leads" else "U+202E") in drawn, "it is there, and can be seen"


@pytest.mark.parametrize("sink", SINKS)
async def test_code_points_are_neither_obeyed_nor_hidden(sink: str):
    """Show each code point between two letters with which it makes no sequence, and that need no joiner."""
    for chars in chunks():
        drawn = SINKS[sink]("é" + "é".join(chars) + "é", 2_000)
        left = any_bad().search(drawn)
        assert not left, f"U+{ord(left[0]):04X} in {drawn!r}"
        if sink not in PARTLY:
            hidden = [f"U+{ord(char):04X}" for char in chars if f"<U+{ord(char):04X}>" not in drawn]
            assert not hidden


PAYLOADS = (
    "a\x1b]0;owned\x07b",
    "a\x1b]52;c;eA==\x1b\\b",
    "a\x1b]8;;http://x\x1b\\b\x1b]8;;\x1b\\",
    "a\x1b[2J\x1b[3J\x1b[Hb",
    "a\x9b2Jb\x9d0;t\x9cc",
    "a\x1bP1$r0m\x1b\\b\x1bcd",
    "a\x1b[?1049hb\x1b[?25l",
    "x\u202ey\u2066z",
    "👩\u200d💻\u200da\u200db",
    "🏴\U000e0067\U000e007f\r\nb\rc",
    "a\x1b[38;5;1",
    "a\x1b]0;open",
)


@pytest.mark.parametrize("payload", PAYLOADS)
def test_payload_stays_text_however_it_is_split(payload: str):
    """Cut the text in two and in three at every place, as it streams by and as it goes up."""
    whole, shown = clean(payload), ""
    for first in range(len(payload) + 1):
        for second in range(first, len(payload) + 1):
            parts = payload[:first], payload[first:second], payload[second:]
            cleaner = Cleaner()
            assert "".join(map(cleaner.feed, parts)) + cleaner.flush() == whole
        reply = LiveReply(1)
        for part in (payload[:first], payload[first:]):
            reply.add(TextDelta(part))
            tail = "\n".join(reply.tail(200, 20)[0])
            assert not any_bad().search(JOINED.sub("", tail)), (first, tail)
        (piece,) = (piece for piece in reply.stored(payload) if isinstance(piece, FinishedBlock))
        drawn = render.draw_piece(piece.source, piece.context, 200, PLAIN)
        assert not any_bad().search(JOINED.sub("", drawn)) and drawn == (shown or drawn)
        shown = drawn
