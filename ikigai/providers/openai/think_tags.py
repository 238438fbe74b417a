"""Tell thinking between `<think>` and `</think>` at the start of a reply from the answer behind it.

Servers without a parser for their model's thinking send both as one text.
"""

from collections.abc import Iterator

OPENING, CLOSING = "<think>", "</think>"


class ThinkTags:
    """The text of one reply, in pieces; only what may be a part of a tag is held back."""

    def __init__(self) -> None:
        self._held = ""
        self._state = "start"  # start → thinking → gap (white space behind the tag) → text

    def feed(self, piece: str) -> Iterator[tuple[bool, str]]:
        """Yield the pieces that are known by now, each with True if it is thinking."""
        if self._state == "text":
            yield False, piece
            return
        text, self._held = self._held + piece, ""
        if self._state == "start":
            begin = text.lstrip()
            if begin.startswith(OPENING):
                self._state, text = "thinking", begin[len(OPENING) :]
            elif OPENING.startswith(begin):
                self._held = text
                return
            else:
                self._state = "text"
                yield False, text
                return
        if self._state == "thinking":
            thought, closed, rest = text.partition(CLOSING)
            if not closed:
                keep = next((n for n in range(len(CLOSING) - 1, 0, -1) if text.endswith(CLOSING[:n])), 0)
                thought, self._held = text[: len(text) - keep], text[len(text) - keep :]
            if thought:
                yield True, thought
            if not closed:
                return
            self._state, text = "gap", rest
        if text := text.lstrip():
            self._state = "text"
            yield False, text

    def finish(self) -> Iterator[tuple[bool, str]]:
        """Yield what was held back, at the end of the text or before something else."""
        held, self._held = self._held, ""
        if held:
            is_thinking = self._state == "thinking"
            self._state = "thinking" if is_thinking else "text"
            yield is_thinking, held
