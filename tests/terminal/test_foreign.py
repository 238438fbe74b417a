"""Text that is not ours in every place that shows some: it reaches no terminal as anything but text."""

import re
from collections.abc import Callable
from functools import partial

import pytest
from prompt_toolkit.buffer import Buffer, CompletionState
from prompt_toolkit.completion import Completion
from prompt_toolkit.document import Document
from prompt_toolkit.layout.controls import BufferControl
from prompt_toolkit.layout.processors import TransformationInput

from ikigai.core.events import AssistantMessage, Event, StoredEvent, UserMessage
from ikigai.core.messages import Text, ToolCall
from ikigai.core.model import Limits
from ikigai.core.questions import yes_or_no
from ikigai.core.request.reply import Delta, TextDelta, ThinkingDelta, ToolCallDelta, Waiting
from ikigai.core.sanitize import Cleaner, clean, storable
from ikigai.core.state.fold import blank, evolve
from ikigai.core.state.memory import Memory
from ikigai.core.state.run_config import Run
from ikigai.core.views.exclusion import Reasons
from ikigai.core.views.transcript import Block, Rule, Speaker
from ikigai.terminal.browser import frame as browser_frame
from ikigai.terminal.browser.items import items
from ikigai.terminal.browser.view import View
from ikigai.terminal.input.prompt import Visible
from ikigai.terminal.output.dialog import Dialog
from ikigai.terminal.output.live_area import Area
from ikigai.terminal.output.live_reply import LiveReply, Piece
from ikigai.terminal.render import blocks as render
from ikigai.terminal.render import context_rule as rules
from ikigai.terminal.render import diff as changes
from ikigai.terminal.render.theme import Theme
from tests.core.encoders import encoder
from tests.core.test_sanitize import EVERY, forbidden

HOSTILE = "a\x1b]52;c;eA==\x07 \x9b31m\u202eb \x1b[2J\x00\x08c"
OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]")
BAD = [char for char in EVERY if forbidden(char) and char != "\r"]
FORBIDDEN = re.compile(f"[{re.escape(''.join(BAD))}]")
CHUNKS = ["".join(BAD[at : at + 100]) for at in range(0, len(BAD), 100)]
JOINED = re.compile("👩\u200d💻")
"""Where a joiner has its place."""
PLAIN = Theme(plain=True)
"""Draws no escape sequence of our own."""


def memory(*events: Event, model: str = "m/n") -> Memory:
    made = blank(
        Run({"model": model, "budget": 1_000}, lambda _: Limits(8_000, 100), lambda _: encoder("chat/tiny")), "a"
    )
    for id, event in enumerate(events, start=1):
        made = evolve(made, StoredEvent(id, "a", id, 0.0, event))
    return made


OPEN = (UserMessage("?"), AssistantMessage((Text("!"),)))


def agent(area: Area, text: str) -> None:
    area.agent = text


def model(area: Area, text: str) -> None:
    area.memory = memory(model=f"m/{storable(text)}")


def queue(area: Area, text: str) -> None:
    area.queue = (text,)


def tools(area: Area, text: str) -> None:
    area.memory = memory(*OPEN, ToolCall("c", storable(text), "{}"))


def output(area: Area, text: str) -> None:
    area.memory = memory(*OPEN, ToolCall("c", "look", "{}"))
    area.outputs = {"c": text}


def replying(area: Area, *deltas: Delta | Waiting) -> None:
    area.memory, area.reply = memory(UserMessage("?")), LiveReply(1)
    for delta in deltas:
        area.reply.add(delta)


def saying(area: Area, text: str) -> None:
    replying(area, TextDelta(text))


def calling(area: Area, text: str) -> None:
    replying(area, ToolCallDelta(0, "c", text))


def thinking(area: Area, text: str) -> None:
    replying(area, ThinkingDelta(text))


def waiting(area: Area, text: str) -> None:
    replying(area, Waiting(7.0, 3, text))


def command(area: Area, text: str) -> None:
    area.command = text


def question(area: Area, text: str) -> None:
    area.dialog = Dialog(yes_or_no(text, ()))


def completions(area: Area, text: str) -> None:
    area.buffer.complete_state = CompletionState(Document(""), [Completion(text)])


def explained(area: Area, text: str) -> None:
    area.buffer.complete_state = CompletionState(Document(""), [Completion("x", display_meta=text)])


def others(area: Area, text: str) -> None:
    area.others = ("dim", text)


def hint(area: Area, text: str) -> None:
    area.hint = text


def database(area: Area, text: str) -> None:
    area.database = text


PUTS = (
    *(agent, model, queue, tools, output, saying, calling, thinking, waiting, command, question, completions),
    *(explained, others, hint, database),
)


def around(put: Callable[[Area, str], None], text: str, width: int) -> str:
    """The rows around the input with the text in one place of them."""
    area = Area(PLAIN, Buffer())
    area.memory = memory()
    put(area, text)
    above, below = area.around(1, width, 60)
    return "\n".join((*above, *below))


def typed(text: str, width: int) -> str:
    shown = TransformationInput(BufferControl(), Document(text), 0, lambda at: at, [("", text)], width, 24)
    return "".join(fragment[1] for fragment in Visible().apply_transformation(shown).fragments)


def spoken(speaker: Speaker) -> Callable[[str, int], str]:
    return lambda text, width: render.block(Block(1, speaker, text), width, PLAIN)


def browsed(text: str, width: int) -> str:
    view = View(PLAIN, width, 20)
    view.show(items([StoredEvent(1, "a", 1, 0.0, UserMessage(text))], memory(), Reasons([]), {}))
    return "\n".join(view.frame())


SINKS: dict[str, Callable[[str, int], str]] = {
    **{put.__name__: partial(around, put) for put in PUTS},
    **{str(speaker): spoken(speaker) for speaker in Speaker},
    "input": typed,
    "answer of a command": render.plain,
    "notice": lambda text, width: render.notice(text, width, PLAIN),
    "how thoughts begin": lambda text, width: render.thought(text, 3.0, width, PLAIN),
    "whole thoughts": lambda text, width: render.thought(text, 3.0, width, PLAIN, full=True),
    "reply": lambda text, width: render.reply(text, width, PLAIN),
    "code": lambda text, width: render.reply(f"```python\n{text}\n```", width, PLAIN),
    "table": lambda text, width: render.reply(f"| a |\n|---|\n| {text} |", width, PLAIN),
    "where a link leads": lambda text, width: render.reply(f"[a](http://x/{text.replace(' ', '')})", width, PLAIN),
    "proposal": lambda text, width: render.proposed([text, f"+{text}"], width, PLAIN),
    "change": lambda text, width: "\n".join(changes.few(f"@@ -1 +1 @@\n-{text}\n+{text}", width, PLAIN)),
    "another agent": lambda text, width: render.another(text, width, PLAIN),
    "rule": lambda text, width: rules.rule(Rule(1, 2, text), width, PLAIN),
    "browser": browsed,
    "head of the browser": lambda text, width: browser_frame.head(text, None, str, width, PLAIN),
    "foot of the browser": lambda text, width: browser_frame.foot(text, "", False, width, PLAIN),
    "search in the browser": lambda text, width: browser_frame.query(text, width, PLAIN),
}
"""All places where text that is not ours is shown: the text and a width → what is written to the terminal."""
PARTLY = ("model", "tools", "saying", "rule", "where a link leads")
"""Those that show only so much of a text, or no more of it than can be stored, or that write it as an address."""


@pytest.mark.parametrize("sink", SINKS)
async def test_foreign_text_is_shown_as_text(sink: str):
    drawn = SINKS[sink](HOSTILE, 160)
    assert not OBEYED.search(drawn), repr(drawn)
    assert ("<U+202E>" if sink != "where a link leads" else "U+202E") in drawn, "it is there, and can be seen"


@pytest.mark.parametrize("sink", SINKS)
async def test_no_code_point_is_obeyed_or_hidden_anywhere(sink: str):
    """Each stands between two letters with which it makes no sequence, and that need no joiner."""
    for chars in CHUNKS:
        drawn = SINKS[sink]("é" + "é".join(chars) + "é", 2_000)
        left = FORBIDDEN.search(drawn)
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
def test_no_split_of_a_payload_makes_it_work(payload: str):
    """Cut in two and in three at every place, as it streams by and as it goes up."""
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
            assert not FORBIDDEN.search(JOINED.sub("", tail)), (first, tail)
        (piece,) = (piece for piece in reply.stored(payload) if isinstance(piece, Piece))
        drawn = render.piece(piece.source, piece.voice, 200, PLAIN)
        assert not FORBIDDEN.search(JOINED.sub("", drawn)) and drawn == (shown or drawn)
        shown = drawn
