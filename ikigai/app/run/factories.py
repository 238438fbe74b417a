"""Build from the configuration: the models and their prices, the project, the tools, and the RunConfig of a run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ikigai.app.project.trusted_project import Project
from ikigai.app.run.run_profiles import make_fallback, make_profiles, make_rules
from ikigai.config import Config
from ikigai.config.api_key_sources import read_key, variable_of
from ikigai.config.layers import are_tools_enabled, split_layers
from ikigai.config.project import project_settings
from ikigai.config.records import ContextSettings, LimitSettings, ModelSettings, ProviderSettings
from ikigai.config.seal_key import seal
from ikigai.core.context.condense_threshold import CondenseOptions
from ikigai.core.errors import ConfigError
from ikigai.core.events.events import Choices
from ikigai.core.events.messages import ToolSpec, Usage
from ikigai.core.request.system_prompt import INSTRUCTIONS_KEY, INSTRUCTIONS_ORIGIN, with_instructions
from ikigai.core.state.effective_settings import RunConfig
from ikigai.core.state.project_limits import ProjectLimits
from ikigai.core.tools.tool_selection import NO_TOOLS
from ikigai.core.vendors import CLOUDS, PRESETS, VENDORS, sellers, vendor_of_model
from ikigai.system import paths
from ikigai.system.paths import current_directory

if TYPE_CHECKING:
    from ikigai.agent.request.usage_meter import PriceOf
    from ikigai.app.tools.tool_runtime import ToolRuntime
    from ikigai.core.request.spending import Caps
    from ikigai.providers.models.models import ModelCatalog
    from ikigai.providers.pool import ProviderPool


def make_pool(config: Config) -> ProviderPool:
    """Return the pool of the configured providers; a key is read when a request is sent."""
    from ikigai.providers.http.network import is_local_address
    from ikigai.providers.local.provider import LocalModel  # as in `make_models`: a project and its limits need none
    from ikigai.providers.pool import Endpoint, ProviderPool
    from ikigai.providers.vendor import FIRST_PIECE_TIMEOUT, LOCAL_FIRST_PIECE_TIMEOUT, PIECE_TIMEOUT

    def endpoint(name: str) -> Endpoint:
        server, preset = config.providers.get(name, ProviderSettings()), PRESETS.get(name)
        address = server_address(config, name)
        return Endpoint(
            address,
            lambda: read_key(config.keys.get(name, ""), name, os.environ),
            server.api,
            LOCAL_FIRST_PIECE_TIMEOUT if address and is_local_address(address) else FIRST_PIECE_TIMEOUT,
            PIECE_TIMEOUT,
            preset,
            needs_key=bool(preset and preset.key_variables and not server.base_url),
            headers=lambda: _headers(name, server),
            body=lambda model: _body(config.models.get(f"{name}/{model}", ModelSettings())),
            platform=platform_of(config, name),
            region=server.region,
            project=server.project,
            key_variable=variable_of(config.keys.get(name, "")),
        )

    endpoints = {name: endpoint(name) for name in (*sellers(), *config.providers)}
    local = LocalModel(config.local.model_file, config.local.context, paths.data_dir())
    return ProviderPool(endpoints, local, make_models(config))


def _headers(provider: str, server: ProviderSettings) -> Mapping[str, str]:
    if not server.headers:
        return {}
    from ikigai.config import extra_fields

    return extra_fields.resolve_headers(provider, server.headers, os.environ)


def _body(settings: ModelSettings) -> Mapping[str, Any]:
    if not settings.body:
        return {}
    from ikigai.config import extra_fields

    return extra_fields.resolve_body(settings.body, os.environ)


def server_address(config: Config, provider: str) -> str:
    """Return the address of a provider; "" is its vendor's."""
    preset = PRESETS.get(provider)
    return config.providers.get(provider, ProviderSettings()).base_url or (preset.base_url if preset else "")


def platform_of(config: Config, provider: str) -> str:
    """Return the cloud that serves a provider, a name of CLOUDS; "" for none."""
    api = config.providers.get(provider, ProviderSettings()).api
    return next((name for name in (api, provider) if name in CLOUDS), "")


def make_models(config: Config) -> ModelCatalog:
    """Return the catalog of models; the configuration takes precedence."""
    from ikigai.providers.models import model_list_cache
    from ikigai.providers.models.models import ListedModel, ModelCatalog

    def known(model: str) -> ListedModel:
        provider = model.partition("/")[0]
        settings, server = config.models.get(model, ModelSettings()), config.providers.get(provider, ProviderSettings())
        least = config.local.context if provider == "local" else 0
        return ListedModel(
            model,
            settings.context or server.context or least,
            settings.max_output,
            settings.levels or None,
            _SWITCHES.get(settings.images),
            tools=_SWITCHES.get(settings.tools),
            vendor_search=_SWITCHES.get(settings.vendor_search),
        )

    def api(model: str) -> str:
        provider, _, name = model.partition("/")
        server = config.providers.get(provider, ProviderSettings())
        return vendor_of_model(platform_of(config, provider) or server.api or provider, name)

    listed = {provider: found.models for provider, found in model_list_cache.load(model_list_file()).items()}
    return ModelCatalog(listed, known, api)


_SWITCHES = {"yes": True, "no": False}
"""Values of settings that can be left open, by "auto"."""


def model_list_file() -> Path:
    """Return the path of the model lists that `ikigai models --refresh` wrote last."""
    return paths.state_dir() / "models.json"


def make_price(config: Config) -> PriceOf:
    """Return the price function; configured prices take precedence. Call it in a thread, because it imports."""

    def price(model: str, usage: Usage, at: float) -> tuple[float | None, str]:
        from ikigai.providers.models import prices

        settings = config.models.get(model, ModelSettings())
        server = config.providers.get(model.partition("/")[0], ProviderSettings())
        per_million = (settings.input_price, settings.output_price, settings.cached_price, settings.written_price)
        known = prices.ModelPrices(*(None if dollars < 0 else dollars for dollars in per_million))
        address = server_address(config, model.partition("/")[0])
        if server.api in VENDORS and not address:  # a vendor under another name
            model = f"{server.api}/{model.partition('/')[2]}"
        book = _price_book(config, model.partition("/")[0], address)
        priced = prices.price_request(model, usage, at, known, address, book)
        return priced.cost, priced.priced_by

    return price


def _price_book(config: Config, provider: str, address: str) -> str:
    """Return the name in genai-prices of the cloud or server behind a provider; "" where the address says it."""
    if platform := platform_of(config, provider):
        return CLOUDS[platform].prices
    preset = PRESETS.get(provider)
    return preset.prices if preset and address == preset.base_url else ""


def make_caps(limits: LimitSettings) -> Caps | None:
    """Return the spending caps, or None."""
    if limits == LimitSettings():
        return None
    from ikigai.core.request.spending import CAP_SCOPES, Cap, Caps

    def cap(scope: str) -> Cap:
        return Cap(Decimal(repr(float(getattr(limits, f"{scope}_usd")))), getattr(limits, f"{scope}_tokens"))

    return Caps(**{scope: cap(scope) for scope in CAP_SCOPES})


def make_tool_runtime(config: Config) -> ToolRuntime:
    """Return the tool runtime of the working directory."""
    from ikigai.app.tools.tool_runtime import ToolRuntime

    return ToolRuntime(config, Path(current_directory() or "/"))


def tighten(config: Config, project: Project) -> tuple[Config, ProjectLimits]:
    """Return the configuration tightened by the project if it is trusted, and its limits. Raise ConfigError."""
    try:
        return project_settings.tighten_with(config, project.config, project.settings())
    except ConfigError as error:  # no command can be typed at the start
        elsewhere = f"Or start ikigai in another folder and type: /trust no {project.folder}"
        raise ConfigError(error.what, f"{error.remedy} {elsewhere}") from None


def make_run(
    config: Config, pool: ProviderPool, tool_runtime: ToolRuntime, project: Project | None = None
) -> RunConfig:
    """Return the RunConfig of this run; without a configured model, it has the first available one.

    Raise ConfigError if a flag or a variable sets a thinking level that the model does not have. Such a level of the
    file is left out (`missing_level_message` reports it).
    """
    layered = split_layers(config)
    below, above = layered.below, layered.above
    pool.known.check(*model_and_level(above))
    if not below.get("model"):
        below = {**below, "model": pool.default_model(config.keys)}
    if missing_level_message(pool, below):
        below = {**below, "level": ""}
    if not config.tools.enabled and are_tools_enabled(config):  # by a profile
        below = {**below, "tools_off": NO_TOOLS.text}
    return RunConfig(
        with_instructions(below, project.instructions() if project else ""),
        pool.limits,
        pool.encoder,
        above,
        {**layered.origins, INSTRUCTIONS_KEY: INSTRUCTIONS_ORIGIN},
        tool_runtime.specs,
        planning_tools,
        config.context.token_counter,
        make_rules(config.context),
        make_profiles(config, below, lambda settings: missing_level_message(pool, settings)),
        fallback=make_fallback(config.fallback),
        seal=seal,
    )


def planning_tools() -> tuple[ToolSpec, ...]:
    """Return the tools of a turn that plans a filter."""
    from ikigai.core.context import forget_matching

    return (forget_matching.FILTER_CONTEXT_SPEC,)


def make_options(context: ContextSettings) -> CondenseOptions:
    """Return the options for condensing the oldest turns."""
    return CondenseOptions(
        context.condense,
        context.condense_at_percent,
        context.condense_to_percent,
        context.condense_model,
        context.condense_prompt_file,
        context.summarise_on_clear,
    )


def missing_level_message(pool: ProviderPool, settings: Choices) -> str:
    """Return the message about a thinking level that the model of these settings lacks; "" if it has the level."""
    try:
        pool.known.check(*model_and_level(settings))
    except ConfigError as error:
        return error.what
    return ""


def model_and_level(settings: Choices) -> tuple[str, str]:
    """Return the model and the thinking level in these settings, each "" if missing."""
    return str(settings.get("model") or ""), str(settings.get("level") or "")
