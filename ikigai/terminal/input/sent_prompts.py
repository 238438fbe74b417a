"""Prompts sent before, and large pastes: a short label stands for each in the input until it is sent."""

import re
from collections.abc import AsyncGenerator, Iterable

from prompt_toolkit.history import History

from ikigai.core.commands.table import LOGIN_LINE

MAX_PASTE_LINES, MAX_PASTE_CHARACTERS = 10, 2000
"""A paste longer than this is collapsed."""


class Pastes:
    """Labels and their texts, for as long as the program runs: history brings them back."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._labels: dict[str, str] = {}

    def collapsed(self, text: str) -> str:
        """Return `text` itself if it is small, else its label. Equal texts have one label."""
        lines = text.removesuffix("\n").count("\n") + 1
        if lines <= MAX_PASTE_LINES and len(text) <= MAX_PASTE_CHARACTERS:
            return text
        if text in self._labels:
            return self._labels[text]
        size = f"{lines:,} lines" if lines > MAX_PASTE_LINES else f"{len(text):,} characters"
        label = f"[pasted {size}]"
        if label in self._texts:
            label = f"[pasted {size}, {len(self._texts) + 1}]"
        self._texts[label], self._labels[text] = text, label
        return label

    def expanded(self, text: str) -> str:
        """Return `text` with every label replaced by its text."""
        if not self._texts or "[pasted " not in text:
            return text
        return re.sub(r"\[pasted [\d,]+ \w+(, \d+)?\]", lambda match: self._texts.get(match[0], match[0]), text)

    def label_before(self, text: str) -> str:
        """Return the label that `text` ends with; "" if it ends with none."""
        match = re.search(r"\[pasted [\d,]+ \w+(, \d+)?\]\Z", text)
        return match[0] if match and match[0] in self._texts else ""


class PromptHistory(History):
    """The prompts sent before, the newest first; long texts as their labels."""

    def __init__(self, pastes: Pastes) -> None:
        super().__init__()
        self._pastes = pastes
        self._texts: list[str] = []
        self._new = 0  # how many of them this program sent

    def fill(self, texts: Iterable[str]) -> None:
        """Add texts from before this run, the newest first."""
        self._texts += [self._pastes.collapsed(text) for text in texts]

    async def load(self) -> AsyncGenerator[str, None]:
        for text in self._texts:
            yield text

    def get_strings(self) -> list[str]:
        return self._texts[::-1]

    def append_string(self, string: str) -> None:
        """Add a text that is sent now, unless it may hold a key."""
        if LOGIN_LINE.search(string):
            return
        self._texts.insert(0, string)
        self._new += 1

    def load_history_strings(self) -> Iterable[str]:
        return self._texts

    def rest_of(self, text: str) -> str:
        """Return the rest of the newest text that begins with `text`; "" if none does."""
        size = len(text)
        return next((each[size:] for each in self._texts if len(each) > size and each.startswith(text)), "")

    def known(self) -> list[tuple[str, bool]]:
        """Return the texts as they were sent, the newest first, each with True if this program sent it."""
        return [(self._pastes.expanded(text), number < self._new) for number, text in enumerate(self._texts)]

    def store_string(self, string: str) -> None:
        """Do nothing: texts are stored where they are sent."""
