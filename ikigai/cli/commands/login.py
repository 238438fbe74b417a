"""Carry out `ikigai login`: read a key, try it, and store it in a private file."""

from __future__ import annotations

import argparse
import re
import sys
import time
from typing import Any

from ikigai.app.run.factories import make_pool, model_list_file, platform_of
from ikigai.cli.ask import interruptible, read_answer, read_hidden
from ikigai.config import Config, login_keys
from ikigai.core.errors import ConfigError, IkigaiError, Rejected
from ikigai.core.request.reply import FailureKind
from ikigai.core.vendors import CLOUDS, PRESETS, VENDORS, ServerPreset, VendorInfo, sellers, unknown_provider
from ikigai.providers.http.failures import ProviderRequestFailed
from ikigai.providers.models import model_list_cache
from ikigai.providers.models.models import ListedModel, default_model
from ikigai.system import paths
from ikigai.system.output import format_table, print_lines
from ikigai.system.progress import show_waiting

LACKS_LISTING_RIGHT = re.compile(r"\(403\)|permission|scope", re.IGNORECASE)
"""Words by which a provider says that a key is good, but not for listing models."""
KEY_TIMEOUT = 15.0
"""Seconds that a provider may take to answer a request with the key."""


def add(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add this command to the subcommands; `common` holds the options that every command takes."""
    command = commands.add_parser(
        "login",
        parents=[common],
        help="store a key for a provider",
        description="Ask for a provider's API key without showing it, or read it from a pipe; try it; keep it in a "
        "private file. A key in the environment overrides it.",
    )
    named = f"{', '.join(sellers())}, or one from your configuration"
    command.add_argument("provider", nargs="?", default="", metavar="PROVIDER", help=named)
    what = command.add_mutually_exclusive_group()
    what.add_argument("--list", action="store_true", help="list the providers that have a key, and its source")
    what.add_argument("--remove", action="store_true", help="remove the stored key of the provider")
    command.set_defaults(act=run_login)


async def run_login(config: Config, arguments: argparse.Namespace) -> int:
    if arguments.list:
        print_lines(format_table(_list_keys(config)))
        return 0
    provider = _choose_provider(config, arguments.provider, asks=not arguments.remove and sys.stdin.isatty())
    file = paths.keys_file()
    if arguments.remove:
        removed = file.exists() and login_keys.remove(file, provider)
        print_lines(f"The key of {provider} was removed." if removed else f"No key of {provider} was stored.")
        return 0
    key = login_keys.check_key(_read_typed_key(provider) if sys.stdin.isatty() else _read_piped_key())
    async with show_waiting("Trying the key"):
        problem, listed = await _try_key(config, provider, key)
    try:
        paths.make_private(file.parent)
    except OSError as error:
        raise IkigaiError(f"{file.parent} cannot be created: {error.strerror}.", "Check that path.") from None
    login_keys.store(file, provider, key)
    print_lines(f"The key of {provider} {'could not be tried' if problem else 'works'}; it is stored in {file}.")
    if problem:
        print_lines(f"The error was: {problem}")
    if (place := config.keys.get(provider, "login")) != "login":
        print_lines(f"{place.partition(' ')[2]} is also set and overrides it.")
    if hint := _first_step(config, provider, _save_list(provider, listed)):
        print_lines(hint)
    return 0


def _list_keys(config: Config) -> list[tuple[str, str]]:
    """Return every provider that takes a key, and where its key comes from."""
    logins = login_keys.providers_with_key(paths.keys_file())

    def place(name: str) -> str:
        origin = config.keys.get(name, "no key")
        return f"{origin} (before login)" if origin not in ("login", "no key") and name in logins else origin

    return [(name, place(name)) for name in dict.fromkeys((*VENDORS, *config.keys, *config.providers))]


def _choose_provider(config: Config, provider: str, asks: bool) -> str:
    """Return the provider of the key; with `asks`, ask the user for a missing one. Raise ConfigError if it is
    unknown.
    """
    known = tuple(dict.fromkeys((*sellers(), *config.providers, *config.keys)))
    if not provider and asks:
        provider = read_answer(f"Provider ({', '.join(known)}): ")
    if not provider:
        raise ConfigError("Which provider is the key for?", f"Name a provider: {', '.join(known)}.")
    if provider == "local":
        raise Rejected("The local model needs no key.", "Start it with: ikigai -m local/smollm2-135m")
    cloud = CLOUDS.get(platform_of(config, provider))
    if cloud and not cloud.key_variables:
        raise Rejected(f"{cloud.title} is used with its own sign-in.", f"Run: {cloud.sign_in}")
    if provider not in known:
        raise unknown_provider(provider, known)
    return provider


def _read_typed_key(provider: str) -> str:
    """Return the key as typed or pasted at the terminal, which does not show it."""
    seller = sellers().get(provider)
    if isinstance(seller, ServerPreset) and not seller.key_variables:
        print_lines(f"{provider} needs no key, unless its server was started with one.")
    elif isinstance(seller, ServerPreset | VendorInfo):
        print_lines(f"Create a key at {seller.keys_page}")
    elif cloud := CLOUDS.get(provider):
        print_lines(f"Without a key, the credentials of its own sign-in are used: {cloud.sign_in}")
    with interruptible():
        try:
            key, has_more = read_hidden(f"Key for {provider} (hidden): ")
        except EOFError:
            print_lines()
            return ""
    if has_more:
        raise Rejected(
            "More than one line was pasted, and a key is one line.", "Nothing was stored. Copy the key alone."
        )
    return key


def _read_piped_key() -> str:
    """Return standard input, as one key. Longer input is not a key, and is refused rather than cut."""
    with interruptible():
        try:
            text = sys.stdin.buffer.read(2 * login_keys.MAX_KEY_CHARACTERS)
        except (OSError, ValueError):
            text = b""
    return text.decode(errors="replace")


async def _try_key(config: Config, provider: str, key: str) -> tuple[str, list[ListedModel]]:
    """Ask the provider for its models with this key. Return "" and its list if it answers, else why nothing is known.

    Raise Rejected if the provider refuses the key.
    """
    try:
        listed = await make_pool(config).listed(provider, key, KEY_TIMEOUT)
    except TimeoutError:
        return f"{provider} did not answer within {KEY_TIMEOUT:g} seconds.", []
    except ConfigError:
        raise
    except IkigaiError as error:
        is_refusal = isinstance(error, ProviderRequestFailed) and error.kind is FailureKind.AUTH
        if is_refusal and not LACKS_LISTING_RIGHT.search(error.what):
            raise Rejected(error.what, "Nothing was stored. Copy the key again, or make another one.") from None
        return str(error), []
    cloud = CLOUDS.get(platform_of(config, provider))
    is_listed = cloud is None or cloud.lists_models
    return "" if listed or not is_listed else f"{provider} answered, but listed no model.", listed


def _save_list(provider: str, listed: list[ListedModel]) -> bool:
    """Store the list of the provider for `/model` and `ikigai models`; return False if it has none to store.

    A server on this machine describes its models better when it is looked for.
    """
    preset = PRESETS.get(provider)
    if not listed or (preset and not preset.key_variables):
        return False
    return model_list_cache.save(model_list_file(), provider, listed, time.time())


def _first_step(config: Config, provider: str, has_list: bool) -> str:
    """Return how to talk to a model of this provider; "" if `ikigai` alone does."""
    default = default_model([provider])
    if (config.model or default_model([*config.keys, provider])).startswith(f"{provider}/"):
        return ""
    models = f"; ikigai models {provider} lists its models" if has_list else ""
    return f"To use it: ikigai -m {default or f'{provider}/MODEL'}{models}."
