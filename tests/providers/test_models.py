"""What is known of a model by its name."""

import pytest

from ikigai.core.ports import Limits
from ikigai.providers.models import DEFAULTS, default, limits


@pytest.mark.parametrize(
    ("model", "context"),
    [
        ("anthropic/claude-sonnet-4-20250514", 200_000),
        ("openai/gpt-5", 400_000),
        ("openai/gpt-5.6-terra", 1_050_000),
        ("openai/gpt-6.1-sol", 1_050_000),
        ("openai/gpt-4.1-mini", 1_000_000),
        ("openai/gpt-4o-mini", 128_000),
        ("openai/gpt-4-turbo", 128_000),
        ("openai/gpt-4", 128_000),
        ("google/gemini-2.5-pro", 1_000_000),
        ("openrouter/x-ai/grok-4-fast", 2_000_000),
        ("xai/grok-3", 131_072),
        ("deepseek/DeepSeek-V3", 163_840),
        ("openrouter/deepseek/deepseek-chat-v3-0324", 163_840),
        ("deepseek/deepseek-r1", 128_000),
        ("groq/qwen3-32b", 131_072),
        ("groq/qwen-2.5", 128_000),
        ("meta/Llama-4-Maverick", 327_680),
        ("meta/llama-3.3-70b", 128_000),
        ("mistral/mistral-large-2512", 262_144),
        ("mistral/mixtral-8x7b", 128_000),
        ("somebody/unheard-of", 128_000),
        ("", 128_000),
    ],
)
def test_context_by_name(model: str, context: int):
    assert limits(model).context == context
    assert 0 < limits(model).max_output <= context // 4


def test_a_local_model_is_small_whatever_its_name():
    assert limits("local/llama-4") == Limits(8_192, 2_048)


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        (Limits(0, 0), Limits(400_000, 32_768)),
        (Limits(1_000, 0), Limits(1_000, 32_768)),
        (Limits(0, 100), Limits(400_000, 100)),
        (Limits(1_000, 100), Limits(1_000, 100)),
    ],
)
def test_what_is_configured_counts(known: Limits, expected: Limits):
    assert limits("openai/gpt-5", known) == expected


@pytest.mark.parametrize(
    ("keys", "provider"),
    [(set(), None), ({"google"}, "google"), ({"google", "openai"}, "openai"), ({"openai", "anthropic"}, "anthropic")],
)
def test_the_model_to_start_with(keys: set[str], provider: str | None):
    assert default(keys) == (DEFAULTS[provider] if provider else "")


def test_defaults_name_their_provider():
    assert all(model.startswith(f"{provider}/") for provider, model in DEFAULTS.items())
