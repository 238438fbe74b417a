"""/copy: the last answer of the agent on screen, or a code block of it, for the terminal's clipboard."""

from __future__ import annotations

from typing import NamedTuple

from ikigai.core.errors import Refused
from ikigai.core.messages import Role
from ikigai.core.sanitize import clean, clean_line
from ikigai.core.state.memory import Memory
from ikigai.terminal.render.markdown import code_blocks


class Chosen(NamedTuple):
    """Safe text to copy, and what it is in words."""

    text: str
    what: str


def chosen(memory: Memory, argument: str) -> Chosen:
    """The answer, or its code block of that number, counted from 1. Raises Refused where there is none.

    A code block comes without its last line break: pasted into a shell it waits for Enter.
    """
    answer = last_answer(memory)
    if not answer:
        raise Refused("There is no answer in the context.", "The history (Ctrl+T) holds older ones: c copies there.")
    if not argument:
        return Chosen(clean(answer).strip("\n"), "The last answer")
    if not (argument.isascii() and argument.isdecimal() and int(argument[:9])):
        raise Refused(f"/copy cannot {argument[:80]!r}.", "Write /copy, or /copy N for the Nth code block.")
    blocks = code_blocks(answer)
    if not blocks:
        raise Refused("The last answer has no code block.", "/copy alone copies all of it.")
    if int(argument[:9]) > len(blocks):
        count = "one code block" if len(blocks) == 1 else f"{len(blocks):,} code blocks"
        raise Refused(f"The last answer has {count}.", f"Write a number up to {len(blocks)}.")
    return Chosen(blocks[int(argument) - 1], f"Code block {argument.lstrip('0')} of {len(blocks):,}")


def offered(memory: Memory | None) -> dict[str, str]:
    """The numbers of the last answer's code blocks, and how each begins."""
    blocks = code_blocks(last_answer(memory)) if memory else ()
    return {str(n): clean_line(block.lstrip().partition("\n")[0][:60]) for n, block in enumerate(blocks, 1)}


def last_answer(memory: Memory) -> str:
    """The words of the newest message of the model that has some; "" where none is in the context."""
    turns = (*(turn.messages for turn in memory.window.turns), memory.open.messages if memory.open else ())
    said = (each.text for messages in reversed(turns) for each in reversed(messages) if each.role is Role.ASSISTANT)
    return next((text for text in said if text.strip()), "")
