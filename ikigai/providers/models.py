"""What is known of a model by its name: how much it takes and gives, and which one a provider is asked for first."""

from collections.abc import Container

from ikigai.core.ports import Limits

CONTEXTS = (
    ("claude", 200_000, 8_192),
    ("gpt-6", 1_050_000, 32_768),
    ("gpt-5.6", 1_050_000, 32_768),
    ("gpt-5", 400_000, 32_768),
    ("gpt-4.1", 1_000_000, 16_384),
    ("gpt-4o", 128_000, 8_192),
    ("gpt-4-turbo", 128_000, 4_096),
    ("gpt-4", 128_000, 4_096),
    ("gemini", 1_000_000, 8_192),
    ("grok-4", 2_000_000, 8_192),
    ("grok", 131_072, 8_192),
    ("deepseek-v3", 163_840, 8_192),
    ("deepseek-chat-v3", 163_840, 8_192),
    ("deepseek", 128_000, 8_192),
    ("qwen3", 131_072, 8_192),
    ("qwen", 128_000, 8_192),
    ("llama-4", 327_680, 8_192),
    ("llama", 128_000, 8_192),
    ("mistral-large", 262_144, 8_192),
    ("mistral", 128_000, 8_192),
    ("mixtral", 128_000, 8_192),
)
"""Part of a name → tokens of context, and of output to ask for; the first that fits counts, so versions stand before
families. Models that think unseen spend output on it and are given more."""

UNKNOWN = Limits(128_000, 8_192)
UNSET = Limits(0, 0)
LOCAL = Limits(8_192, 2_048)

DEFAULTS = {
    "anthropic": "anthropic/claude-sonnet-5-5",
    "openai": "openai/gpt-5.6-terra",
    "google": "google/gemini-3.8-flash",
}
"""Provider → the model it is asked for when nobody chose; in the order in which providers are tried."""


def limits(model: str, known: Limits = UNSET) -> Limits:
    """The limits of "provider/name": `known` as configured, where it is not 0, else what the name tells."""
    provider, _, name = model.lower().partition("/")
    guess = LOCAL if provider == "local" else _by_name(name)
    return Limits(known.context or guess.context, known.max_output or guess.max_output)


def _by_name(name: str) -> Limits:
    return next((Limits(context, output) for part, context, output in CONTEXTS if part in name), UNKNOWN)


def default(keys: Container[str]) -> str:
    """The model to start with, given the providers that have a key; empty if none is known here."""
    return next((model for provider, model in DEFAULTS.items() if provider in keys), "")
