"""The command `ikigai models`: what the keys at hand can use, as it is known or as the providers list it now."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
import time
from typing import Any

from ikigai.app.factories import listing_file, make_pool, make_price
from ikigai.config import Config
from ikigai.config.key_table import VENDORS
from ikigai.core import tokens
from ikigai.core.commands.arguments import model_choice
from ikigai.core.errors import ConfigError, IkigaiError, Refused, Unavailable
from ikigai.core.messages import Usage
from ikigai.core.sanitize import clean
from ikigai.providers import model_list_cache as listing
from ikigai.providers.pool import Pool
from ikigai.system.output import say, table

HEAD = ("model", "context", "output", "levels", "images", "$/M in", "$/M out")
SAMPLE = 1_000
"""Tokens to ask a price for; a million would be a long request, which costs more with some."""
WITHIN = 60.0
"""Seconds that a provider may take to list its models."""


def add(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add this command to those of a parser; `common` holds the options that stand behind any of them."""
    command = commands.add_parser(
        "models",
        parents=[common],
        help="the models that the keys at hand can use",
        description="Context, longest reply, thinking levels, images and prices of the models that the keys at hand "
        "can use: from what ikigai knows and what the providers listed last.",
    )
    command.add_argument("provider", nargs="?", default="", metavar="PROVIDER", help="those of this provider alone")
    command.add_argument("--refresh", action="store_true", help="ask the providers for their lists first")
    command.add_argument("--json", action="store_true", help="one object per model")
    command.set_defaults(act=models)


async def models(config: Config, arguments: argparse.Namespace) -> int:
    pool = make_pool(config)
    providers = _at_hand(config, pool, arguments.provider)
    code = await _refresh(pool, [name for name in providers if name != "local"]) if arguments.refresh else 0
    rows = [row for name in providers for row in await asyncio.to_thread(_rows, config, pool, name)]
    if arguments.json:
        for row in rows:
            say(json.dumps(row, ensure_ascii=False))
    elif rows:
        say(table([HEAD, *map(_shown, rows)]))
    silent = {name for name in providers if not any(row["provider"] == name for row in rows)}
    if silent and not arguments.refresh:
        _note(f"Nothing is known yet of {', '.join(sorted(silent))}: ikigai models --refresh asks.")
    return code


def _at_hand(config: Config, pool: Pool, wanted: str) -> list[str]:
    """The providers that can be asked, or the one `wanted`. Raises IkigaiError when there is none, or not that one."""
    if wanted and wanted != "local":
        pool.require(wanted)
        return [wanted]
    local = ["local"] if pool.local_model() else []
    if wanted:
        if not local:
            raise Refused("There is no local model.", "Fetch one with: ikigai setup")
        return local
    found: list[str] = []
    for name in dict.fromkeys((*VENDORS, *config.providers)):
        try:
            pool.require(name)
            found.append(name)
        except ConfigError as error:  # an address or a key that cannot be one
            _note(str(error))
        except IkigaiError:  # no key
            continue
    if not found and not local:
        raise Refused("There is no key, and no local model.", "Run: ikigai login    or: ikigai setup")
    return [*found, *local]


async def _refresh(pool: Pool, providers: list[str]) -> int:
    """Ask them all at once and keep what they say; the exit code: 0 as soon as one of them answered."""
    answers = await asyncio.gather(*(_listed(pool, name) for name in providers))
    failures = [error for error in answers if error is not None]
    for error in failures:
        _note(str(error))
    if not failures or len(failures) < len(providers):
        return 0
    return next((75 for error in failures if error.exit_code == 75), 1)


async def _listed(pool: Pool, provider: str) -> IkigaiError | None:
    try:
        async with asyncio.timeout(WITHIN):
            found = await pool.listed(provider)
    except TimeoutError:
        return Unavailable(f"{provider} did not answer within {WITHIN:g} seconds.", "Try again later.")
    except IkigaiError as error:
        return error
    pool.known.learn(provider, found)
    if not listing.save(listing_file(), provider, found, time.time()):
        _note(f"What {provider} listed could not be kept in {listing_file()}.")
    return None


def _rows(config: Config, pool: Pool, provider: str) -> list[dict[str, Any]]:
    """What is known of each model of a provider; prices are in dollars for a million tokens, None if nobody knows."""
    configured = [model for model in config.models if model.startswith(f"{provider}/")]
    chosen = str(model_choice(config.model)["model"]) if config.model else ""
    own = [pool.local_model()] if provider == "local" else [f"{provider}/{name}" for name in pool.known.names(provider)]
    own += [chosen] if chosen.startswith(f"{provider}/") else []
    price = make_price(config)

    def dollars(model: str, usage: Usage) -> float | None:
        cost, _ = price(model, usage, time.time())
        return None if cost is None else round(cost / SAMPLE * 1_000_000, 6)

    rows: list[dict[str, Any]] = []
    for model in dict.fromkeys((*own, *configured)):
        traits = pool.known.traits(model)
        rows.append(
            {
                "model": model,
                "provider": provider,
                "context": pool.known.limits(model).context,
                "max_output": traits.max_output or None,
                "levels": list(traits.levels),
                "images": traits.images,
                "input_price": dollars(model, Usage(input=SAMPLE)),
                "output_price": dollars(model, Usage(output=SAMPLE)),
            }
        )
    return rows


def _shown(row: dict[str, Any]) -> tuple[str, ...]:
    return (
        row["model"],
        tokens.short(row["context"]),
        tokens.short(row["max_output"]) if row["max_output"] else "?",
        " ".join(row["levels"]),
        "yes" if row["images"] else "no",
        *("?" if row[key] is None else f"{row[key]:g}" for key in ("input_price", "output_price")),
    )


def _note(text: str) -> None:
    """A line beside the list, for people."""
    with contextlib.suppress(OSError):
        sys.stderr.write(f"ikigai: {clean(text)}\n")
