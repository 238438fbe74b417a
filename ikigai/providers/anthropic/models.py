"""Differences between Claude models in thinking parameters and image tokens, by their names. Pure.

Levels become one of two forms, as `ModelTraits.thinking` says: "adaptive" (the model decides, guided by
`output_config.effort`) or "budget" (`budget_tokens`, for models up to 4.5). The parameters of each model:
https://platform.claude.com/docs/en/build-with-claude/thinking and /preserved-thinking.
"""

import math
import re
from typing import Any

from ikigai.core.events.messages import Image
from ikigai.core.events.record import Record
from ikigai.providers.models import bundled_models
from ikigai.providers.models.models import ModelTraits

CLAUDE_EFFORT = {"min": "low", "low": "low", "med": "medium", "high": "high"}
"""Level → output_config.effort; the format has nothing below "low"."""

THINKING_BUDGET = {"min": 1_024, "low": 4_096, "med": 12_288, "high": 24_576}
"""Level → budget_tokens; 1,024 is the minimum."""
MIN_THINKING_BUDGET = 1_024
MIN_ANSWER_TOKENS = 1_024
"""Tokens of output that a budget leaves to the answer if the model's maximum is narrow."""

DEFAULT_MAX_TOKENS = 8_192
"""max_tokens, which the format requires, if neither request nor model says one: every model takes as much."""

CLAUDE_PATCH_PIXELS = 28
"""Pixels of the side of a patch: an image, scaled down to the model's limits, costs one token per patch."""
CLAUDE_NAME = re.compile(r"claude-([a-z]+)-(\d{1,2})(?:[-.](\d)(?!\d))?")


class ImageLimits(Record, frozen=True):
    """The largest image a model sees: `edge` in pixels, `tokens` in all. Larger ones are scaled down by the server."""

    edge: int
    tokens: int


STANDARD_IMAGES = ImageLimits(1_568, 1_568)
HIGH_RESOLUTION_IMAGES = ImageLimits(2_576, 4_784)
"""From Opus 4.7 on (https://platform.claude.com/docs/en/build-with-claude/vision)."""


def parse_generation(model: str) -> tuple[str, tuple[int, int]]:
    """Return line and version that a name contains: ("opus", (4, 7)); ("", (0, 0)) for older and other names."""
    match = CLAUDE_NAME.search(model.lower())
    return (match[1], (int(match[2]), int(match[3] or 0))) if match else ("", (0, 0))


def is_adaptive_by_default(model: str) -> bool:
    """Return True if a request without `thinking` gets adaptive thinking, so that asking for it changes nothing."""
    return parse_generation(model)[1] >= (5, 0) or "mythos" in model.lower()


def binds_thinking(model: str) -> bool:
    """Return True if returned thinking is refused once anything before it has changed ("preserved thinking")."""
    line, version = parse_generation(model)
    return version >= ((5, 1) if line in ("fable", "mythos") else (5, 5))


def supports_schemas(model: str) -> bool:
    """Return True if the model may know `output_config.format`: Claude has it from 4.5 on. Other names may refuse it.

    https://platform.claude.com/docs/en/build-with-claude/structured-outputs
    """
    words, version = bundled_models.parse(model)
    return "claude" not in words or version >= (4, 5)


def thinking_parameters(model: str, traits: ModelTraits, level: str, binding: bool = True) -> dict[str, Any]:
    """Return the request's `thinking` and `output_config` for an adaptive model; {} if none is needed.

    Summaries are requested: newer models otherwise send signatures alone. `binding` lets a model that binds its
    thinking drop the part that it no longer takes, because memory drops and masks events before it.
    """
    if traits.thinking != "adaptive" or (not level and not is_adaptive_by_default(model)):
        return {}
    if level == "off" and ("off" in traits.levels or not traits.levels):
        return {"thinking": {"type": traits.off or "disabled"}}
    parameters: dict[str, Any] = {"thinking": {"type": "adaptive", "display": "summarized"}}
    if binding and binds_thinking(model):
        parameters["thinking"]["block_binding"] = {"prefix_mismatch_behavior": "drop_block"}
    if level:
        parameters["output_config"] = {"effort": CLAUDE_EFFORT.get(level, "low")}
    return parameters


def output_budget(level: str, output: int, most: int) -> tuple[int, int]:
    """Return max_tokens and budget_tokens for `output` tokens of answer; a budget of 0 is no thinking.

    The budget is a part of `output` if that has room for an answer beside it. Else more is requested, up to the model's
    maximum `most` (0 = unknown, never below `output`).
    """
    budget = THINKING_BUDGET.get(level, 0)
    limit = max(output, budget + min(output, DEFAULT_MAX_TOKENS))
    limit = min(limit, most) if most else limit
    if not budget or limit <= MIN_THINKING_BUDGET:
        return output, 0
    return limit, max(MIN_THINKING_BUDGET, min(budget, limit - MIN_ANSWER_TOKENS))


def image_tokens(model: str, image: Image) -> int:
    """Return the tokens of an image for this model."""
    limits = _image_limits(model)
    scale = min(1.0, limits.edge / max(image.width, image.height, 1))
    tiles = math.ceil(image.width * scale / CLAUDE_PATCH_PIXELS) * math.ceil(image.height * scale / CLAUDE_PATCH_PIXELS)
    return min(max(tiles, 1), limits.tokens)


def _image_limits(model: str) -> ImageLimits:
    line, version = parse_generation(model)
    is_high_resolution = version >= (5, 0) or (line == "opus" and version >= (4, 7)) or "mythos" in model.lower()
    # An unknown name is another vendor's, or a newer one: counted high, so that memory leaves room.
    return HIGH_RESOLUTION_IMAGES if is_high_resolution or "claude" not in model.lower() else STANDARD_IMAGES
