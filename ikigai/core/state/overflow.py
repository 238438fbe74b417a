"""A request that a provider finds larger than the model's context: what it says the limit is, and what to do then."""

import re
from functools import cache

from ikigai.core import tokens
from ikigai.core.messages import Role, ToolResult
from ikigai.core.state.memory import Memory, measured, replace

TRIES = 3
"""How often a request is made smaller and sent again."""
STEP = 0.75
"""What is left of a request that was too large although it was thought to fit: the count was too low by then."""

_COUNT = r"(\d[\d,._]{0,14}\d|\d)"
LIMITS = (
    r"tokens? > # maximum",  # Anthropic: prompt is too long: 210000 tokens > 200000 maximum
    r"maximum (?:context|prompt) length (?:is|of)(?: only)? #",  # OpenAI and many that speak like it
    r"maximum number of tokens allowed \(#\)",  # Google
    r"context (?:size|length|window|limit)[^\d]{0,24}#",  # llama.cpp, Ollama: available context size (8192 tokens)
    r"n_ctx['\":= ]+#",
    r"exceeds the (?:limit|maximum)[^\d]{0,24}#",  # Copilot, and hosts that speak like it
    r"(?:limit|maximum)(?: is| of|:)? # (?:input )?tokens",
    r"# tokens? (?:limit|maximum)",
    r"range of input length should be \[\d+, ?#\]",  # Qwen
)
LEAST, MOST = 256, 100_000_000
"""Tokens that a context can have; other numbers are something else."""


def stated(message: str) -> int | None:
    """The context in tokens that an error message names as the most, None if it names none."""
    for pattern in _limits():
        if (found := pattern.search(message)) and LEAST <= (limit := int(re.sub(r"\D", "", found[1]))) <= MOST:
            return limit
    return None


@cache
def _limits() -> tuple[re.Pattern[str], ...]:
    """Compiled when one is wanted: a start does without."""
    return tuple(re.compile(each.replace("#", _COUNT), re.IGNORECASE | re.DOTALL) for each in LIMITS)


def learned(memory: Memory, message: str) -> int:
    """The context in tokens to go by from now on, so that the next request is smaller than the one refused."""
    limit, limits = stated(message), memory.limits
    if limit and _room(memory, limit) < memory.used:
        return min(limit, limits.context)
    room = STEP * memory.used
    largest = (room + limits.max_output) / 0.9  # the inverse of Memory.room
    return min(int(largest if largest / 4 >= limits.max_output else room / 0.65), limits.context)


def _room(memory: Memory, context: int) -> int:
    return replace(memory, limits=replace(memory.limits, context=context)).room


def complaint(memory: Memory, reason: str) -> str:
    """What a turn fails with that cannot be made to fit: what the provider said, what is too big, what helps."""
    if not memory.budget:
        return (
            f"{reason} The window is off, so nothing leaves by itself: /budget 100k switches it on, /clear empties it."
        )
    parts = dict(_parts(memory))
    largest = max(parts, key=lambda part: parts[part])
    size = tokens.short(tokens.count(memory.provider, memory.model, parts[largest]))
    return f"{reason} The largest part is {largest} (about {size} tokens). {HELP[largest]}"


SYSTEM, MESSAGE, RESULT, REPLIES = "the system prompt with the tools", "your message", "a tool result", "what was said"
FIRST = "the first turn, which is kept"
HELP = {
    FIRST: "keep_first_turn = false in the configuration lets it leave, /clear begins anew.",
    SYSTEM: "/system makes it shorter, /model chooses a model with a larger context.",
    MESSAGE: "Send less of it, or choose a model with a larger context with /model.",
    RESULT: "max_tool_result_tokens in the configuration cuts results shorter; /model chooses a larger model.",
    REPLIES: "Send the rest as a new message, or choose a model with a larger context with /model.",
}


def _parts(memory: Memory) -> list[tuple[str, int]]:
    """The parts of a request that cannot leave it, with their bytes."""
    messages = memory.open.messages if memory.open else ()
    users = sum(measured(memory, [message]) for message in messages if message.role is Role.USER)
    results = [block for message in messages for block in message.blocks if isinstance(block, ToolResult)]
    largest = max((len(result.content.encode(errors="surrogatepass")) for result in results), default=0)
    replies = sum(measured(memory, [message]) for message in messages if message.role is not Role.USER)
    first = memory.window.first.size if memory.window.first else 0
    return [
        (FIRST, first),
        (SYSTEM, memory.envelope),
        (MESSAGE, users),
        (RESULT, largest),
        (REPLIES, max(0, replies - largest)),
    ]
