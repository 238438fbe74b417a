"""Stream an answer to the screen, run in a terminal: python -m tests.bench.streaming SHORT LONG ROUNDS FILE

Deltas come at the pace of a fast model, all of a frame's at once, as they do when several are read together, and the
screen is told what is saved as often as the loop does it. FILE gets the seconds of CPU: a list for each round, for
streaming the long answer, for drawing that once with rich, and for streaming the short answer.
"""

import asyncio
import gc
import io
import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

from rich.console import Console
from rich.markdown import Markdown

from ikigai.agent.request.reply_drafts import DRAFT_EVERY
from ikigai.app.agents.buffered_view import BufferedView
from ikigai.core.events.events import StoredEvent, UserMessage
from ikigai.core.request.reply import TextDelta
from ikigai.core.state.fold import empty_memory, evolve
from ikigai.core.views.transcript import Speaker, TranscriptBlock
from ikigai.terminal.output.frames import STREAMING_FRAME_SECONDS
from ikigai.terminal.render.theme import terminal_theme
from ikigai.terminal.screen import Screen, ScreenOptions
from ikigai.terminal.tty import Tty
from tests.bench.generator import RUN
from tests.bench.prose import Prose
from tests.support.silent_handler import SilentHandler

DELTA = 4
"""Characters of a delta."""
PACE = 1_000
"""Deltas a second."""
ASKED_BY = 1


def main(short: int, long: int, rounds: int, file: str) -> None:
    answer = _answer(long)
    beginning = answer[:short]
    for warm_up in (_rendered, streamed):
        warm_up(beginning)
    gc.freeze()  # as the program does when it has started
    taken = [(streamed(answer), _rendered(answer), streamed(beginning)) for _ in range(rounds)]
    Path(file).write_text(json.dumps(taken))


def _answer(size: int) -> str:
    """Return Markdown of `size` bytes."""
    prose = Prose(Random(6))
    text = ""
    while len(text.encode()) < size:
        text += prose.markdown(200) + "\n\n"
    return text.encode()[:size].decode(errors="ignore")


def streamed(text: str) -> float:
    """Return seconds of CPU to show the text while it comes, until all of it is in the scrollback."""
    return asyncio.run(_stream(text))


def _rendered(text: str) -> float:
    """Return seconds of CPU to draw the whole text once."""
    began = time.process_time()
    width = os.get_terminal_size(0).columns
    Console(file=io.StringIO(), width=width, force_terminal=True, color_system="standard").print(Markdown(text))
    return time.process_time() - began


async def _stream(text: str) -> float:
    screen = Screen(Tty(), terminal_theme(os.environ), SilentHandler(), ScreenOptions())
    view = BufferedView()
    view.attach(screen.view)
    began = 0.0

    async def answer() -> None:
        nonlocal began
        idle = empty_memory(RUN, "a")
        view.changed(evolve(idle, StoredEvent(ASKED_BY, "a", 1, 0.0, UserMessage("?"))))
        began = time.process_time()
        await _tell(view, text)
        view.show(TranscriptBlock(ASKED_BY + 1, Speaker.ASSISTANT, text))
        view.changed(idle)
        screen.close()

    await screen.run(answer)  # returns when everything is printed
    return time.process_time() - began


async def _tell(view: BufferedView, text: str) -> None:
    loop = asyncio.get_running_loop()
    due, saved_at = loop.time(), loop.time()
    said = 0
    for delta in _deltas(text):
        view.show_delta(ASKED_BY, TextDelta(delta))
        said += len(delta)
        if loop.time() - saved_at >= DRAFT_EVERY:
            saved_at = loop.time()
            view.draft_saved(ASKED_BY, said)
        if said % round(DELTA * PACE * STREAMING_FRAME_SECONDS) == 0:
            due += STREAMING_FRAME_SECONDS
            await asyncio.sleep(due - loop.time())


def _deltas(text: str) -> Iterator[str]:
    return (text[at : at + DELTA] for at in range(0, len(text), DELTA))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
