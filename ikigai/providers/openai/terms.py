"""What OpenAI's two formats share: names of levels, what a picture counts, the form of a reply."""

import math
from typing import Any

import msgspec

from ikigai.core.messages import Image

EFFORT = {"off": "none", "min": "minimal", "med": "medium"}
"""Levels whose name here is not OpenAI's; every other level goes by its own name."""

PATCH = 32
MOST_PATCHES = 1536
TOKENS_PER_PATCH = 1.62


def image_tokens(image: Image) -> int:
    """Tokens of a picture for OpenAI's own models.

    By OpenAI's guide "Images and vision", "Calculating costs": patches of 32 px, at most 1536 of them, 1.62 tokens each
    for the mini models. What the guide says for other models (85 + 170 for each tile of 512 px, or one token a patch)
    comes to less, but for the nano models.
    """
    patches = math.ceil(image.width / PATCH) * math.ceil(image.height / PATCH)
    return math.ceil(max(1, min(patches, MOST_PATCHES)) * TOKENS_PER_PATCH)


def form(schema: str) -> dict[str, Any]:
    """A JSON schema that a reply keeps to, as both formats name it.

    Strictly: every property of every object must be required, and no others allowed.
    """
    return {"name": "answer", "strict": True, "schema": msgspec.Raw(schema.encode())}
