"""What a configuration makes: models and their prices, the project, the tools, and what a run brings to memory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ikigai.agent.usage_meter import Price
from ikigai.app.profiles import make_profiles, make_rules
from ikigai.app.project import Project
from ikigai.config import Config, layers, tools_enabled
from ikigai.config import api_keys as keys
from ikigai.config import project as project_settings
from ikigai.config import trusted_folders as trust
from ikigai.config.key_table import VENDORS
from ikigai.config.records import Context, Model, Server
from ikigai.core.condense.threshold import Options
from ikigai.core.errors import ConfigError
from ikigai.core.events import Choices
from ikigai.core.messages import ToolSpec, Usage
from ikigai.core.request.system_prompt import KEY, ORIGIN, instructed
from ikigai.core.state.project_limits import ALL, Bounds
from ikigai.core.state.run_config import Run
from ikigai.providers import model_list_cache as listing
from ikigai.providers.local.provider import LocalModel
from ikigai.providers.models import Listed, Models
from ikigai.providers.pool import Endpoint, Pool
from ikigai.providers.vendor import FIRST, IDLE
from ikigai.system import paths
from ikigai.system.paths import directory

if TYPE_CHECKING:
    from ikigai.app.tool_runtime import Workshop


def make_pool(config: Config) -> Pool:
    """The models this configuration reaches; a key is read when a request is to be sent."""

    def key(name: str) -> str:
        kind, _, variable = config.keys.get(name, "").partition(" ")
        return os.environ.get(variable, "").strip() if kind == "environment" else keys.find(keys.default_file(), name)

    def endpoint(name: str) -> Endpoint:
        server = config.providers.get(name, Server())
        first, idle = float(server.first_seconds or FIRST), float(server.idle_seconds or IDLE)
        return Endpoint(server.base_url, lambda: key(name), server.api, first, idle)

    endpoints = {name: endpoint(name) for name in (*VENDORS, *config.providers)}
    local = LocalModel(config.local.model_file, config.local.context, paths.data_dir())
    return Pool(endpoints, local, make_models(config))


def make_models(config: Config) -> Models:
    """What is known of models, with what this configuration says of them before all."""

    def known(model: str) -> Listed:
        provider = model.partition("/")[0]
        said, server = config.models.get(model, Model()), config.providers.get(provider, Server())
        least = config.local.context if provider == "local" else 0
        return Listed(
            model,
            said.context or server.context or least,
            said.max_output or server.max_output,
            said.levels or None,
            {"yes": True, "no": False}.get(said.images),
        )

    def api(provider: str) -> str:
        server = config.providers.get(provider, Server())
        return server.api or provider

    listed = {provider: found.models for provider, found in listing.load(listing_file()).items()}
    return Models(listed, known, api)


def listing_file() -> Path:
    """What the providers listed when `ikigai models --refresh` asked them last."""
    return paths.state_dir() / "models.json"


def make_price(config: Config) -> Price:
    """What requests cost, the configuration's prices before all others; it imports, so it belongs in a thread."""

    def price(model: str, usage: Usage, at: float) -> tuple[float | None, str]:
        from ikigai.providers import prices

        said = config.models.get(model, Model())
        server = config.providers.get(model.partition("/")[0], Server())
        per_million = (said.input_price, said.output_price, said.cached_price, said.written_price)
        known = prices.Prices(*(None if dollars < 0 else dollars for dollars in per_million))
        if server.api in VENDORS and not server.base_url:  # a vendor under another name
            model = f"{server.api}/{model.partition('/')[2]}"
        priced = prices.price(model, usage, at, known, server.base_url)
        return priced.cost, priced.priced_by

    return price


def make_workshop(config: Config) -> Workshop:
    """What models may do here."""
    from ikigai.app.tool_runtime import Workshop

    return Workshop(config, Path(directory() or "/"))


def make_project() -> Project:
    """The working directory, which nobody has looked at yet."""
    return Project(Path(directory() or "/"), paths.data_dir() / trust.FILE)


def tightened(config: Config, project: Project) -> tuple[Config, Bounds]:
    """The configuration with what the project tightens, where that is trusted. Raises ConfigError."""
    try:
        return project_settings.tightened(config, project.config, project.settings())
    except ConfigError as error:  # nothing can be typed here
        elsewhere = f"Or start ikigai in another folder and type: /trust no {project.folder}"
        raise ConfigError(error.what, f"{error.remedy} {elsewhere}") from None


def make_run(config: Config, pool: Pool, workshop: Workshop, project: Project | None = None) -> Run:
    """What this run brings to memory; without a configured model, the one that is at hand.

    Raises ConfigError when a flag or a variable asks for a thinking level that the model does not have; such a level
    of the file is left out (`lacking` says it).
    """
    layered = layers(config)
    below, above = layered.below, layered.above
    pool.known.check(*chosen(above))
    if not below.get("model"):
        below = {**below, "model": pool.default_model(config.keys)}
    if lacking(pool, below):
        below = {**below, "level": ""}
    if not config.tools.enabled and tools_enabled(config):  # by a profile
        below = {**below, "tools_off": ALL}
    return Run(
        instructed(below, project.instructions() if project else ""),
        pool.limits,
        pool.encoder,
        above,
        {**layered.origins, KEY: ORIGIN},
        workshop.specs,
        planning_tools,
        config.context.token_counter,
        make_rules(config.context),
        make_profiles(config, below, lambda settings: lacking(pool, settings)),
    )


def planning_tools() -> tuple[ToolSpec, ...]:
    """What a model has in a talk that plans a filter."""
    from ikigai.core.forget import matching

    return (matching.SPEC,)


def make_options(context: Context) -> Options:
    """When and how the oldest turns are condensed."""
    return Options(
        context.condense,
        context.condense_at_percent,
        context.condense_to_percent,
        context.condense_model,
        context.condense_prompt_file,
        context.summarise_on_clear,
    )


def lacking(pool: Pool, settings: Choices) -> str:
    """The sentence about a thinking level that the model of these settings does not have; "" when all is well."""
    try:
        pool.known.check(*chosen(settings))
    except ConfigError as error:
        return error.what
    return ""


def chosen(settings: Choices) -> tuple[str, str]:
    """The model and the thinking level in these settings; "" where there is none."""
    return str(settings.get("model") or ""), str(settings.get("level") or "")
