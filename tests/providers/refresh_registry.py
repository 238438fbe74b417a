"""Bring the contexts of registry.json up to date with the installed genai-prices.

Run `python -m tests.providers.refresh_registry` after an update of it, and read the difference. What genai-prices does
not know (longest replies, thinking, images, and families without a `like`) stays as it is.
"""

import json
from importlib.metadata import version
from typing import Any

from ikigai.providers.models.bundled_models import REGISTRY_FILE


def refreshed(text: str) -> str:
    """The file anew. Raises LookupError for a `like` that genai-prices does not have or knows no context of."""
    registry = json.loads(text)
    registry["source"] = f"genai-prices {version('genai-prices')}"
    for family in registry["families"]:
        if "like" in family:
            family["context"] = context(family["like"])
    return written(registry)


def context(like: str) -> int:
    """Tokens of context of PROVIDER/NAME as genai-prices has it."""
    from genai_prices.data import providers

    provider, _, name = like.partition("/")
    models = next(found.models for found in providers if found.id == provider)
    model = next((model for model in models if model.is_match(name)), None)
    if model is None or not model.context_window:
        raise LookupError(f"genai-prices knows no context of {like}")
    return model.context_window


def written(registry: dict[str, Any]) -> str:
    """A line for each vendor and each family, so that changes are seen line by line."""
    names = ",\n".join(f" {json.dumps(key)}: {json.dumps(value)}" for key, value in registry["names"].items())
    families = ",\n".join(f" {json.dumps(family)}" for family in registry["families"])
    source = json.dumps(registry["source"])
    return f'{{\n"source": {source},\n"names": {{\n{names}\n}},\n"families": [\n{families}\n]\n}}\n'


if __name__ == "__main__":
    REGISTRY_FILE.write_text(refreshed(REGISTRY_FILE.read_text("utf-8")), "utf-8")
