"""Large pastes: a short label stands for them in the input line, and gives way to the text when it is sent."""

import re

LINES, CHARACTERS = 10, 2000
"""A paste longer than this is collapsed."""


class Pastes:
    """Labels and what they stand for, for as long as the program runs: history brings them back."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._labels: dict[str, str] = {}

    def collapsed(self, text: str) -> str:
        """`text` itself while it is small, else its label; the same text has the same label."""
        lines = text.count("\n") + 1
        if lines <= LINES and len(text) <= CHARACTERS:
            return text
        if text in self._labels:
            return self._labels[text]
        size = f"{lines:,} lines" if lines > LINES else f"{len(text):,} characters"
        label = f"[pasted {size}]"
        if label in self._texts:
            label = f"[pasted {size}, {len(self._texts) + 1}]"
        self._texts[label], self._labels[text] = text, label
        return label

    def expanded(self, text: str) -> str:
        """`text` with every label replaced by what it stands for."""
        if not self._texts or "[pasted " not in text:
            return text
        return re.sub(r"\[pasted [\d,]+ \w+(, \d+)?\]", lambda found: self._texts.get(found[0], found[0]), text)

    def label_before(self, text: str) -> str:
        """The label that `text` ends with, if it does."""
        found = re.search(r"\[pasted [\d,]+ \w+(, \d+)?\]\Z", text)
        return found[0] if found and found[0] in self._texts else ""
