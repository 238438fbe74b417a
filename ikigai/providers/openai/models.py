"""Read OpenAI-like lists of models, and tell which of OpenAI's own models can chat. Pure."""

import re
from typing import Any

from ikigai.providers.http.json_shape import as_count, as_mapping, as_sequence, as_string
from ikigai.providers.models.models import ListedModel

NO_CHAT = re.compile(
    r"embedding|moderation|whisper|transcribe|translate|tts|audio|realtime|dall-e|image|sora|voice|live"
    r"|search-(preview|api)|deep-research|computer-use|instruct|^(babbage|davinci|curie|ada)"
)
"""Names of OpenAI's models that do not answer text with text, or only through an endpoint or tool of their own."""

CONTEXT_FIELDS = ("context_length", "context_window", "max_context_length", "max_model_len")
"""The field of OpenRouter and Together, Groq, Mistral and LM Studio, vLLM."""
OUTPUT_FIELDS = ("max_completion_tokens", "max_output_tokens", "max_output_length")


def is_chat_model(id: str) -> bool:
    """Return True if one of OpenAI's own models can chat; its list does not say, the name does."""
    return not NO_CHAT.search(id)


def parse_models(answer: object) -> list[ListedModel]:
    """Return the models of a list, each once, in its order: OpenAI's own has names only, other servers give more."""
    entries = answer if isinstance(answer, list) else as_sequence(as_mapping(answer).get("data"))
    models: dict[str, ListedModel] = {}
    for entry in map(as_mapping, entries):
        if id := as_string(entry.get("id")):
            models.setdefault(id, _listed(id, entry))
    return list(models.values())


def _listed(id: str, entry: dict[str, Any]) -> ListedModel:
    # Of OpenRouter, llama.cpp, and GitHub.
    top, meta, limits = (as_mapping(entry.get(name)) for name in ("top_provider", "meta", "limits"))
    inner = meta.get("n_ctx"), meta.get("n_ctx_train"), limits.get("max_input_tokens")
    context = _first(entry, CONTEXT_FIELDS) or next(filter(None, map(as_count, inner)), 0)
    output = next(filter(None, (_first(place, OUTPUT_FIELDS) for place in (entry, top, limits))), 0)
    return ListedModel(id, context, output, images=_images(entry))


def _first(entry: dict[str, Any], names: tuple[str, ...]) -> int:
    return next((count for name in names if (count := as_count(entry.get(name)))), 0)


def _images(entry: dict[str, Any]) -> bool | None:
    architecture = as_mapping(entry.get("architecture"))
    if kinds := as_sequence(architecture.get("input_modalities") or entry.get("supported_input_modalities")):
        return "image" in kinds  # OpenRouter's and GitHub's
    vision = as_mapping(entry.get("capabilities")).get("vision")  # Mistral's
    return vision if isinstance(vision, bool) else None
