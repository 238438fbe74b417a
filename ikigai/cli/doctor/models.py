"""Check the models: keys, answers of their providers, the local model, and the default model."""

from __future__ import annotations

import asyncio
import importlib.util

from ikigai.app.run.factories import make_pool, platform_of
from ikigai.cli.doctor.check import BAD, OK, WARN, Finding
from ikigai.config import Config, api_key_sources
from ikigai.core.commands.arguments import parse_model
from ikigai.core.errors import ConfigError, IkigaiError
from ikigai.core.vendors import CLOUDS
from ikigai.providers.pool import ProviderPool
from ikigai.system.install_command import extra_command

PROVIDER_TIMEOUT = 15.0
"""Seconds that a provider may take to answer."""


async def check_models(config: Config, online: bool) -> list[Finding]:
    pool = make_pool(config)
    try:
        names = dict.fromkeys((*config.keys, *config.providers))
        findings = await asyncio.gather(*(_provider(config, pool, name, online) for name in names if name != "local"))
        local = await asyncio.to_thread(_local, pool)
        return [*findings, local, await asyncio.to_thread(_answering, config, pool)]
    finally:
        await pool.close()


async def _provider(config: Config, pool: ProviderPool, name: str, online: bool) -> Finding:
    about = f"provider {name}"
    source = config.keys.get(name, "")
    variable = api_key_sources.variable_of(source)
    cloud = CLOUDS.get(platform_of(config, name))
    keyless = f"with the credentials of {cloud.title}" if cloud else "without a key"
    key = f"key in {variable}" if variable else "key stored by ikigai login" if source else keyless
    try:
        await asyncio.to_thread(pool.require, name)
        if not online:
            return Finding(about, OK, f"{key}; not tried (--online does)")
        async with asyncio.timeout(PROVIDER_TIMEOUT):
            listed = await pool.listed(name)
    except TimeoutError:
        return Finding(about, BAD, f"{key}; no answer within {PROVIDER_TIMEOUT:g} seconds", "Try again later.")
    except IkigaiError as error:
        return Finding(about, BAD, f"{key}; {error.what}", error.remedy)
    if not listed and cloud and not cloud.lists_models:
        return Finding(about, OK, f"{key}; it answers, and lists no deployments")
    if not listed:
        return Finding(about, WARN, f"{key}; it answers, but lists no model", "Check the provider's settings.")
    return Finding(about, OK, f"{key}; it answers and has {len(listed):,} models")


def _local(pool: ProviderPool) -> Finding:
    try:
        model = pool.local_model()
    except ConfigError as error:
        return Finding("local model", BAD, error.what, error.remedy)
    if model:
        return Finding("local model", OK, f"{model} is installed")
    if importlib.util.find_spec("xllamacpp") is None:
        return Finding("local model", OK, f"not installed ({extra_command('local')})")
    return Finding("local model", OK, "its weights are not installed (ikigai setup fetches them)")


def _answering(config: Config, pool: ProviderPool) -> Finding:
    """Return the finding about the model that a new agent would ask."""
    try:
        model = config.model or pool.default_model(config.keys)
        if not model:
            if provider := next(iter(config.keys), ""):
                return Finding("model", BAD, "none chosen", f"Choose one: ikigai config set model {provider}/NAME")
            return Finding("model", BAD, "none available", "Run: ikigai login    or: ikigai setup")
        chosen = parse_model(model)
        pool.check(str(chosen["model"]), str(chosen.get("level") or ""))
    except IkigaiError as error:
        return Finding("model", BAD, error.what, error.remedy)
    return Finding("model", OK, f"{model} answers")
