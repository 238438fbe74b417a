"""This module keeps large pastes: a short label stands for each in the input until it is sent."""

import re

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
