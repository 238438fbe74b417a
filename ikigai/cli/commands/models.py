"""Carry out `ikigai models`: list the models available with your keys."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import time
from typing import Any

from ikigai.app.json_records.installation_records import ModelRecord
from ikigai.app.json_records.json_output import print_answer
from ikigai.app.models.model_list import list_models
from ikigai.app.run.factories import make_pool, model_list_file
from ikigai.config import Config
from ikigai.core.errors import ConfigError, IkigaiError, Rejected, Unavailable
from ikigai.core.text import tokens
from ikigai.core.text.sanitize import clean
from ikigai.core.vendors import PRESETS, VENDORS
from ikigai.providers.models import model_list_cache
from ikigai.providers.pool import ProviderPool
from ikigai.system.output import format_table, print_lines

MODEL_COLUMNS = ("model", "context", "output", "levels", "images", "$/M in", "$/M out")
LISTING_TIMEOUT = 60.0
"""Seconds that a provider may take to list its models."""


def add(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add this command to the subcommands; `common` holds the options that every command takes."""
    command = commands.add_parser(
        "models",
        parents=[common],
        help="the models available with your keys",
        description="Context, longest reply, thinking levels, images and prices of the models available with your "
        "keys: from ikigai's own list and the providers' latest lists.",
    )
    command.add_argument("provider", nargs="?", default="", metavar="PROVIDER", help="only models of this provider")
    command.add_argument("--refresh", action="store_true", help="ask the providers for their lists first")
    command.add_argument("--json", action="store_true", help="one object per model")
    command.set_defaults(act=run_models)


async def run_models(config: Config, arguments: argparse.Namespace) -> int:
    pool = make_pool(config)
    providers = _usable_providers(config, pool, arguments.provider)
    code = await _refresh(pool, [name for name in providers if name != "local"]) if arguments.refresh else 0
    rows = [row for name in providers for row in await asyncio.to_thread(list_models, config, pool, name)]
    if arguments.json:
        for row in rows:
            print_answer(row)
    elif rows:
        print_lines(format_table([MODEL_COLUMNS, *map(_format_row, rows)]))
    silent = {name for name in providers if not any(row.provider == name for row in rows)}
    if silent and not arguments.refresh:
        _print_note(f"No list yet from {', '.join(sorted(silent))}. To fetch it: ikigai models --refresh")
    return code


def _usable_providers(config: Config, pool: ProviderPool, only: str) -> list[str]:
    """Return the providers that can be asked, or `only` that one. Raise IkigaiError if the provider has no models, or
    not this one.
    """
    if only and only != "local":
        pool.require(only)
        return [only]
    local = ["local"] if pool.local_model() else []
    if only:
        if not local:
            raise Rejected("There is no local model.", "Fetch one with: ikigai setup")
        return local
    usable: list[str] = []
    servers = [name for name, preset in PRESETS.items() if not preset.key_variables and pool.known.names(name)]
    for name in dict.fromkeys((*VENDORS, *config.keys, *config.providers, *servers)):
        try:
            pool.require(name)
            usable.append(name)
        except ConfigError as error:  # an address or a key that cannot be one
            _print_note(str(error))
        except IkigaiError:  # no key
            continue
    if not usable and not local:
        raise Rejected("There is no key, and no local model.", "Run: ikigai login    or: ikigai setup")
    return [*usable, *local]


async def _refresh(pool: ProviderPool, providers: list[str]) -> int:
    """Ask all providers at once and store their lists; return exit code 0 if at least one of them answered."""
    answers = await asyncio.gather(*(_fetch_list(pool, name) for name in providers))
    failures = [error for error in answers if error is not None]
    for error in failures:
        _print_note(str(error))
    if not failures or len(failures) < len(providers):
        return 0
    return next((75 for error in failures if error.exit_code == 75), 1)


async def _fetch_list(pool: ProviderPool, provider: str) -> IkigaiError | None:
    try:
        async with asyncio.timeout(LISTING_TIMEOUT):
            models = await pool.listed(provider)
    except TimeoutError:
        return Unavailable(f"{provider} did not answer within {LISTING_TIMEOUT:g} seconds.", "Try again later.")
    except IkigaiError as error:
        return error
    pool.known.learn(provider, models)
    if not model_list_cache.save(model_list_file(), provider, models, time.time()):
        _print_note(f"The list of {provider} could not be stored in {model_list_file()}.")
    return None


def _format_row(row: ModelRecord) -> tuple[str, ...]:
    return (
        row.model,
        tokens.format_tokens(row.context),
        tokens.format_tokens(row.max_output) if row.max_output else "?",
        " ".join(row.levels),
        "yes" if row.images else "no",
        *("?" if price is None else f"{price:g}" for price in (row.input_price, row.output_price)),
    )


def _print_note(text: str) -> None:
    """Write a line to standard error, beside the list."""
    with contextlib.suppress(OSError):
        sys.stderr.write(f"ikigai: {clean(text)}\n")
