"""Facts about models are found by name, in the order of their sources."""

import subprocess
import sys
from importlib.metadata import version

import pytest

from ikigai.core.commands.arguments import THINKING_LEVELS
from ikigai.core.errors import ConfigError
from ikigai.core.request.model import ModelLimits
from ikigai.core.vendors import VENDORS
from ikigai.providers.models import bundled_models
from ikigai.providers.models.models import ListedModel, ModelCatalog, ModelTraits, default_model
from tests.core.vectors import cases
from tests.providers import refresh_registry

BY_NAME = ModelCatalog()
"""Nobody has said anything: what a name tells by itself."""


def configured(said: ListedModel) -> ModelCatalog:
    """Return a catalog in which the configuration says this of every model."""
    return ModelCatalog(known=lambda model: said)


OFF = ("off",)
LMH = ("low", "med", "high")
OLMH = ("off", *LMH)
MLMH = ("min", *LMH)

KNOWN = [
    # Anthropic: dated, with a point, turned around, at Bedrock and Vertex, behind other servers, older and newer
    ("anthropic/claude-fable-5-2", 1_000_000, "adaptive", LMH),
    ("anthropic/claude-mythos-5-2", 1_000_000, "adaptive", LMH),
    ("anthropic/claude-opus-5-5", 1_000_000, "adaptive", LMH),
    ("anthropic/claude-sonnet-5-5", 1_000_000, "adaptive", OLMH),
    ("anthropic/claude-haiku-5-5-20261007", 1_000_000, "adaptive", OLMH),
    ("anthropic/claude-opus-5", 1_000_000, "adaptive", OLMH),
    ("anthropic/claude-sonnet-5", 1_000_000, "adaptive", OLMH),
    ("anthropic/claude-opus-4-8", 1_000_000, "adaptive", OLMH),
    ("anthropic/claude-sonnet-4-6", 1_000_000, "adaptive", OLMH),
    ("anthropic/claude-opus-4-5-20251101", 200_000, "budget", THINKING_LEVELS),
    ("anthropic/claude-sonnet-4-5-20250929", 200_000, "budget", THINKING_LEVELS),
    ("anthropic/claude-haiku-4-5", 200_000, "budget", THINKING_LEVELS),
    ("anthropic/claude-sonnet-4-20250514", 200_000, "budget", THINKING_LEVELS),
    ("anthropic/claude-3-7-sonnet-latest", 200_000, "budget", THINKING_LEVELS),
    ("anthropic/claude-3-5-sonnet-20241022", 200_000, "", OFF),
    ("anthropic/claude-3-opus-20240229", 200_000, "", OFF),
    ("anthropic/claude-2.1", 200_000, "", OFF),
    ("anthropic/claude-opus-latest", 1_000_000, "adaptive", LMH),
    ("anthropic/claude-opus-4-9", 1_000_000, "adaptive", OLMH),
    ("anthropic/claude-sonnet-7-1", 1_000_000, "adaptive", OLMH),
    ("anthropic/claude-novella-6", 1_000_000, "adaptive", LMH),
    ("anthropic/CLAUDE-OPUS-5-5", 1_000_000, "adaptive", LMH),
    ("openrouter/anthropic/claude-sonnet-4.5", 200_000, "effort", THINKING_LEVELS),
    ("openrouter/anthropic/claude-opus-5.5", 1_000_000, "effort", LMH),
    ("bedrock/us.anthropic.claude-sonnet-4-5-20250929-v1:0", 200_000, "effort", THINKING_LEVELS),
    ("vertex/claude-opus-4-1@20250805", 200_000, "effort", THINKING_LEVELS),
    # OpenAI
    ("openai/gpt-6.1-terra", 1_050_000, "effort", OLMH),
    ("openai/gpt-6.1-sol", 1_050_000, "effort", LMH),
    ("openai/gpt-6-astra", 1_050_000, "effort", LMH),
    ("openai/gpt-6-sol", 1_050_000, "effort", OLMH),
    ("openai/gpt-6.2-sol", 1_050_000, "effort", LMH),
    ("openai/gpt-7", 1_050_000, "effort", LMH),
    ("openai/gpt-5.6-terra", 1_050_000, "effort", OLMH),
    ("openai/gpt-5.5-pro-2026-04-23", 1_000_000, "effort", ("med", "high")),
    ("openai/gpt-5.5-2026-04-23", 1_000_000, "effort", OLMH),
    ("openai/gpt-5.4-mini-2026-03-17", 400_000, "effort", OLMH),
    ("openai/gpt-5.4", 1_050_000, "effort", OLMH),
    ("openai/gpt-5.3-codex", 400_000, "effort", LMH),
    ("openai/gpt-5.3-chat-latest", 128_000, "", OFF),
    ("openai/gpt-5.1-2025-11-13", 400_000, "effort", OLMH),
    ("openai/gpt-5-2025-08-07", 400_000, "effort", MLMH),
    ("openai/gpt-5-mini", 400_000, "effort", MLMH),
    ("openai/gpt-5-pro", 400_000, "effort", ("high",)),
    ("openai/o3", 200_000, "effort", LMH),
    ("openai/o4-mini-2025-04-16", 200_000, "effort", LMH),
    ("openai/o1-mini", 128_000, "", OFF),
    ("openai/gpt-4.1-mini-2025-04-14", 1_000_000, "", OFF),
    ("openai/gpt-4o-2024-11-20", 128_000, "", OFF),
    ("openai/ft:gpt-4o-mini-2024-07-18:org::abc123", 128_000, "", OFF),
    ("openai/chatgpt-4o-latest", 128_000, "", OFF),
    ("openai/gpt-4-turbo-2024-04-09", 128_000, "", OFF),
    ("openai/gpt-4-1106-preview", 128_000, "", OFF),
    ("openai/gpt-4-0613", 8_192, "", OFF),
    ("azure/gpt-35-turbo", 16_385, "", OFF),
    # Google
    ("google/gemini-4-argon", 1_048_576, "level", LMH),
    ("google/gemini-4.5-flash", 1_000_000, "level", LMH),
    ("google/gemini-3.8-flash", 1_000_000, "level", LMH),
    ("google/gemini-3.5-flash-lite", 1_000_000, "level", MLMH),
    ("google/gemini-3-flash-preview", 1_000_000, "level", MLMH),
    ("google/gemini-3.1-pro-preview-customtools", 1_000_000, "level", LMH),
    ("google/gemini-3-pro-preview", 1_000_000, "level", ("low", "high")),
    ("google/gemini-flash-latest", 1_000_000, "level", LMH),
    ("google/models/gemini-2.5-pro", 1_000_000, "budget", MLMH),
    ("google/gemini-2.5-flash-preview-09-2025", 1_000_000, "budget", THINKING_LEVELS),
    ("google/gemini-2.0-flash-001", 1_000_000, "", OFF),
    ("openrouter/google/gemini-2.5-pro", 1_000_000, "effort", MLMH),
    # families that many serve
    ("openrouter/x-ai/grok-4-fast", 2_000_000, "effort", THINKING_LEVELS),
    ("xai/grok-4-0709", 256_000, "effort", THINKING_LEVELS),
    ("xai/grok-4.20", 1_000_000, "effort", THINKING_LEVELS),
    ("xai/grok-4.7", 500_000, "effort", THINKING_LEVELS),
    ("xai/grok-3-mini", 131_072, "effort", ("low", "high")),
    ("xai/grok-4-fast-non-reasoning", 2_000_000, "", OFF),
    ("deepseek/deepseek-chat", 64_000, "effort", THINKING_LEVELS),
    ("deepseek/deepseek-v4-pro", 1_000_000, "effort", THINKING_LEVELS),
    ("together/deepseek-ai/DeepSeek-V3", 163_840, "effort", THINKING_LEVELS),
    ("ollama/deepseek-r1:14b", 64_000, "effort", THINKING_LEVELS),
    ("groq/qwen/qwen3-32b", 131_072, "effort", THINKING_LEVELS),
    ("ollama/qwen3:8b", 131_072, "effort", THINKING_LEVELS),
    ("lmstudio/Qwen3-30B-A3B-GGUF:Q4_K_M", 131_072, "effort", THINKING_LEVELS),
    ("ollama/qwen2.5:1.5b", 32_768, "effort", THINKING_LEVELS),
    ("fireworks/accounts/fireworks/models/llama-v3p1-70b-instruct", 128_000, "", OFF),
    ("ollama/llama3.2:3b", 128_000, "", OFF),
    ("groq/llama3-70b-8192", 8_192, "", OFF),
    ("groq/openai/gpt-oss-120b", 131_072, "effort", LMH),
    ("ollama/gpt-oss:20b", 131_072, "effort", LMH),
    ("mistral/mistral-large-2411", 128_000, "", OFF),
    ("mistral/mistral-small-2603", 262_144, "effort", THINKING_LEVELS),
    ("moonshot/kimi-k2-0711-preview", 131_072, "effort", THINKING_LEVELS),
    ("ollama/smollm2:135m", 8_192, "", OFF),
    # nobody knows
    ("somebody/unheard-of", 128_000, "effort", THINKING_LEVELS),
    ("anthropic/unheard-of", 128_000, "adaptive", THINKING_LEVELS),
    ("google/unheard-of-3", 128_000, "level", THINKING_LEVELS),
    ("scripted/echo", 128_000, "effort", THINKING_LEVELS),
    ("", 128_000, "effort", THINKING_LEVELS),
]


@pytest.mark.parametrize(("model", "context", "thinking", "levels"), KNOWN)
def test_what_a_name_tells(model: str, context: int, thinking: str, levels: tuple[str, ...]):
    assert BY_NAME.limits(model).context == context
    assert 0 < BY_NAME.limits(model).max_output <= context // 4
    found = BY_NAME.traits(model)
    assert (found.thinking, found.levels) == (thinking, levels)
    assert found.levels == tuple(level for level in THINKING_LEVELS if level in found.levels), "from least to most"


@pytest.mark.parametrize(
    ("model", "asked", "most"),
    [
        ("anthropic/claude-sonnet-5-5", 32_768, 128_000),
        ("anthropic/claude-opus-4-1", 32_000, 32_000),
        ("anthropic/claude-3-5-sonnet-20241022", 8_192, 8_192),
        ("anthropic/claude-3-opus-20240229", 4_096, 4_096),
        ("openai/gpt-5", 32_768, 128_000),
        ("openai/gpt-4.1", 8_192, 32_768),
        ("openai/gpt-4", 2_048, 4_096),
        ("google/gemini-2.5-pro", 32_768, 65_536),
        ("google/gemini-2.0-flash", 8_192, 8_192),
        ("ollama/smollm2", 2_048, 2_048),
        ("somebody/unheard-of", 8_192, 0),
    ],
)
def test_how_long_replies_are(model: str, asked: int, most: int):
    assert (BY_NAME.limits(model).max_output, BY_NAME.traits(model).max_output) == (asked, most)


@pytest.mark.parametrize(
    ("model", "sees"),
    [
        ("anthropic/claude-sonnet-5-5", True),
        ("anthropic/claude-2.1", False),
        ("openai/gpt-4o", True),
        ("openai/gpt-3.5-turbo", False),
        ("openai/o3-mini", False),
        ("google/gemini-3.8-flash", True),
        ("groq/llama-3.3-70b-versatile", False),
        ("groq/meta-llama/llama-4-scout-17b-16e-instruct", True),
        ("ollama/llama3.2-vision:11b", True),
        ("ollama/qwen2.5-vl:7b", True),
        ("groq/openai/gpt-oss-20b", False),
        ("somebody/unheard-of", True),
        ("local/gemma-3-4b-it", False),
    ],
)
def test_who_sees(model: str, sees: bool):
    assert BY_NAME.traits(model).images is sees


def test_how_sonnet_is_told_not_to_think():
    assert BY_NAME.traits("anthropic/claude-sonnet-5-5").off == "between_tools"
    assert BY_NAME.traits("anthropic/claude-haiku-5-5").off == ""
    assert BY_NAME.traits("openrouter/anthropic/claude-sonnet-5.5").off == "", "is Anthropic's own way"


BY_DESIGN = {
    "gpt-4-32k": 32_000,
    "gpt-3.5-turbo": 16_385,
    "o3-mini": 200_000,
    "kimi-k2": 131_072,
}
"""Where what genai-prices says stands instead of the vectors: their table sends every name it does not know, and all of
gpt-4, to 128,000. A window that a model does not have fails every request that fills it; no test of theirs asserts one
of these. What of their assertions is among the vectors holds here, also where the window has grown since
(grok-code-fast-1: 256,000). Five others that they assert are larger than what is known here, so that no request here
can be too large: deepseek-v3.2 163,840 (here 128,000), deepseek-r1 128,000 (64,000), qwen2-72b 128,000 (32,768), and
two of llama-4 327,680 (131,072)."""


@pytest.mark.parametrize("case", cases("default_context_window", "peer_contexts.json"), ids=lambda case: case["id"])
def test_contexts_of_the_vectors(case):
    name = case["input"]["model"]
    assert BY_NAME.limits(f"somewhere/{name}").context == BY_DESIGN.get(name, case["expected"])
    if name in BY_DESIGN:
        assert case["basis"] != "asserted-by-test"
        assert case["expected"] != BY_DESIGN[name], "no longer a difference"


@pytest.mark.parametrize("case", cases("effective_max_input_tokens", "peer_contexts.json"), ids=lambda case: case["id"])
def test_configured_context_of_the_vectors(case):
    said = case["input"]
    assert configured(ListedModel("", said["max_input_tokens"] or 0)).limits(said["model"]).context == case["expected"]


LARGER = {
    "gemma-4-31b": "Cerebras serves half of its window",
    "llama3.1-8b": "Cerebras serves a quarter of its window",
    "qwen-3.8-27b": "Cerebras and Groq serve a part of its window",
    "qwen/qwen3.8-27b": "Cerebras and Groq serve a part of its window",
    "deepseek-v3.1-terminus": "the vectors' 163,840 holds for deepseek-chat-v3.1",
    "gpt-5.3": "stands for gpt-5.3-chat-latest there; nothing else is called that",
    "M2-her": "the vendor's other names begin with minimax",
    "gemini-pro": "a name of 2023; without a version it is the newest",
    "canopylabs/orpheus-arabic-saudi": "speaks, takes no conversation",
    "canopylabs/orpheus-v1-english": "speaks, takes no conversation",
}
"""Models of genai-prices with a smaller window than the registry says, and why that is left so."""

SILENT = ("embed", "tts", "live", "realtime", "transcribe", "voxtral", "ocr", "guard", "computer-use")


same_data = pytest.mark.skipif(
    f"genai-prices {version('genai-prices')}" != bundled_models.load().source,
    reason="genai-prices has moved on; python -m tests.providers.refresh_registry brings the registry up to it",
)


@same_data
def test_no_window_is_taken_for_larger_than_genai_prices_says():
    from genai_prices.data import providers

    sellers = {"anthropic", "openai", "google", "x-ai", "deepseek", "mistral", "moonshotai", "zai", "minimax", "meta"}
    checked, larger = 0, set()
    for provider in providers:
        if provider.id in sellers | {"groq", "cerebras"}:
            for model in provider.models:
                if model.context_window and not any(part in model.id for part in SILENT):
                    checked += 1
                    if BY_NAME.limits(f"{provider.id}/{model.id}").context > model.context_window:
                        larger.add(model.id)
    assert checked > 150
    assert larger == set(LARGER)


@same_data
def test_registry_is_what_genai_prices_says():
    text = bundled_models.REGISTRY_FILE.read_text("utf-8")
    assert refresh_registry.refreshed(text) == text, "run: python -m tests.providers.refresh_registry"


def test_every_family_is_found_by_some_name():
    """A family behind one that takes all of its names would be dead."""
    for family in bundled_models.load().families:
        name = "-".join([*family.words.split(), family.since]).rstrip("-")
        candidates = [name, f"{family.words.replace(' ', '-')}-2411", f"{family.words.replace(' ', '-')}-1"]
        assert family in [bundled_models.find(candidate) for candidate in candidates], name


def test_families_are_well_formed():
    for family in bundled_models.load().families:
        assert family.context > 0
        assert family.thinking in ("", "none", "adaptive", "budget", "effort", "level")
        assert not family.levels or family.thinking not in ("", "none")
        assert list(family.levels) == [level for level in THINKING_LEVELS if level in family.levels]
        assert family.output <= max(family.context, 272_000)


@same_data
def test_names_that_are_offered_are_sold():
    """Each has a price, or its vendor's SDK has it."""
    from genai_prices.data_snapshot import get_snapshot

    for provider, names in bundled_models.load().names.items():
        seller = next(one for one in get_snapshot().providers if one.id == provider)
        assert len(set(names)) == len(names)
        for name in names:
            assert seller.find_model(name) is not None, name
            assert BY_NAME.traits(f"{provider}/{name}").max_output, name


def test_local_model_is_small_whatever_its_name():
    assert BY_NAME.limits("local/llama-4") == ModelLimits(8_192, 2_048)


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (ListedModel("", 0, 0), ModelLimits(400_000, 32_768)),
        (ListedModel("", 1_000, 0), ModelLimits(1_000, 32_768)),
        (ListedModel("", 0, 100), ModelLimits(400_000, 100)),
        (ListedModel("", 1_000, 100), ModelLimits(1_000, 100)),
    ],
)
def test_what_is_configured_counts(said: ListedModel, expected: ModelLimits):
    assert configured(said).limits("openai/gpt-5") == expected


# ── levels ──


@pytest.mark.parametrize(
    ("model", "level", "said"),
    [
        (
            "google/gemini-2.5-pro",
            "off",
            "gemini-2.5-pro cannot think less than min; it has min, low, med, high.",
        ),
        ("anthropic/claude-opus-5-5", "off", "claude-opus-5-5 cannot think less than low; it has low, med, high."),
        (
            "anthropic/claude-sonnet-5-5",
            "min",
            "claude-sonnet-5-5 has no thinking level min; it has off, low, med, high.",
        ),
        ("openai/gpt-5.5-pro", "low", "gpt-5.5-pro cannot think less than med; it has med, high."),
        ("google/gemini-3-pro-preview", "med", "gemini-3-pro-preview has no thinking level med; it has low, high."),
        ("openai/o3-deep-research", "high", "o3-deep-research cannot think more than med; it has med."),
        ("openai/gpt-4o", "low", "gpt-4o does not think; its only level is off."),
        ("somebody/unheard-of", "huge", "unheard-of has no thinking level huge; it has off, min, low, med, high."),
    ],
)
def test_level_the_model_does_not_have_is_said(model: str, level: str, said: str):
    with pytest.raises(ConfigError) as raised:
        BY_NAME.check(model, level)
    assert raised.value.what == said
    assert raised.value.remedy


@pytest.mark.parametrize("model", [model for model, *_ in KNOWN])
def test_levels_that_pass(model: str):
    BY_NAME.check(model, "")
    for level in BY_NAME.levels(model):
        BY_NAME.check(model, level)
    for level in set(THINKING_LEVELS) - set(BY_NAME.levels(model)):
        with pytest.raises(ConfigError):
            BY_NAME.check(model, level)


# ── who goes before whom ──

NEW = ListedModel("claude-next", 3_000_000, 256_000, ("low", "high"), False, "adaptive")


def test_list_endpoint_goes_before_the_registry():
    known = ModelCatalog({"anthropic": [NEW, ListedModel("claude-opus-5-5", 500_000)]})
    assert known.limits("anthropic/claude-next") == ModelLimits(3_000_000, 32_768)
    assert known.traits("anthropic/claude-next") == ModelTraits("adaptive", ("low", "high"), False, 256_000)
    assert known.limits("anthropic/claude-opus-5-5").context == 500_000
    assert ModelCatalog({"x": [ListedModel("a", 4_000_000, thinking="effort")]}).limits("x/a") == ModelLimits(
        4_000_000, 32_768
    )
    assert ModelCatalog({"x": [ListedModel("a", 4_000_000, 600)]}).limits("x/a") == ModelLimits(4_000_000, 600)
    assert known.traits("anthropic/claude-opus-5-5") == BY_NAME.traits("anthropic/claude-opus-5-5"), (
        "what it leaves open"
    )
    assert known.limits("other/claude-opus-5-5").context == 1_000_000, "another provider has not listed it"


def test_configuration_goes_before_the_list_endpoint():
    said = ListedModel("", 10_000, 900, ("off", "high"), True)
    known = ModelCatalog({"anthropic": [NEW]}, lambda model: said if model == "anthropic/claude-next" else None)
    assert known.limits("anthropic/claude-next") == ModelLimits(10_000, 900)
    assert known.traits("anthropic/claude-next") == ModelTraits("adaptive", ("off", "high"), True, 900)
    known.check("anthropic/claude-next", "off")
    with pytest.raises(ConfigError, match="claude-next has no thinking level low; it has off, high"):
        known.check("anthropic/claude-next", "low")
    assert known.traits("anthropic/claude-opus-5-5") == BY_NAME.traits("anthropic/claude-opus-5-5")


@pytest.mark.parametrize("levels", [(), ("off",)])
def test_model_said_not_to_think(levels: tuple[str, ...]):
    found = configured(ListedModel("gpt-5", levels=levels)).traits("openai/gpt-5")
    assert (found.thinking, found.levels) == ("", ("off",))


def test_model_said_to_think_that_was_not_known_to():
    assert configured(ListedModel("gpt-4o", levels=("low", "high"))).traits("openai/gpt-4o").thinking == "effort"
    assert configured(ListedModel("", levels=("low", "high"))).traits("anthropic/claude-3-opus").thinking == "adaptive"


def test_limits_alone_say_nothing_of_thinking():
    known = configured(ListedModel("", 5_000, 400))
    assert known.traits("openai/gpt-5") == ModelTraits("effort", MLMH, True, 400)


def test_how_a_provider_speaks_says_how_its_models_are_told():
    apis = {"work": "anthropic", "proxy": "google", "anthropic": "chat"}
    known = ModelCatalog(api=lambda model: apis[model.partition("/")[0]])
    assert known.traits("work/claude-opus-4-1").thinking == "budget"
    assert known.traits("work/claude-sonnet-5-5").off == "between_tools"
    assert known.traits("work/gpt-oss-120b") == ModelTraits("adaptive", LMH, False)
    assert known.traits("proxy/gemini-2.5-pro").thinking == "budget"
    assert known.traits("proxy/claude-opus-5-5").thinking == "level"
    assert known.traits("anthropic/claude-sonnet-5-5") == ModelTraits("effort", OLMH, True, 128_000)


def test_names_to_complete():
    known = ModelCatalog(
        {
            "google": [ListedModel("models/gemini-4-argon"), ListedModel("models/gemini-9")],
            "ollama": [ListedModel("x:1b")],
        }
    )
    names = known.names("google")
    assert names[: len(bundled_models.load().names["google"])] == list(bundled_models.load().names["google"])
    assert names[-1] == "gemini-9"
    assert names.count("gemini-4-argon") == 1
    assert known.names("ollama") == ["x:1b"]
    assert known.names("nobody") == []
    known.learn("ollama", [ListedModel("y:2b", 4_000)])
    assert known.names("ollama") == ["y:2b"]
    assert known.limits("ollama/y:2b").context == 4_000


def test_google_name_is_the_same_with_and_without_models():
    known = ModelCatalog({"google": [ListedModel("models/gemini-9", 77_000)]})
    assert known.limits("google/gemini-9").context == known.limits("google/models/gemini-9").context == 77_000


# ── which to start with ──


@pytest.mark.parametrize(
    ("keys", "provider"),
    [(set(), None), ({"google"}, "google"), ({"google", "openai"}, "openai"), ({"openai", "anthropic"}, "anthropic")],
)
def test_model_to_start_with(keys: set[str], provider: str | None):
    assert default_model(keys) == (f"{provider}/{VENDORS[provider].default_model}" if provider else "")


# ── the cost at start ──

LOADED = """
import sys
import pathlib, msgspec, ikigai.core.commands.table, ikigai.core.request.model
before = set(sys.modules)
import ikigai.providers.models.models as models
assert not models.bundled_models.load.cache_info().currsize, "read before it is needed"
models.ModelCatalog().limits("openai/gpt-5")
print(*sorted(set(sys.modules) - before))
"""


def test_registry_needs_nothing_but_msgspec():
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    models = "ikigai.providers.models"
    assert done.stdout.split() == ["ikigai.providers", models, f"{models}.bundled_models", f"{models}.models"]
