"""Handle context overflow: read the limit from the provider's message, and word the failure."""

import re
from functools import cache

from ikigai.core.events.messages import Role, ToolResult
from ikigai.core.state.memory import Memory, measure, replace
from ikigai.core.text import tokens

MAX_SHRINKS = 3
"""Times that a request is made smaller and sent again."""
SHRINK_FACTOR = 0.75
"""Share that is left of a request that was too large although its count fitted: the count was too low."""

_COUNT = r"(\d[\d,._]{0,14}\d|\d)"
LIMIT_MESSAGES = (
    r"tokens? > # maximum",  # Anthropic: prompt is too long: 210000 tokens > 200000 maximum
    r"maximum (?:context|prompt) length (?:is|of)(?: only)? #",  # OpenAI and many that speak like it
    r"maximum number of tokens allowed \(#\)",  # Google
    r"context (?:size|length|window|limit)[^\d]{0,24}#",  # llama.cpp, Ollama: available context size (8192 tokens)
    r"n_ctx['\":= ]+#",
    r"exceeds the (?:limit|maximum)[^\d]{0,24}#",  # Copilot, and hosts that speak like it
    r"(?:limit|maximum)(?: is| of|:)? # (?:input )?tokens",
    r"# tokens? (?:limit|maximum)",
    r"max size: # tokens",  # GitHub Models
    r"range of input length should be \[\d+, ?#\]",  # Qwen
)
MIN_CONTEXT, MAX_CONTEXT = 256, 100_000_000
"""Tokens that a context can have; other numbers mean something else."""


def stated_limit(message: str) -> int | None:
    """Return the largest context in tokens that an error message names, None if it names none."""
    for pattern in _limits():
        found = pattern.search(message)
        if found and MIN_CONTEXT <= (limit := int(re.sub(r"\D", "", found[1]))) <= MAX_CONTEXT:
            return limit
    return None


@cache
def _limits() -> tuple[re.Pattern[str], ...]:
    """Return the compiled patterns; compiled on first use, because a start does without."""
    return tuple(re.compile(each.replace("#", _COUNT), re.IGNORECASE | re.DOTALL) for each in LIMIT_MESSAGES)


def learned_context(memory: Memory, message: str) -> int:
    """Return the context in tokens to use from now on, so that the next request is smaller than the refused one."""
    limit, limits = stated_limit(message), memory.limits
    if limit and _room(memory, limit) < memory.used:
        return min(limit, limits.context)
    room = SHRINK_FACTOR * memory.used
    largest = (room + limits.max_output) / 0.9  # the inverse of Memory.room
    return min(int(largest if largest / 4 >= limits.max_output else room / 0.65), limits.context)


def _room(memory: Memory, context: int) -> int:
    return replace(memory, limits=replace(memory.limits, context=context)).room


def overflow_message(memory: Memory, reason: str) -> str:
    """Return the reason of a turn that cannot fit: the provider's message, the largest part, and a remedy."""
    if not memory.budget:
        return (
            f"{reason} The window is off, so no turn leaves it automatically: /budget 100k "
            "switches it on, /clear empties it."
        )
    parts = dict(_parts(memory))
    largest = max(parts, key=lambda part: parts[part])
    size = tokens.format_tokens(tokens.count_tokens(memory.provider, memory.model, parts[largest]))
    return f"{reason} The largest part is {largest} (about {size} tokens). {REMEDY_OF_PART[largest]}"


SYSTEM, MESSAGE, RESULT, REPLIES = "the system prompt with the tools", "your message", "a tool result", "the messages"
KEPT_FIRST_TURN = "the first turn (kept)"
REMEDY_OF_PART = {
    KEPT_FIRST_TURN: "keep_first_turn = false in the configuration lets it leave, /clear empties the context.",
    SYSTEM: "/system makes it shorter, /model chooses a model with a larger context.",
    MESSAGE: "Send less of it, or choose a model with a larger context with /model.",
    RESULT: "max_tool_result_tokens in the configuration cuts results shorter; /model chooses a larger model.",
    REPLIES: "Send the rest as a new message, or choose a model with a larger context with /model.",
}


def _parts(memory: Memory) -> list[tuple[str, int]]:
    """Return the parts of a request that cannot leave it, with their bytes."""
    messages = memory.open.messages if memory.open else ()
    users = sum(measure(memory, [message]) for message in messages if message.role is Role.USER)
    results = [block for message in messages for block in message.blocks if isinstance(block, ToolResult)]
    largest = max((len(result.content.encode(errors="surrogatepass")) for result in results), default=0)
    replies = sum(measure(memory, [message]) for message in messages if message.role is not Role.USER)
    first = memory.window.first.size if memory.window.first else 0
    parts = [(KEPT_FIRST_TURN, first), (SYSTEM, memory.envelope), (MESSAGE, users), (RESULT, largest)]
    return [*parts, (REPLIES, max(0, replies - largest))]
