"""How a reply under way is told to whoever reads its draft: its parts in order, and what of them is new."""

from collections.abc import Sequence
from typing import TypeAlias

from ikigai.core.messages import ReplyBlock, Text, Thinking
from ikigai.core.record import Record
from ikigai.core.request.reply import Delta, TextDelta, ThinkingDelta, ToolCallDelta

Parts: TypeAlias = tuple[tuple[str, int | str], ...]
"""How the words and thoughts of a draft follow one another: ("text", characters), ("thinking", characters) of the one
and the other, and ("call", name)."""

APART = "\n\n"
"""What stands between two thoughts in the thinking of a draft (`reply.Accumulator.thinking`)."""


class Draft(Record, frozen=True):
    """What a reply still streaming has said and thought, as last saved; `asked_by` is the event it answers.

    `parts` say how that follows one another, for who watches it; () where nobody needs to know.
    """

    asked_by: int
    text: str
    thinking: str = ""
    parts: Parts = ()


def parts(blocks: Sequence[ReplyBlock]) -> Parts:
    """The parts of a reply that has come so far."""
    return tuple(_part(block) for block in blocks if not isinstance(block, Thinking) or block.text)


def _part(block: ReplyBlock) -> tuple[str, int | str]:
    match block:
        case Text(text):
            return "text", len(text)
        case Thinking(text):
            return "thinking", len(text)
        case call:
            return "call", call.name


class Telling:
    """Makes deltas of the states of one draft, each word once and in order.

    `text` and `thinking` are what was told of the reply to the event `asked_by`.
    """

    def __init__(self, asked_by: int) -> None:
        self.asked_by = asked_by
        self.text = self.thinking = ""
        self._calls: list[str] = []  # names of calls as they were told

    def more(self, text: str, thinking: str, parts: Parts) -> list[Delta]:
        """What a newer state adds: `text` and `thinking` are what it has behind what was told, `parts` are all of it.

        Parts that do not come to their texts, as a damaged row may have them, are taken for one thought and its words.
        """
        said, thought = len(self.text), len(self.thinking)
        self.text += text
        self.thinking += thinking
        if not self._fit(parts):
            parts = (("thinking", len(self.thinking)), ("text", len(self.text)))
        deltas: list[Delta] = []
        word = idea = call = 0  # where the part begins
        before = ""
        for kind, size in parts:
            match kind, size:
                case "text", int():
                    if new := self.text[max(word, said) : word + size]:
                        deltas.append(TextDelta(new))
                    word += size
                case "thinking", int():
                    if new := self.thinking[max(idea, thought) : idea + size]:
                        deltas.append(ThinkingDelta(APART * (before == kind and idea >= thought) + new))
                    idea += size + len(APART)
                case _:
                    deltas += self._call(call, str(size))
                    call += 1
            before = kind
        return deltas

    def rest(self, blocks: Sequence[ReplyBlock]) -> list[Delta]:
        """What the whole reply adds; nothing where it is not the one that was told."""
        text = "".join(block.text for block in blocks if isinstance(block, Text))
        thinking = APART.join(block.text for block in blocks if isinstance(block, Thinking) and block.text)
        if not (text.startswith(self.text) and thinking.startswith(self.thinking)):
            return []
        return self.more(text[len(self.text) :], thinking[len(self.thinking) :], parts(blocks))

    def _call(self, number: int, name: str) -> list[Delta]:
        if number < len(self._calls):
            return []
        self._calls.append(name)
        return [ToolCallDelta(number, name=name)]

    def _fit(self, parts: Parts) -> bool:
        """Whether these parts come to the texts."""
        words = [size for kind, size in parts if kind == "text" and isinstance(size, int) and size >= 0]
        thoughts = [size for kind, size in parts if kind == "thinking" and isinstance(size, int) and size >= 0]
        calls = [name for kind, name in parts if kind == "call" and isinstance(name, str)]
        between = len(APART) * max(0, len(thoughts) - 1)
        whole = len(words) + len(thoughts) + len(calls) == len(parts)
        return whole and sum(words) == len(self.text) and sum(thoughts) + between == len(self.thinking)
