"""The command `ikigai login`: a key is asked for or piped in, tried, and kept in a private file."""

from __future__ import annotations

import argparse
import getpass
import re
import sys
from typing import Any

from ikigai.app.factories import make_pool
from ikigai.cli.ask import answer, interruptible
from ikigai.config import Config
from ikigai.config import api_keys as keys
from ikigai.config.key_table import VENDORS
from ikigai.core.errors import ConfigError, IkigaiError, Refused
from ikigai.core.request.reply import Failure
from ikigai.providers.failures import Untold
from ikigai.system import paths
from ikigai.system.output import say, table

PLACES = {
    "anthropic": "https://platform.claude.com/settings/keys",
    "openai": "https://platform.openai.com/api-keys",
    "google": "https://aistudio.google.com/apikey",
}
"""Where their users make keys."""
RIGHTS = re.compile(r"\(403\)|permission|scope", re.IGNORECASE)
"""How a provider says that a key is good, but not for listing models."""
TRIED_FOR = 15.0
"""Seconds that a provider may take to say what it thinks of a key."""


def add(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add this command to those of a parser; `common` holds the options that stand behind any of them."""
    command = commands.add_parser(
        "login",
        parents=[common],
        help="store a key for a provider",
        description="Ask for a provider's API key without showing it, or read it from a pipe; try it; keep it in a "
        "private file. A key in the environment goes before it.",
    )
    named = "anthropic, openai, google, or one you configured"
    command.add_argument("provider", nargs="?", default="", metavar="PROVIDER", help=named)
    what = command.add_mutually_exclusive_group()
    what.add_argument("--list", action="store_true", help="say which providers have a key, and from where")
    what.add_argument("--remove", action="store_true", help="forget the stored key of the provider")
    command.set_defaults(act=login)


async def login(config: Config, arguments: argparse.Namespace) -> int:
    if arguments.list:
        say(table(_known(config)))
        return 0
    provider = _checked(config, arguments.provider, asks=not arguments.remove and sys.stdin.isatty())
    file = keys.default_file()
    if arguments.remove:
        found = file.exists() and keys.remove(file, provider)
        say(f"The key of {provider} is forgotten." if found else f"No key of {provider} was stored.")
        return 0
    key = keys.checked(_typed(provider) if sys.stdin.isatty() else _piped())
    doubt = await _tried(config, provider, key)
    try:
        paths.private(file.parent)
    except OSError as error:
        raise IkigaiError(f"{file.parent} cannot be made: {error.strerror}.", "Check what stands there.") from None
    keys.store(file, provider, key)
    say(f"The key of {provider} {'could not be tried' if doubt else 'works'}; it is stored in {file}.")
    if doubt:
        say(f"What was wrong: {doubt}")
    if (place := config.keys.get(provider, "login")) != "login":
        say(f"{place.partition(' ')[2]} is set as well and goes before it.")
    return 0


def _known(config: Config) -> list[tuple[str, str]]:
    """Every provider that takes a key, and where its key comes from."""
    logins = keys.names(keys.default_file())

    def place(name: str) -> str:
        found = config.keys.get(name, "no key")
        return f"{found} (before login)" if found not in ("login", "no key") and name in logins else found

    return [(name, place(name)) for name in dict.fromkeys((*VENDORS, *config.keys, *config.providers))]


def _checked(config: Config, provider: str, asks: bool) -> str:
    """The provider that is meant; the user is asked for it if need be. Raises ConfigError where there is no such."""
    known = tuple(dict.fromkeys((*VENDORS, *config.providers, *config.keys)))
    if not provider and asks:
        provider = answer(f"Provider ({', '.join(known)}): ")
    if not provider:
        raise ConfigError("Whose key is it?", f"Name a provider: {', '.join(known)}.")
    if provider == "local":
        raise Refused("The local model needs no key.", "Start it with: ikigai -m local/smollm2-135m")
    if provider not in known:
        raise ConfigError(
            f"There is no provider {provider!r} (there are: {', '.join(known)}).",
            f"A server of your own is [providers.{provider}] with a base_url in the configuration.",
        )
    return provider


def _typed(provider: str) -> str:
    """The key as typed or pasted at the terminal, which does not show it."""
    if place := PLACES.get(provider):
        say(f"Keys are made at {place}")
    with interruptible():
        try:
            return getpass.getpass(f"Key for {provider} (it is not shown): ")
        except EOFError:
            say()
            return ""


def _piped() -> str:
    """The one line of standard input. More than that is no key, and is refused rather than cut."""
    with interruptible():
        try:
            text = sys.stdin.buffer.read(2 * keys.LONGEST)
        except (OSError, ValueError):
            text = b""
    return text.decode(errors="replace")


async def _tried(config: Config, provider: str, key: str) -> str:
    """Ask the provider for its models with this key: "" if it answers, else why nothing is known.

    Raises Refused when it does not take the key.
    """
    try:
        found = await make_pool(config).listed(provider, key, TRIED_FOR)
    except TimeoutError:
        return f"{provider} did not answer within {TRIED_FOR:g} seconds."
    except ConfigError:
        raise
    except IkigaiError as error:
        if isinstance(error, Untold) and error.kind is Failure.AUTH and not RIGHTS.search(error.what):
            raise Refused(error.what, "Nothing was stored. Copy the key again, or make another one.") from None
        return str(error)
    return "" if found else f"{provider} answered, but named no model."
