"""Calibrate the tokens of a turn: its bytes at the rate of the provider's own figures.

`fold.end_turn` asks for them with `token_counter = "calibrated"`, and stores them with the turn's end:
a later rate changes no ended turn.
"""

from ikigai.core.events.events import UsageReported
from ikigai.core.state.memory import Memory, measure
from ikigai.core.text import tokens

MIN_TOKENS_PER_BYTE, MAX_TOKENS_PER_BYTE = 0.02, 2.0
"""Limits of a calibrated rate: long runs of spaces, and random bytes as base64."""


def calibrated_tokens(memory: Memory, size: int, usage: UsageReported | None) -> int:
    """Return the tokens of an ending turn of `size` bytes, at the rate of the provider's figure for its last request.

    Without a figure the rate of the newest turn holds. Return 0, which means plain bytes, if that turn has none either.
    Both are rates of plain bytes: a rate of calibrated sizes would undo the calibration.
    """
    if usage and usage.usage.input > 0 and usage.size > 0:
        rate = usage.usage.input / usage.size
    else:
        newest = memory.full_window.turns[-1] if memory.full_window.turns else None
        plain = measure(memory, newest.messages) if newest else 0
        if newest is None or not plain or newest.size == plain:
            return 0
        rate = newest.size / tokens.BYTES_PER_TOKEN / plain
    return max(1, round(size * min(max(rate, MIN_TOKENS_PER_BYTE), MAX_TOKENS_PER_BYTE)))
