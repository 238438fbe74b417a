"""What an OpenAI-like list of models says of them, and which of OpenAI's own one can talk with. Pure."""

import re
from typing import Any

from ikigai.providers.json_shape import mapping, number, sequence, string
from ikigai.providers.models import Listed

NO_CHAT = re.compile(
    r"embedding|moderation|whisper|transcribe|translate|tts|audio|realtime|dall-e|image|sora|voice|live"
    r"|search-(preview|api)|deep-research|computer-use|instruct|^(babbage|davinci|curie|ada)"
)
"""Names of OpenAI's models that answer no words to words, or only through an endpoint or tool of their own."""

CONTEXT = ("context_length", "context_window", "max_context_length", "max_model_len")
"""OpenRouter and Together, Groq, Mistral and LM Studio, vLLM."""
OUTPUT = ("max_completion_tokens", "max_output_tokens", "max_output_length")


def chats(id: str) -> bool:
    """Whether one of OpenAI's own models is one to talk with; its list does not say, the name does."""
    return not NO_CHAT.search(id)


def listed(answer: object) -> list[Listed]:
    """The models of a list, each once, in its order: OpenAI's own tells names only, other servers tell more."""
    entries = answer if isinstance(answer, list) else sequence(mapping(answer).get("data"))
    found: dict[str, Listed] = {}
    for entry in map(mapping, entries):
        if id := string(entry.get("id")):
            found.setdefault(id, _listed(id, entry))
    return list(found.values())


def _listed(id: str, entry: dict[str, Any]) -> Listed:
    top, meta = mapping(entry.get("top_provider")), mapping(entry.get("meta"))  # OpenRouter's, llama.cpp's
    context = _first(entry, CONTEXT) or number(meta.get("n_ctx")) or number(meta.get("n_ctx_train"))
    return Listed(id, context, _first(entry, OUTPUT) or _first(top, OUTPUT), images=_images(entry))


def _first(entry: dict[str, Any], names: tuple[str, ...]) -> int:
    return next((count for name in names if (count := number(entry.get(name)))), 0)


def _images(entry: dict[str, Any]) -> bool | None:
    if kinds := sequence(mapping(entry.get("architecture")).get("input_modalities")):  # OpenRouter's
        return "image" in kinds
    vision = mapping(entry.get("capabilities")).get("vision")  # Mistral's
    return vision if isinstance(vision, bool) else None
