"""Runs the screen over a real terminal with a conversation played from here: no database, no model.

What is typed says what happens (see `Feed.submit`); DEMO_LOG names a file that gets a line of JSON per callback.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Iterable
from pathlib import Path

from ikigai.terminal.render.theme import USER, terminal_theme
from ikigai.terminal.tty import Tty

tty = Tty()
styles = terminal_theme(os.environ, words="DEMO_WORDS" in os.environ)
tty.open(styles.paint("prompt", styles.sign(USER)) + " ")

from ikigai.app.agents.buffered_view import BufferedView  # noqa: E402
from ikigai.config.records import TerminalSettings  # noqa: E402
from ikigai.core.commands.table import COMMANDS  # noqa: E402
from ikigai.core.events.events import AssistantMessage, Ending, Event, StoredEvent, UserMessage  # noqa: E402
from ikigai.core.events.messages import Message, Text, Thinking, ToolCall, ToolResult  # noqa: E402
from ikigai.core.request.build import Request  # noqa: E402
from ikigai.core.request.model import ModelLimits  # noqa: E402
from ikigai.core.request.reply import RetryScheduled, TextDelta, ThinkingDelta, ToolCallDelta  # noqa: E402
from ikigai.core.state.effective_settings import RunConfig  # noqa: E402
from ikigai.core.state.fold import empty_memory, end_turn, evolve  # noqa: E402
from ikigai.core.state.memory import Memory  # noqa: E402
from ikigai.core.views.context_rule import ContextRule  # noqa: E402
from ikigai.core.views.questions import Choice, Question  # noqa: E402
from ikigai.core.views.transcript import Speaker, TranscriptBlock, event_block  # noqa: E402
from ikigai.terminal import background_color as background  # noqa: E402
from ikigai.terminal.output import dialog  # noqa: E402
from ikigai.terminal.screen import Screen, ScreenOptions  # noqa: E402
from tests.support.silent_handler import SilentHandler  # noqa: E402

if patience := os.environ.get("DEMO_PATIENCE"):  # for terminals that answer late on a busy machine
    background.ANSWER_WAIT = background.MAX_HANDOVER_SECONDS = background.MAX_ANSWER_SECONDS = float(patience)
if pause := os.environ.get("DEMO_PAUSE"):
    dialog.TYPING_GUARD = float(pause)

WORDS = ["the", "quick", "brown", "fox", "jumps", "over", "the", "lazy", "dog", "and", "goes", "home"]
HOSTILE = (
    "title \x1b]0;owned\x07 clip \x1b]52;c;b3duZWQ=\x07 clear \x1b[2J\x1b[H c1 \x9b2J "
    "link \x1b]8;;http://x\x1b\\y\x1b]8;;\x1b\\ "
    "bell \x07 back \x08\x08 nul \x00 bidi \u202eevil\u202c tag \U000e0041 end \x1bc\n\nsecond\x1b[1;31m red\n\n"
)


class Bytes:
    """Return sizes as a plain JSON body would have them."""

    tool_rule = ""

    def envelope(self, request: Request) -> int:
        return 2000

    def message(self, message: Message) -> int:
        return 20 + sum(len(getattr(each, "text", "")) for each in message.blocks)


def answer(paragraphs: int) -> str:
    made = []
    for number in range(1, paragraphs + 1):
        words = " ".join(WORDS[(number + n) % len(WORDS)] for n in range(12 + number % 20))
        made.append(f"P{number:03} {words}.")
        if number % 4 == 0:
            made.append(f"```python\ndef f{number:03}(x):\n    return x + {number}\n```")
        if number % 5 == 0:
            made.append(f"- item A{number:03}\n- item B{number:03}\n- **item** C{number:03}")
    return "\n\n".join(made) + "\n"


def lines(count: int) -> str:
    """Return `count` numbered lines: code, lists, and paragraphs whose lines are kept apart."""
    made: list[str] = []
    for first in range(1, count + 1, 50):
        numbers = [f"L{number:05} {WORDS[number % 12]}" for number in range(first, min(first + 50, count + 1))]
        match first // 50 % 3:
            case 0:
                made.append("\n".join(["```", *numbers, "```"]))
            case 1:
                made.append("\n".join(f"- {line}" for line in numbers))
            case _:
                made.append("\\\n".join(numbers))
    return "\n\n".join(made) + "\n"


KNOWN = {
    "models": ["openai/gpt-5", "openai/gpt-5-mini", "local/smollm2"],
    "marks": ["one", "two"],
    "agents": ["amber-fox"],
}


class Feed(SilentHandler):
    def __init__(self) -> None:
        run = RunConfig(
            {"model": "openai/gpt-5-mini", "level": "med", "budget": 2000},
            lambda _: ModelLimits(8000, 1000),
            lambda _: Bytes(),
        )
        self.memory: Memory = empty_memory(run, "demo")
        self.ids = 0
        self.task: asyncio.Task[None] | None = None
        self.asking: set[asyncio.Task[None]] = set()
        self.queue: list[str] = []
        self.said: list[str] = []
        self.mused = ""
        self.asked_by = 0
        self.signal = 0
        self.log = Path(os.environ.get("DEMO_LOG", os.devnull))
        self.pace = float(os.environ.get("DEMO_PACE", "0.004"))
        options = ScreenOptions(os.environ.get("DEMO_THINKING", "fold"), vi="DEMO_VI" in os.environ)
        self.screen = Screen(tty, styles, self, options)
        self.view = self.screen.view
        self.agent_view = BufferedView()
        self.agent_view.attach(self.view)

    def told(self, what: str, **more: object) -> None:
        with self.log.open("a") as log:
            log.write(json.dumps({"what": what, **more}) + "\n")

    def told_of(self, what: str) -> list[str]:
        return [line for line in self.log.read_text().splitlines() if json.loads(line)["what"] == what]

    def store(self, *events: Event) -> None:
        for event in events:
            self.ids += 1
            row = StoredEvent(self.ids, "demo", self.ids, 0.0, event)
            self.memory = evolve(self.memory, row)
            if shown := event_block(row):
                self.agent_view.show(shown)
        self.agent_view.changed(self.memory)

    def end(self, ending: Ending, reason: str = "") -> None:
        out = self.memory.window.older.turns
        self.store(end_turn(self.memory, (), ending, reason))
        if self.memory.window.older.turns != out:
            self.agent_view.rule(
                ContextRule(self.memory.cutoff or 0, self.memory.window.older.turns, "the first words of it")
            )

    def submit(self, text: str) -> None:
        self.told("submit", text=text[:2000], length=len(text))
        if self.memory.open:
            self.queue.append(text)
            self.agent_view.queued(tuple(self.queue))
            return
        word, _, rest = text.partition(" ")
        match word:
            case "/exit" | "bye":
                self.screen.close()
                return
            case "/help":
                self.view.print_text("\n".join(f"/{each.name:<10} {each.help}" for each in COMMANDS))
                return
            case "boom":
                asyncio.get_running_loop().call_soon(self.boom)
                return
            case "notice":
                self.agent_view.notice(rest)
                return
            case "trouble":
                self.agent_view.database_unreachable(True)
                return
            case "ask":
                self.asking.add(asyncio.create_task(self.ask(float(rest or 0))))
                return
        self.store(UserMessage(text))
        match word:
            case "stream":
                self.task = asyncio.create_task(self.streamed(answer(int(rest or 12))))
            case "lines":
                self.task = asyncio.create_task(self.streamed(lines(int(rest)), piece=64))
            case "hostile":
                self.task = asyncio.create_task(self.streamed(HOSTILE))
            case "hang":
                self.asked_by = self.ids
                if rest:
                    self.delta(rest)
            case "think":
                self.task = asyncio.create_task(self.thought(rest or " ".join(WORDS * 3)))
            case "muse":
                self.task = asyncio.create_task(self.thought(rest + "END"))
            case "ponder":
                self.task = asyncio.create_task(self.thought(rest, says=""))
            case "tools":
                self.task = asyncio.create_task(self.tools())
            case "retry":
                self.asked_by = self.ids
                retry = RetryScheduled(30.0, 2, "The provider is overloaded.", max_attempts=8)
                self.agent_view.show_delta(self.ids, retry)
            case "fail":
                self.end(Ending.FAILED, "The provider refuses the key. Check OPENAI_API_KEY.")
            case _:
                self.task = asyncio.create_task(self.streamed(f"You said: **{text[:60]}**"))

    async def ask(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        number = len(self.told_of("asked")) + 1
        self.told("asked")
        answered = await self.agent_view.ask(
            Question(
                f"Shall \x1b[2Jthing {number} be done?",
                (f"  thing {number}, first \x1b]0;owned\x07 part", f"  thing {number}, other part"),
                (Choice("y", "yes"), Choice("n", "no"), Choice("w", "no, because", "Why not?")),
                default="n",
            )
        )
        self.told("answer", number=number, key=answered.key, words=answered.words)

    def boom(self) -> None:
        raise RuntimeError("boom")

    def delta(self, text: str) -> None:
        self.said.append(text)
        self.agent_view.show_delta(self.asked_by, TextDelta(text))

    async def streamed(self, text: str, piece: int = 4) -> None:
        self.asked_by = self.ids
        saved = 0
        for at in range(0, len(text), piece):
            self.delta(text[at : at + piece])
            if at - saved >= 200 or not saved:
                saved = at
                self.agent_view.draft_saved(self.asked_by, saved)
            await asyncio.sleep(self.pace)
        self.finished(Ending.COMPLETED)

    async def thought(self, text: str, says: str = "Thought through.") -> None:
        self.asked_by = self.ids
        text = text.replace("\\n", "\n").replace("\\e", "\x1b")
        step = max(4, len(text) // 1000)
        for at in range(0, len(text), step):
            self.agent_view.show_delta(self.asked_by, ThinkingDelta(text[at : at + step]))
            await asyncio.sleep(self.pace)
        if says:
            self.mused = text
            await self.streamed(says)

    async def tools(self) -> None:
        self.asked_by = self.ids
        self.delta("Let me look.")
        self.agent_view.show_delta(self.asked_by, ToolCallDelta(0, "a", "read_file", '{"path":'))
        await asyncio.sleep(0.3)
        calls = ToolCall("a", "read_file", '{"path": "/etc/passwd"}'), ToolCall("b", "shell", '{"command": "ls -l\\n"}')
        self.said.clear()
        self.store(AssistantMessage((Text("Let me look."),)), *calls)
        await asyncio.sleep(0.5)
        self.store(ToolResult("a", "\n".join(f"line {n}" for n in range(20))), ToolResult("b", "no such file", True))
        await self.streamed("That is *what* there is.")

    def finished(self, ending: Ending) -> None:
        text, self.task = "".join(self.said), None
        self.said.clear()
        if text:
            mused = (Thinking(self.mused),) if self.mused and ending is Ending.COMPLETED else ()
            self.store(AssistantMessage((*mused, Text(text)), interrupted=ending is Ending.INTERRUPTED))
        self.mused = ""
        self.end(ending)
        if self.queue:
            text = self.queue.pop(0)
            self.agent_view.queued(tuple(self.queue))
            self.submit(text)

    def interrupt(self) -> None:
        self.told("interrupt")
        if self.task:
            self.task.cancel()
        if self.memory.open:
            self.finished(Ending.INTERRUPTED)

    def take_back(self) -> str:
        text = self.queue.pop() if self.queue else ""
        self.agent_view.queued(tuple(self.queue))
        return text

    def stash(self) -> None:
        self.told("stash")

    def add_recalled(self) -> bool:
        return False

    def at_work(self) -> str:
        return ""

    def question_closed(self) -> None:
        self.told("question closed")

    def leave(self) -> None:
        self.told("quit")
        self.screen.close()

    def complete(self, kind: str, typed: str) -> Iterable[str]:
        return KNOWN.get(kind, ())

    def signalled(self, number: int) -> None:
        self.told("signal", number=number)
        self.signal = number
        self.screen.close()

    async def begin(self) -> None:
        self.screen.equip(TerminalSettings(notify=os.environ.get("DEMO_NOTIFY", "auto")))
        self.screen.status.set_agent("amber-fox")
        self.screen.status.set_database_place("embedded")
        self.agent_view.changed(self.memory)
        if "DEMO_LONG_HISTORY" in os.environ:
            turn = [TranscriptBlock(1, Speaker.USER, "asked"), TranscriptBlock(2, Speaker.ASSISTANT, answer(8))]
            self.view.history([*turn * 5, ContextRule(3, 5, "asked"), *turn * 20], 100)
        if "DEMO_HISTORY" in os.environ:
            self.view.history(
                [
                    TranscriptBlock(1, Speaker.USER, "An earlier question?", remembered=False),
                    TranscriptBlock(2, Speaker.ASSISTANT, "An **earlier** answer.", remembered=False),
                    ContextRule(3, 12, "What is a sliding window, and why would one want it"),
                    TranscriptBlock(3, Speaker.USER, "What is a sliding window, and why would one want it?"),
                    TranscriptBlock(4, Speaker.ASSISTANT, "It keeps *whole turns* under a budget."),
                ],
                1234,
            )
        self.screen.input.set_prompts([f"old prompt {n}" for n in range(50)])
        self.told("ready")
        if "DEMO_FIRST" in os.environ:
            self.submit(os.environ["DEMO_FIRST"])


async def main() -> int:
    feed = Feed()
    await feed.screen.run(feed.begin)
    return 128 + feed.signal if feed.signal else 0


if __name__ == "__main__":
    try:
        code = asyncio.run(main())
    except RuntimeError as error:
        print(f"failed: {error}")
        code = 1
    if code > 128:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    sys.exit(code)
