"""How Claude models differ in what they are asked and what an image costs them: by their names, pure.

Levels become one of two forms, as `Traits.thinking` says: "adaptive" (the model decides, `output_config.effort` leads
it) or "budget" (`budget_tokens`, for models up to 4.5). What each model takes:
https://platform.claude.com/docs/en/build-with-claude/thinking and /preserved-thinking.
"""

import math
import re
from typing import Any

from ikigai.core.messages import Image
from ikigai.core.record import Record
from ikigai.providers import registry
from ikigai.providers.models import Traits

EFFORT = {"min": "low", "low": "low", "med": "medium", "high": "high"}
"""Level → output_config.effort; the format has nothing below "low"."""

BUDGET = {"min": 1_024, "low": 4_096, "med": 12_288, "high": 24_576}
"""Level → budget_tokens; 1,024 is the least that is taken."""
LEAST = 1_024
ANSWER = 1_024
"""Tokens of output that a budget leaves to the answer, where the model's maximum is narrow."""

OUTPUT = 8_192
"""max_tokens, which the format demands, where neither request nor model says one: every model takes as much."""

PATCH = 28
"""An image costs one token for each square of so many pixels, once scaled down to what the model sees."""
NAME = re.compile(r"claude-([a-z]+)-(\d{1,2})(?:[-.](\d)(?!\d))?")


class Sight(Record, frozen=True):
    """The largest image a model sees: `edge` in pixels, `tokens` in all. Larger ones are scaled down by the server."""

    edge: int
    tokens: int


STANDARD = Sight(1_568, 1_568)
HIGH = Sight(2_576, 4_784)
"""From Opus 4.7 on (https://platform.claude.com/docs/en/build-with-claude/vision)."""


def generation(model: str) -> tuple[str, tuple[int, int]]:
    """Line and version that a name tells: ("opus", (4, 7)); ("", (0, 0)) for older and other names."""
    found = NAME.search(model.lower())
    return (found[1], (int(found[2]), int(found[3] or 0))) if found else ("", (0, 0))


def thinks_unasked(model: str) -> bool:
    """Whether a request without `thinking` gets adaptive thinking, so that asking for it changes nothing."""
    return generation(model)[1] >= (5, 0) or "mythos" in model.lower()


def binds(model: str) -> bool:
    """Whether thinking that comes back is refused when anything before it has changed ("preserved thinking")."""
    line, version = generation(model)
    return version >= ((5, 1) if line in ("fable", "mythos") else (5, 5))


def keeps_to_schemas(model: str) -> bool:
    """Whether `output_config.format` is asked for: Claude has it from 4.5 on; other names may, and refuse it if not.

    https://platform.claude.com/docs/en/build-with-claude/structured-outputs
    """
    words, version = registry.parse(model)
    return "claude" not in words or version >= (4, 5)


def thinking(model: str, traits: Traits, level: str, binding: bool = True) -> dict[str, Any]:
    """The request's `thinking` and `output_config` for an adaptive model; empty where nothing has to be said.

    Summaries are asked for: newer models otherwise send signatures alone. `binding` asks a model that binds its
    thinking to drop what it no longer takes, as memory drops and masks what stands before it.
    """
    if traits.thinking != "adaptive" or (not level and not thinks_unasked(model)):
        return {}
    if level == "off" and ("off" in traits.levels or not traits.levels):
        return {"thinking": {"type": traits.off or "disabled"}}
    asked: dict[str, Any] = {"thinking": {"type": "adaptive", "display": "summarized"}}
    if binding and binds(model):
        asked["thinking"]["block_binding"] = {"prefix_mismatch_behavior": "drop_block"}
    if level:
        asked["output_config"] = {"effort": EFFORT.get(level, "low")}
    return asked


def budget(level: str, output: int, most: int) -> tuple[int, int]:
    """max_tokens and budget_tokens for `output` tokens of answer; a budget of 0 is no thinking.

    The budget is a part of `output` where there is room for an answer beside it; else more is asked for, as far as the
    model's maximum `most` (0 = unknown, never below `output`) allows.
    """
    wanted = BUDGET.get(level, 0)
    limit = max(output, wanted + min(output, OUTPUT))
    limit = min(limit, most) if most else limit
    if not wanted or limit <= LEAST:
        return output, 0
    return limit, max(LEAST, min(wanted, limit - ANSWER))


def image_tokens(model: str, image: Image) -> int:
    """What an image costs this model, in tokens."""
    sight = _sight(model)
    scale = min(1.0, sight.edge / max(image.width, image.height, 1))
    tiles = math.ceil(image.width * scale / PATCH) * math.ceil(image.height * scale / PATCH)
    return min(max(tiles, 1), sight.tokens)


def _sight(model: str) -> Sight:
    line, version = generation(model)
    seen_well = version >= (5, 0) or (line == "opus" and version >= (4, 7)) or "mythos" in model.lower()
    # An unknown name is another vendor's, or a newer one: counted high, so that memory leaves room.
    return HIGH if seen_well or "claude" not in model.lower() else STANDARD
