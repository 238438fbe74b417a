"""Conversations that every vendor's adapter has to carry on alike, as data, and an agent that carries them on.

Nothing here is any vendor's: what a model says is written down once, and so is what a later request must hold of it.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ikigai.core.events.events import AssistantMessage, Event, UsageReported, UserMessage
from ikigai.core.events.messages import Image, ReplyBlock, StopReason, Text, Thinking, ToolCall, ToolResult, ToolSpec
from ikigai.core.request.cross_model import portable_name
from ikigai.core.request.model import Provider
from ikigai.core.request.reply import StreamFailed, StreamFinished
from ikigai.core.state.inputs import Approved, CallModel, Failed, Replied, RunTool, StartTool, Submitted, ToolDone
from ikigai.core.state.memory import AgentStatus, next_request
from tests.core.agent import Agent
from tests.providers.conftest import collect, reply
from tests.support.invariants import sound

TOOLS = (
    ToolSpec("ls", "List a folder", '{"type":"object","properties":{"path":{"type":"string"}}}'),
    ToolSpec("cat", "Show a file", '{"type":"object","properties":{"path":{"type":"string"},"n":{"type":"integer"}}}'),
)
PICTURE = Image("image/png", "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9aw==", 64, 48)


class Step(NamedTuple):
    """One reply and what leads to it: the user's words, if any, and at the end the results of the calls in it.

    In the middle of a turn the user's words are steering. A result is its content and whether it is an error; the last
    one shows the picture `shown`.
    """

    said: tuple[ReplyBlock, ...]
    user: str = ""
    images: tuple[Image, ...] = ()
    stop: StopReason = StopReason.END
    results: tuple[tuple[str, bool], ...] = ()
    shown: tuple[Image, ...] = ()


FIRST, SECOND = "Zmlyc3Q/dGhvdWdodA+/8w==", "c2Vjb25k+XRob3VnaHQ/Lw=="
LS, CAT, AGAIN = (
    ToolCall("call_1", "ls", '{"path": "é/\\"x\\""}'),
    ToolCall("call_2", "cat", '{"path": "a.txt", "n": 3}'),
    ToolCall("call_3", "ls"),
)
ODD = (ToolCall("call:1|fc/é", "ls"), ToolCall("x" * 90, "cat", '{"path": "b"}'))
THANKS = Step((Text("You are welcome."),), "Thanks.")

CONVERSATIONS: dict[str, tuple[Step, ...]] = {
    "text": (
        Step((Text("Hello 👩‍👩‍👧, é!\n\n- one\n- 漢字"),), 'Say "hello"\nin two lines.'),
        Step((Text("And \\ again."),), "Once more.\t"),
        THANKS,
    ),
    "thinking, then text": (
        Step((Thinking("I need 27 * 453.", FIRST), Text("12,231.")), "What is 27 * 453?"),
        Step((Thinking("The same.", SECOND), Text("12,231, still.")), "Sure?"),
        THANKS,
    ),
    "one tool": (
        Step(
            (Thinking("I want to list.", FIRST), LS), "List it.", stop=StopReason.TOOLS, results=(("a.txt\n", False),)
        ),
        Step((Text("One file."),)),
        THANKS,
    ),
    "tools in parallel, one with an error": (
        Step(
            (Thinking("All at once.", FIRST), LS, CAT, AGAIN),
            "Look around.",
            stop=StopReason.TOOLS,
            results=(("a.txt", False), ("no such file", True), ("", False)),
        ),
        Step((Text("One is missing."),)),
        THANKS,
    ),
    "a tool that shows a picture": (
        Step((LS,), "Look.", stop=StopReason.TOOLS, results=(("a.png", False),), shown=(PICTURE,)),
        Step((AGAIN, CAT), stop=StopReason.TOOLS, results=(("a.txt", False), ("", False)), shown=(PICTURE, PICTURE)),
        Step((Text("A cat, and two more."),)),
        THANKS,
    ),
    "two rounds of tools in one turn": (
        Step((Thinking("First this.", FIRST), LS), "Look.", stop=StopReason.TOOLS, results=(("a.txt", False),)),
        Step((Thinking("Then that.", SECOND), CAT), stop=StopReason.TOOLS, results=(("words", False),)),
        Step((Text("It holds words."),)),
        THANKS,
    ),
    "words before a call": (
        Step((Text("I look."), LS), "List it.", stop=StopReason.TOOLS, results=(("a.txt", False),)),
        Step((Text("One file."),)),
        THANKS,
    ),
    "an image": (
        Step((Text("A cat."),), "What is it?", (PICTURE,)),
        Step((Text("Two cats."),), "", (PICTURE, PICTURE)),
        THANKS,
    ),
    "a refusal": (Step((Text("I cannot help with that."),), "Do harm.", stop=StopReason.REFUSED), THANKS),
    "cut by the length limit": (Step((Text("Once upon"),), "Tell a story.", stop=StopReason.LENGTH), THANKS),
    "cut within a call": (
        Step((Text("I look."), AGAIN), "List it.", stop=StopReason.LENGTH),
        Step((Text("Too long."),)),
        THANKS,
    ),
    "steering": (
        Step((Thinking("First this.", FIRST), LS), "Look.", stop=StopReason.TOOLS, results=(("a.txt", False),)),
        Step((Text("Stopped."),), "No, leave it."),
        THANKS,
    ),
    "odd ids": (
        Step(ODD, "Look.", stop=StopReason.TOOLS, results=(("b", False), ("words", True))),
        Step((Text("Seen."),)),
        THANKS,
    ),
}


def expected(steps: tuple[Step, ...], upto: int, own: Callable[[int], bool]) -> list[tuple[Any, ...]]:
    """Return the messages that the request for the reply of step `upto` holds, in the form of `bodies`.

    `own` returns True for a step whose thinking goes back to the provider of this request.
    """
    found: list[tuple[Any, ...]] = []
    for at, step in enumerate(steps[: upto + 1]):
        found += [("image", image.data) for image in step.images]
        found += [("user", step.user)] if step.user else []
        if at < upto:
            found += [told for block in step.said for told in _told(block, own(at))]
            calls = [block for block in step.said if isinstance(block, ToolCall)]
            results = step.results or [("The reply reached its length limit within this call; nothing was run.", True)]
            found += [
                ("result", portable_name(call.id), said or "[empty]", error)
                for call, (said, error) in zip(calls, results, strict=False)
            ]
            found += [("image", image.data) for image in step.shown]
    return found


def _told(block: ReplyBlock, own: bool) -> Iterator[tuple[Any, ...]]:
    match block:
        case Thinking(_, signature):
            if own:
                yield ("thought", signature)
        case Text(text):
            yield ("said", text)
        case ToolCall(id, name, arguments):
            yield ("call", portable_name(id), name, json.loads(arguments))


def plain(blocks: tuple[ReplyBlock, ...]) -> list[tuple[Any, ...]]:
    """Return the content of blocks, without parts that every vendor writes in a form of its own."""
    found: list[tuple[Any, ...]] = []
    for block in blocks:
        match block:
            case ToolCall(id, name, arguments):
                found.append((id, name, json.loads(arguments)))
            case _:
                found.append((type(block), block.text))
    return found


def renamed(told: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return the messages with ids that only tell which call is meant: servers have ids of their own."""
    names: dict[str, str] = {}
    for entry in told:
        if entry[0] == "call":
            assert re.fullmatch("[A-Za-z0-9_-]{1,64}", entry[1])
            names.setdefault(entry[1], f"call {len(names)}")
    return [(kind, names[rest[0]], *rest[1:]) if kind in ("call", "result") else (kind, *rest) for kind, *rest in told]


class Talk(Agent):
    """An agent that asks real providers, step by step, and looks after every request at what it had come to."""

    async def step(self, step: Step, provider: Provider) -> tuple[int, tuple[Event, ...]]:
        """Play one step; gives back what the request measured, in bytes, and the events that the reply became."""
        self.ask(step)
        size = self.memory.size
        sent = next_request(self.memory)
        sound(sent)
        events = await collect(provider, sent)
        ended = events[-1]
        assert isinstance(ended, StreamFinished), ended
        assert ended.stop is step.stop
        usage = UsageReported(self.memory.model, ended.usage, size=size)
        found = self.happen(Replied(self.job(CallModel), reply(events).blocks(), ended.stop, usage))
        for number, (content, error) in enumerate(step.results, 1):
            self.happen(Approved(self.job(StartTool)))
            run = self.job(RunTool)
            shown = step.shown if number == len(step.results) else ()
            self.happen(ToolDone(run, ToolResult(run.call.id, content, error, images=shown)))
        assert self.loaded() == self.memory, "live equals replayed"
        return size, found

    def ask(self, step: Step) -> None:
        if self.memory.open is None:
            self.happen(Submitted(step.user, step.images))
        elif step.user:
            self.store((UserMessage(step.user, step.images),))
        assert self.memory.status is AgentStatus.WAITING

    def fail(self, broke: StreamFailed, blocks: tuple[ReplyBlock, ...]) -> tuple[Event, ...]:
        return self.happen(Failed(self.job(CallModel), broke.text, blocks))


def replied(events: tuple[Event, ...]) -> tuple[ReplyBlock, ...]:
    """The blocks of a reply from the events it became."""
    found: list[ReplyBlock] = []
    for event in events:
        if isinstance(event, AssistantMessage):
            found += event.blocks
        elif isinstance(event, ToolCall):
            found.append(event)
    return tuple(found)
