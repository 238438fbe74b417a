"""What a provider says when a request is larger than the model's context: the limit, if it names one."""

import re

_COUNT = r"(\d[\d,._]{0,14}\d|\d)"
LIMITS = tuple(
    re.compile(pattern.replace("#", _COUNT), re.IGNORECASE | re.DOTALL)
    for pattern in (
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
)
LEAST, MOST = 256, 100_000_000
"""Tokens that a context can have; other numbers are something else."""


def stated(message: str) -> int | None:
    """The context in tokens that an error message names as the most, None if it names none."""
    for pattern in LIMITS:
        if (found := pattern.search(message)) and LEAST <= (limit := int(re.sub(r"\D", "", found[1]))) <= MOST:
            return limit
    return None
