"""This module holds what OpenAI's two formats share: names of levels, tokens of an image, the form of a reply."""

import math
from typing import Any

import msgspec

from ikigai.core.messages import Image

OPENAI_EFFORT = {"off": "none", "min": "minimal", "med": "medium"}
"""Levels with another name at OpenAI; every other level keeps its name."""

OPENAI_PATCH_PIXELS = 32
MAX_PATCHES = 1536
TOKENS_PER_PATCH = 1.62


def image_tokens(image: Image) -> int:
    """Return the tokens of an image for OpenAI's own models.

    By OpenAI's guide "Images and vision", "Calculating costs": patches of 32 px, at most 1536 of them, 1.62 tokens each
    for the mini models. The guide's figures for other models (85 + 170 for each tile of 512 px, or one token a patch)
    come to less, except for the nano models.
    """
    patches = math.ceil(image.width / OPENAI_PATCH_PIXELS) * math.ceil(image.height / OPENAI_PATCH_PIXELS)
    return math.ceil(max(1, min(patches, MAX_PATCHES)) * TOKENS_PER_PATCH)


def response_format(schema: str) -> dict[str, Any]:
    """Return a JSON schema that a reply keeps to, in the form of both formats.

    It is strict: every property of every object must be required, and no others allowed.
    """
    return {"name": "answer", "strict": True, "schema": msgspec.Raw(schema.encode())}
