"""This module lists the vendors whose providers need no table in the configuration."""

from ikigai.core.record import Record


class VendorInfo(Record, frozen=True):
    """The traits of one vendor: of the models it sells, and of its interface.

    `key_variables` are the usual ones for its key, the first that is set counts. `apis` are the interfaces at its own
    address (`config.records.ProviderSettings.api`). `default_model` is its general model, neither the largest nor the
    smallest. `model_prefixes` are the beginnings of its models' names. `thinking` is the form in which its interface
    takes a level (`providers.models.ModelTraits`). `own_models` is the beginning of the words of its own models' names
    (`providers.bundled_models.ModelFamily`): "" where other models behind that interface take the level in that form,
    too.
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
