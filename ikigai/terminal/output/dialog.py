"""Questions to the user, one at a time, above the input: only a key pressed after the question could be read answers.

What is being typed when a question appears goes into the input as before. A key answers when the question has been on
screen for a moment and, while there is text in the input, whoever typed it has paused for longer than between two
words; Esc always means the default.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable

from ikigai.core.questions import Answered, Choice, Question

UNREAD = 0.4
"""Seconds that a question has to be on screen until a key can answer it."""
PAUSE = 1.5
"""Seconds since a letter was typed until a key can answer, with text in the input: it may begin the next word."""


class Dialog:
    """One question under way. `choice` has been chosen and waits for the words that go with it."""

    def __init__(self, question: Question) -> None:
        self.question = question
        self.answered: asyncio.Future[Answered] = asyncio.get_running_loop().create_future()
        self.choice: Choice | None = None
        self.since = 0.0  # it is on screen, or back at its choices

    @property
    def prompt(self) -> str:
        return self.choice.wants if self.choice else self.question.title

    @property
    def keys(self) -> tuple[str, ...]:
        """What can be pressed, each in words."""
        if self.choice:
            return "Enter sends it", "Esc goes back"
        said = [f"[{each.key}] {each.label}" for each in self.question.choices]
        default = next((each.label for each in self.question.choices if each.key == self.question.default), "")
        return *said, f"Esc: {default}"


class Dialogs:
    """The questions that wait; `changed` is called when another one is to be shown, or none."""

    def __init__(self, changed: Callable[[], object]) -> None:
        self._waiting: deque[Dialog] = deque()
        self._changed = changed
        self._typed = 0.0

    @property
    def current(self) -> Dialog | None:
        return self._waiting[0] if self._waiting else None

    @property
    def wording(self) -> bool:
        """Whether the input holds the words of an answer."""
        return self.current is not None and self.current.choice is not None

    async def ask(self, question: Question, shown: Callable[[], Awaitable[object]]) -> Answered:
        """Wait for its turn, show it by `shown`, and when that has ended wait for the answer."""
        dialog = Dialog(question)
        self._waiting.append(dialog)
        try:
            while self.current is not dialog:
                ahead = self.current
                assert ahead
                await asyncio.wait({ahead.answered})
                await asyncio.sleep(0)  # until it has left the line
            await shown()
            dialog.since = time.monotonic()
            self._changed()
            return await dialog.answered
        finally:
            if not dialog.answered.done():
                dialog.answered.cancel()
            self._waiting.remove(dialog)
            self._changed()

    def typed(self) -> None:
        """Text went into the input."""
        self._typed = time.monotonic()

    def pressed(self, key: str, text: str) -> bool:
        """A key was pressed with this text in the input; whether it answered, and is no text."""
        dialog = self.current
        if dialog is None or dialog.choice or not dialog.since or dialog.answered.done():
            return False
        now = time.monotonic()
        choice = next((each for each in dialog.question.choices if each.key == key), None)
        if choice is None or now - dialog.since < UNREAD or (text and now - self._typed < PAUSE):
            return False
        if choice.wants:
            dialog.choice = choice
            self._changed()
        else:
            self._answer(dialog, Answered(key))
        return True

    def said(self, words: str) -> None:
        """The words that go with the choice."""
        dialog = self.current
        if dialog and dialog.choice:
            self._answer(dialog, Answered(dialog.choice.key, words))

    def back(self) -> None:
        """Esc: from the words to the choices, from these to the default."""
        dialog = self.current
        if dialog is None:
            return
        if dialog.choice:
            dialog.choice, dialog.since = None, time.monotonic()
            self._changed()
        else:
            self._answer(dialog, Answered(dialog.question.default))

    def _answer(self, dialog: Dialog, answered: Answered) -> None:
        if not dialog.answered.done():
            dialog.answered.set_result(answered)
