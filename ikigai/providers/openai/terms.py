"""Terms that OpenAI's two formats share: names of levels, tokens of an image, the form of a reply."""

import hashlib
import math
from typing import Any, Literal, TypeAlias

import msgspec

from ikigai.core.events.messages import Image
from ikigai.core.request.build import Request

OPENAI_EFFORT = {"off": "none", "min": "minimal", "med": "medium"}
"""Levels with another name at OpenAI; every other level keeps its name."""

OptionalPart: TypeAlias = Literal["usage", "summary", "diagnosis", "pages"]
"""A part of a request that is left out for a server that refuses it: for token counts, for thinking in words, for the
reason why the cache missed, for the pages that a search found.
"""

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


def cache_key(request: Request) -> str:
    """Return a name of fixed length for the conversation: requests of one name go where their prefix may be cached."""
    first = request.messages[0].text if request.messages else ""
    return hashlib.sha256(f"{request.system}\0{first}".encode(errors="surrogatepass")).hexdigest()[:32]


def file_fields(name: str, pdf: str) -> dict[str, str]:
    """Return the fields of a PDF, given in base64."""
    return {"filename": name.rpartition("/")[2] or "file.pdf", "file_data": f"data:application/pdf;base64,{pdf}"}


def response_format(schema: str) -> dict[str, Any]:
    """Return a JSON schema that a reply keeps to, in the form of both formats.

    It is strict where OpenAI can keep to it strictly; otherwise the model is only asked to.
    """
    strict = _is_strict(msgspec.json.decode(schema))
    return {"name": "answer", "strict": strict, "schema": msgspec.Raw(schema.encode())}


def _is_strict(schema: Any) -> bool:
    """Return True if every property of every object in the schema is required, and no others are allowed.

    https://platform.openai.com/docs/guides/structured-outputs
    """
    if isinstance(schema, list):
        return all(map(_is_strict, schema))
    if not isinstance(schema, dict):
        return True
    is_object = "object" in schema.get("type", ()) or isinstance(schema.get("properties"), dict)
    if is_object and not (
        schema.get("additionalProperties") is False and {*schema.get("required", ())} == {*schema.get("properties", ())}
    ):
        return False
    return all(map(_is_strict, schema.values()))
