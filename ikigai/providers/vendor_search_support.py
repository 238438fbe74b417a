"""Decide if the vendor of a model can search the web for it, and if not, why."""

from ikigai.core.vendors import CLOUDS, vendor_of_model


def search_problem(
    model: str, api: str, platform: str, has_address: bool, thinking: str, configured: bool | None
) -> str:
    """Return why ikigai cannot use a web search of the vendor of "provider/name"; "" if it can.

    `api` and `platform` come from its `pool.Endpoint`, `has_address` says that it names an address, `thinking` comes
    from the model's `ModelTraits`. `configured` is what the configuration says of the search, None for nothing.
    """
    provider, _, name = model.partition("/")
    if configured is False:
        return f'vendor_search is "no" under [models."{model}"]'
    if platform == "bedrock":
        return f"{CLOUDS[platform].title} runs none"
    vendor, problem = vendor_of_model(platform or api or provider, name), ""
    if vendor == "google":
        if thinking != "level":
            return "before Gemini 3 it cannot be combined with other tools"
        if platform:
            problem = f"{CLOUDS[platform].title} does not document it beside other tools"
    elif vendor == "anthropic":
        problem = "" if platform or provider == vendor else UNKNOWN_SERVER
    elif api == "responses":
        problem = "" if platform or provider == "openai" else UNKNOWN_SERVER
    elif api or platform or has_address or provider != "openai":
        return f'it needs api = "responses" under [providers.{provider}]' if platform else "Chat Completions have none"
    if not problem or configured:
        return ""
    return f'{problem}; to try it, set vendor_search = "yes" under [models."{model}"]'


UNKNOWN_SERVER = "its server may not pass it on"
