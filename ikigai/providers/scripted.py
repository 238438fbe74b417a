"""Model that plays a script, for tests and demonstrations; after the script it echoes.

A script is a JSON file, a list of replies; a reply is a string, or a list of strings and steps:

    ["Hello.",
     [{"do": "think", "text": "hm"}, "I look. ", {"do": "call", "name": "shell", "arguments": {"command": "ls"}}],
     ["Half a rep", {"do": "break", "kind": "cut", "text": "The line went dead."}],
     ["For ever", {"do": "hang"}]]

Further steps: {"do": "pause", "seconds": 0.5} and, for another end than the usual, {"do": "stop", "reason": "length"}.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Iterator
from pathlib import Path
from typing import TypeAlias

import msgspec

from ikigai.core.events.messages import Role, StopReason, ToolResult, Usage
from ikigai.core.events.record import Record
from ikigai.core.request.build import Request
from ikigai.core.request.cross_model import CrossModelFormat, fit_message
from ikigai.core.request.reply import (
    Delta,
    FailureKind,
    ProviderEvent,
    StreamFailed,
    StreamFinished,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
)
from ikigai.core.text import tokens
from ikigai.providers.openai.chat_api import ChatEncoder
from ikigai.providers.vendor import ServerlessProvider


class ScriptedThinking(Record, frozen=True, tag_field="do", tag="think"):
    text: str


class ScriptedCall(Record, frozen=True, tag_field="do", tag="call"):
    """A tool call; `arguments` as a string is sent as it is, well-formed or not. Without an id it gets its own."""

    name: str
    arguments: dict[str, object] | str = "{}"
    id: str = ""


class ScriptedPause(Record, frozen=True, tag_field="do", tag="pause"):
    seconds: float


class ScriptedFailure(Record, frozen=True, tag_field="do", tag="break"):
    """The stream fails here."""

    kind: FailureKind = FailureKind.CUT
    text: str = "The script ends here."
    remedy: str = ""
    retry_after: float | None = None


class ScriptedHang(Record, frozen=True, tag_field="do", tag="hang"):
    """The stream hangs until the request is cancelled."""


class ScriptedStop(Record, frozen=True, tag_field="do", tag="stop"):
    """The reply's stop reason, if it is neither its calls nor its end."""

    reason: StopReason


Step: TypeAlias = str | ScriptedThinking | ScriptedCall | ScriptedPause | ScriptedFailure | ScriptedHang | ScriptedStop
Reply: TypeAlias = str | tuple[Step, ...]

DELTA_CHARACTERS = 4
"""Characters of one delta: about a token's."""

DEMO_SCRIPT: tuple[Reply, ...] = (
    (
        ScriptedThinking("A user is here. I introduce myself and show what the screen can do."),
        "Hello! I am a **script**, not a model: good for looking around without a key.\n\n"
        "What I can show:\n\n"
        "1. text that *streams* in,\n"
        "2. a list like this one, `code` in a line,\n"
        "3. and code in a block:\n\n"
        "```python\n"
        "def ikigai(conversation):\n"
        "    while True:\n"
        "        conversation.append(input('❯ '))\n"
        "```\n\n"
        "Say something.",
    ),
    (
        "Everything you type is stored before it is sent. Quit, come back, and this conversation continues.\n\n"
        "From now on I only echo; `/help` lists the commands, `/model` chooses a real model.",
    ),
)

BUILTIN_SCRIPTS: dict[str, tuple[Reply, ...]] = {"demo": DEMO_SCRIPT, "echo": ()}


class ScriptedProvider(ServerlessProvider):
    """A provider that plays replies in order, in deltas of a few characters with `pace` seconds before each.

    Without `replies` the model's name chooses the script: `demo`, `echo`, or the path of a JSON file. `requests` are
    those it got, oldest first.
    """

    def __init__(self, replies: Iterable[Reply] | None = None, pace: float = 0.0) -> None:
        self.encoder = ChatEncoder()
        self.requests: list[Request] = []
        self._replies = None if replies is None else iter(tuple(replies))
        self._playing: dict[str, Iterator[Reply]] = {}
        self._pace = pace

    async def stream(self, request: Request) -> AsyncGenerator[ProviderEvent, None]:
        self.requests.append(request)
        try:
            reply = next(self._script(request.model), None)
        except (OSError, ValueError) as error:
            yield StreamFailed(
                FailureKind.NOT_FOUND, f"The script {request.model} cannot be run: {error}.", SCRIPT_REMEDY
            )
            return
        steps = (_echo(request),) if reply is None else (reply,) if isinstance(reply, str) else reply
        stop, calls, pieces = None, 0, 0
        for step in steps:
            match step:
                case ScriptedPause(seconds):
                    await asyncio.sleep(seconds)
                case ScriptedHang():
                    await asyncio.Event().wait()
                case ScriptedFailure(kind, text, remedy, retry_after):
                    yield StreamFailed(kind, text, remedy, retry_after)
                    return
                case ScriptedStop(reason):
                    stop = reason
                case _:
                    for delta in _deltas(step, calls, f"call_{len(self.requests)}_{calls}"):
                        await asyncio.sleep(self._pace)
                        yield delta
                        pieces += 1
                    calls += isinstance(step, ScriptedCall)
        stop = stop or (StopReason.TOOLS if calls else StopReason.END)
        yield StreamFinished(stop, Usage(self._size(request), pieces))

    def _script(self, name: str) -> Iterator[Reply]:
        if self._replies is not None:
            return self._replies
        if name not in self._playing:
            self._playing[name] = iter(BUILTIN_SCRIPTS[name] if name in BUILTIN_SCRIPTS else load(Path(name)))
        return self._playing[name]

    def _size(self, request: Request) -> int:
        size = self.encoder.envelope(request) + sum(map(self.encoder.message, request.messages))
        return tokens.count_tokens("scripted", request.model, size)


SCRIPT_REMEDY = "Use demo, echo or the path of a JSON file with a list of replies."


def load(path: Path) -> tuple[Reply, ...]:
    """Return the replies of a script. Raise OSError, or ValueError if it is not a script."""
    return msgspec.json.decode(path.read_bytes(), type=tuple[Reply, ...])


def _deltas(step: Step, index: int, id: str) -> Iterator[Delta]:
    match step:
        case str():
            yield from map(TextDelta, _pieces(step))
        case ScriptedThinking(text):
            yield from (ThinkingDelta(piece, vendor="scripted") for piece in _pieces(text))
        case ScriptedCall(name, arguments, own_id):
            text = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
            yield ToolCallDelta(index, own_id or id, name)
            yield from (ToolCallDelta(index, arguments=piece) for piece in _pieces(text))


def _pieces(text: str) -> Iterator[str]:
    return (text[at : at + DELTA_CHARACTERS] for at in range(0, len(text), DELTA_CHARACTERS))


def _echo(request: Request) -> str:
    last = request.messages[-1] if request.messages else None
    if last is not None and last.role is Role.TOOL:
        return "\n\n".join(block.content for block in last.blocks if isinstance(block, ToolResult))
    return fit_message(last, CrossModelFormat()).text if last else ""
