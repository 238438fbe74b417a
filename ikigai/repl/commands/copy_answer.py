"""Find the text that /copy puts on the terminal's clipboard: the last answer on screen, or a code block of it."""

from __future__ import annotations

from ikigai.core.commands.arguments import quoted
from ikigai.core.errors import Rejected, WrongArgument
from ikigai.core.events.messages import Role
from ikigai.core.request.build import REPLY_PLACEHOLDERS
from ikigai.core.state.memory import Memory
from ikigai.core.text.sanitize import clean, clean_line
from ikigai.terminal.render.markdown import code_blocks


def choose_copy(memory: Memory, argument: str) -> tuple[str, str]:
    """Return the last answer, or the code block of it that `argument` numbers from 1, safe to copy; and its name.

    Raise Rejected if none exists. A code block comes without its last line break: pasted into a shell it waits for
    Enter.
    """
    if argument and not (argument.isascii() and argument.isdecimal() and int(argument[:9])):
        raise WrongArgument(f"{quoted(argument)} is not the number of a code block.")
    answer = last_answer(memory)
    if not answer:
        raise Rejected("There is no answer yet.", "In /history, c copies older messages.")
    if not argument:
        return clean(answer).strip("\n"), "the last answer"
    blocks = code_blocks(answer)
    if not blocks:
        raise Rejected("The last answer has no code block.", "/copy alone copies all of it.")
    if int(argument[:9]) > len(blocks):
        count = "one code block" if len(blocks) == 1 else f"{len(blocks):,} code blocks"
        raise Rejected(f"The last answer has {count}.", f"Write a number up to {len(blocks)}.")
    return blocks[int(argument) - 1], f"code block {argument.lstrip('0')} of {len(blocks):,}"


def list_code_blocks(memory: Memory | None) -> dict[str, str]:
    """Return the numbers of the last answer's code blocks, with the beginning of each."""
    blocks = code_blocks(last_answer(memory)) if memory else ()
    return {str(n): clean_line(block.lstrip().partition("\n")[0][:60]) for n, block in enumerate(blocks, 1)}


def last_answer(memory: Memory) -> str:
    """Return the newest text of the model in the context, or "". Our own placeholders do not count."""
    turns = (*(turn.messages for turn in memory.window.turns), memory.open.messages if memory.open else ())
    texts = (each.text for messages in reversed(turns) for each in reversed(messages) if each.role is Role.ASSISTANT)
    return next((text for text in texts if text.strip() and text not in REPLY_PLACEHOLDERS.values()), "")
