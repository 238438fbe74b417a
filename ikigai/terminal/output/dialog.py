"""Ask the user questions, one at a time, above the input; a key answers only a question that could be read.

Text that is being typed when a question appears goes into the input as before. A key answers when the question has been
on screen for a moment. With text in the input the user must also have paused longer than between two words. Esc always
means the default.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable

from ikigai.core.views.questions import Choice, Question, QuestionAnswer
from ikigai.terminal.render.theme import Theme

MIN_SEEN_SECONDS = 0.4
"""Seconds that a question has to be on screen until a key can answer it."""
TYPING_GUARD = 1.5
"""Seconds since a letter was typed until a key can answer, with text in the input: it may begin the next word."""


class Dialog:
    """One question under way. `choice` has been chosen and waits for the words that go with it."""

    def __init__(self, question: Question) -> None:
        self.question = question
        self.answered: asyncio.Future[QuestionAnswer] = asyncio.get_running_loop().create_future()
        self.choice: Choice | None = None
        self.since = 0.0  # when it came on screen, or went back to its choices

    @property
    def prompt(self) -> str:
        return self.choice.prompt if self.choice else self.question.title

    def keys(self, theme: Theme) -> tuple[str, ...]:
        """Return the keys that can be pressed, each with its meaning."""
        if self.choice:
            return f"{theme.key('send')} sends it", f"{theme.stop_key} goes back"
        labels = [f"[{each.key}] {each.label}" for each in self.question.choices]
        default = next((each.label for each in self.question.choices if each.key == self.question.default), "")
        return *labels, f"{theme.stop_key}: {default}"


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
        """True if the input holds the words of an answer."""
        return self.current is not None and self.current.choice is not None

    async def ask(self, question: Question, shown: Callable[[], Awaitable[object]]) -> QuestionAnswer:
        """Wait for the turn of the question, show it by `shown`, then wait for the answer."""
        dialog = Dialog(question)
        if question.of_command and self.current and not self.current.question.of_command:
            self._waiting.appendleft(dialog)  # the user has just asked for it
        else:
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
            if self.current and self.current.since:  # one that had stepped back
                self.current.since = time.monotonic()
            self._changed()

    def typed(self) -> None:
        """Note that text went into the input."""
        self._typed = time.monotonic()

    def pressed(self, key: str, text: str) -> bool:
        """Handle a key with `text` in the input; return True if the key answered and is not text."""
        dialog = self.current
        if dialog is None or dialog.choice or not dialog.since or dialog.answered.done():
            return False
        now = time.monotonic()
        choice = next((each for each in dialog.question.choices if each.key == key), None)
        if choice is None or now - dialog.since < MIN_SEEN_SECONDS or (text and now - self._typed < TYPING_GUARD):
            return False
        if choice.prompt:
            dialog.choice = choice
            self._changed()
        else:
            self._answer(dialog, QuestionAnswer(key))
        return True

    def answer_with(self, words: str) -> None:
        """Answer with the words that go with the choice."""
        dialog = self.current
        if dialog and dialog.choice:
            self._answer(dialog, QuestionAnswer(dialog.choice.key, words))

    def back(self) -> None:
        """Handle Esc: go from the words to the choices, from these to the default."""
        dialog = self.current
        if dialog is None:
            return
        if dialog.choice:
            dialog.choice, dialog.since = None, time.monotonic()
            self._changed()
        else:
            self._answer(dialog, QuestionAnswer(dialog.question.default))

    def _answer(self, dialog: Dialog, answered: QuestionAnswer) -> None:
        if not dialog.answered.done():
            dialog.answered.set_result(answered)
