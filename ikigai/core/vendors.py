"""Vendors, servers and clouds whose providers need no table in the configuration."""

from collections.abc import Collection
from typing import Literal, TypeAlias

from ikigai.core.errors import ConfigError
from ikigai.core.events.record import Record


class VendorInfo(Record, frozen=True):
    """The traits of one vendor: of the models it sells, and of its interface.

    `key_variables` are the usual ones for its key, the first that is set counts. `apis` are the interfaces at its own
    address (`config.records.ProviderSettings.api`). `default_model` is its general model, neither the largest nor the
    smallest. `model_prefixes` are the beginnings of its models' names. `thinking` is the form in which its interface
    takes a level (`providers.models.models.ModelTraits`). `own_models` is the beginning of the words of its own models'
    names (`providers.models.bundled_models.ModelFamily`): "" where other models behind that interface also take the
    level in that form.
    """

    title: str
    key_variables: tuple[str, ...]
    address_variable: str
    keys_page: str
    apis: tuple[str, ...]
    default_model: str
    model_prefixes: tuple[str, ...]
    thinking: str = "effort"
    own_models: str = ""


VENDORS: dict[str, VendorInfo] = {
    "anthropic": VendorInfo(
        title="Anthropic",
        key_variables=("ANTHROPIC_API_KEY",),
        address_variable="ANTHROPIC_BASE_URL",
        keys_page="https://platform.claude.com/settings/keys",
        apis=("anthropic",),
        default_model="claude-sonnet-5-5",
        model_prefixes=("claude-",),
        thinking="adaptive",
        own_models="claude",
    ),
    "openai": VendorInfo(
        title="OpenAI",
        key_variables=("OPENAI_API_KEY",),
        address_variable="OPENAI_BASE_URL",
        keys_page="https://platform.openai.com/api-keys",
        apis=("chat", "responses"),
        default_model="gpt-6.1-sol",
        model_prefixes=("gpt-", "o1", "o3", "o4"),
    ),
    "google": VendorInfo(
        title="Google",
        key_variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        address_variable="GOOGLE_GEMINI_BASE_URL",
        keys_page="https://aistudio.google.com/apikey",
        apis=("google",),
        default_model="gemini-3.8-flash",
        model_prefixes=("gemini-",),
        thinking="level",
        own_models="gemini",
    ),
}
"""By the name of the provider, in the order in which they are tried when no model is chosen."""


ChatDemand: TypeAlias = Literal["short_ids", "reply_after_results", "alternating_roles", "max_completion_tokens"]
"""A form that some servers with Chat Completions insist on: ids of calls of nine letters and digits, a reply of the
model between the results of tools and a message of the user, also one between two such messages, the newer name of the
output limit.
"""

CostField: TypeAlias = Literal["", "cost", "cost_in_usd_ticks"]
"""A cost in dollars, or in ten-billionths of a dollar."""


class ServerPreset(Record, frozen=True):
    """A server with OpenAI's Chat Completions. It is a provider once it has a key, or is named with a model."""

    base_url: str
    key_variables: tuple[str, ...]
    """Variables with its key; without any it runs on this machine and needs no key."""
    source: str
    """The page of its documentation that the row was made from."""
    keeps_thinking: bool = False
    """True if it refuses a call that comes back without its thinking. Its replies show what else it wants back."""
    effort: str = "effort"
    """The form in which it takes a level: "effort" (reasoning_effort), "reasoning" (an object with the effort),
    "switch" (reasoning_effort, but thinking disabled at off), "extremes" (reasoning_effort, none or high).
    """
    cost_field: CostField = ""
    """The field of its usage that names the cost."""
    demands: tuple[ChatDemand, ...] = ()
    """The forms that it insists on."""
    key_path: str = ""
    """Path behind the address that answers good keys alone, where the list of models is public."""
    models_path: str = ""
    """Path of the list of models behind the host, where it is not /models behind the address."""
    keys_page: str = ""
    """The page where its users create keys."""
    prices: str = ""
    """Name of the server in genai-prices, where its address does not say it."""


PRESETS: dict[str, ServerPreset] = {
    "deepseek": ServerPreset(
        "https://api.deepseek.com",
        ("DEEPSEEK_API_KEY",),
        "https://api-docs.deepseek.com/guides/thinking_mode",
        keys_page="https://platform.deepseek.com/api_keys",
        keeps_thinking=True,
        effort="switch",
    ),
    "mistral": ServerPreset(
        "https://api.mistral.ai/v1",
        ("MISTRAL_API_KEY",),
        "https://docs.mistral.ai/capabilities/reasoning/",
        keys_page="https://console.mistral.ai/api-keys",
        effort="extremes",
        demands=("short_ids", "reply_after_results"),  # mistralai.github.io/mistral-common/usage/tools
    ),
    "xai": ServerPreset(
        "https://api.x.ai/v1",
        ("XAI_API_KEY",),
        "https://docs.x.ai/llms.txt",
        cost_field="cost_in_usd_ticks",  # docs.x.ai/developers/cost-tracking
        keys_page="https://console.x.ai",
    ),
    "groq": ServerPreset(
        "https://api.groq.com/openai/v1",
        ("GROQ_API_KEY",),
        "https://console.groq.com/docs/api-reference",
        keys_page="https://console.groq.com/keys",
    ),
    "openrouter": ServerPreset(
        "https://openrouter.ai/api/v1",
        ("OPENROUTER_API_KEY",),
        "https://openrouter.ai/docs/use-cases/reasoning-tokens",
        keys_page="https://openrouter.ai/settings/keys",
        effort="reasoning",
        cost_field="cost",
        key_path="/key",  # docs/api/api-reference/api-keys/get-current-key
    ),
    "moonshot": ServerPreset(
        "https://api.moonshot.ai/v1",
        ("MOONSHOT_API_KEY",),
        "https://platform.moonshot.ai/docs/guide/use-kimi-k2-thinking-model",
        keys_page="https://platform.moonshot.ai/console/api-keys",
        keeps_thinking=True,
        effort="switch",
    ),
    "cerebras": ServerPreset(
        "https://api.cerebras.ai/v1",
        ("CEREBRAS_API_KEY",),
        "https://inference-docs.cerebras.ai/resources/openai",
        keys_page="https://cloud.cerebras.ai",
    ),
    "together": ServerPreset(
        "https://api.together.ai/v1",
        ("TOGETHER_API_KEY",),
        "https://docs.together.ai/docs/inference/openai-compatibility",
        keys_page="https://api.together.ai/settings/api-keys",
        prices="together",
    ),
    "fireworks": ServerPreset(
        "https://api.fireworks.ai/inference/v1",
        ("FIREWORKS_API_KEY",),
        "https://docs.fireworks.ai/tools-sdks/openai-compatibility",
        keys_page="https://app.fireworks.ai/settings/users/api-keys",
    ),
    "github": ServerPreset(
        "https://models.github.ai/inference",
        ("GITHUB_TOKEN",),
        "https://docs.github.com/en/rest/models/inference",
        keys_page="https://github.com/settings/personal-access-tokens",
        models_path="/catalog/models",  # docs.github.com/en/rest/models/catalog
    ),
    "ollama": ServerPreset("http://localhost:11434/v1", (), "https://docs.ollama.com/api/openai-compatibility"),
    "lmstudio": ServerPreset("http://localhost:1234/v1", (), "https://lmstudio.ai/docs/api/openai-api"),
    "vllm": ServerPreset(
        "http://localhost:8000/v1", (), "https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html"
    ),
    "llamacpp": ServerPreset(
        "http://localhost:8080/v1", (), "https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md"
    ),
}
"""By the name of the provider."""


class CloudInfo(Record, frozen=True):
    """A cloud that serves vendors' models to its own customers, by its key or by the credentials of its sign-in.

    `sign_in` is the command that makes those credentials. `extra` is the extra of ikigai with the package `package`,
    which finds them. `needs_package` says that requests need that package even with a key. `prices` is the name of the
    cloud in genai-prices. `lists_models` is False where the cloud lists no model that a user can name.
    """

    title: str
    key_variables: tuple[str, ...]
    sign_in: str
    extra: str
    package: str
    prices: str
    source: str
    needs_package: bool = False
    lists_models: bool = True


CLOUDS: dict[str, CloudInfo] = {
    "azure": CloudInfo(
        "Azure OpenAI",
        ("AZURE_OPENAI_API_KEY",),
        "az login",
        "azure",
        "azure.identity",
        "azure",
        "https://learn.microsoft.com/en-us/azure/ai-foundry/openai/api-version-lifecycle",
        lists_models=False,
    ),
    "bedrock": CloudInfo(
        "Amazon Bedrock",
        ("AWS_BEARER_TOKEN_BEDROCK",),
        "aws configure, or: aws sso login",
        "bedrock",
        "boto3",
        "aws",
        "https://platform.claude.com/docs/en/build-with-claude/claude-on-amazon-bedrock",
        needs_package=True,
    ),
    "vertex": CloudInfo(
        "Google Vertex AI",
        (),
        "gcloud auth application-default login",
        "vertex",
        "google.auth",
        "google",
        "https://platform.claude.com/docs/en/build-with-claude/claude-on-vertex-ai",
    ),
}
"""By the name of the provider, which is also its `api` (`config.records.ProviderSettings.api`)."""


def vendor_of_model(platform: str, model: str) -> str:
    """Return the vendor whose API a platform (an `api`, or the name of a provider) speaks for this model.

    A cloud speaks several: Claude's to Claude, and its own choice to all others.
    """
    if platform not in CLOUDS:
        return platform
    is_claude = platform != "azure" and "claude" in model.lower()
    return "anthropic" if is_claude else "google" if platform == "vertex" else "openai"


def sellers() -> "dict[str, VendorInfo | ServerPreset | CloudInfo]":
    """Return the data of every provider that needs no table in the configuration, by its name."""
    return {**VENDORS, **PRESETS, **CLOUDS}


def unknown_provider(name: str, known: Collection[str]) -> ConfigError:
    """Return the error about a provider that is not among the known ones; the way out is first, the long list last."""
    from difflib import get_close_matches  # for a mistake alone

    near = get_close_matches(name, known, 1)
    meant = f"Did you mean {near[0]}? " if near else ""
    return ConfigError(
        f"There is no provider {name!r}.",
        f"{meant}Add a server of your own as [providers.{name}] with a base_url, or use one of: {', '.join(known)}.",
    )
