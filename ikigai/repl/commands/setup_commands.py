"""Carry out /login, /doctor, /theme and /init, which set up ikigai and a folder from inside.

/login and /doctor run the program's own subcommands on the terminal, which gets it as an editor does. So a key is asked
for, tried and stored at one place, and never passes through the input, the history or the log.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from ikigai.app.run.factories import model_list_file
from ikigai.config.api_key_sources import LOGIN, variable_of
from ikigai.config.records import THEME_NAMES
from ikigai.core.commands.arguments import quoted
from ikigai.core.errors import NotReady, Rejected, WrongArgument
from ikigai.core.tools.tool_selection import ToolSelection
from ikigai.core.vendors import ServerPreset, sellers
from ikigai.providers.models import model_list_cache
from ikigai.providers.models.models import default_model
from ikigai.terminal.browser.picker_source import PickerRow

if TYPE_CHECKING:
    from ikigai.config import Config
    from ikigai.core.state.memory import Memory
    from ikigai.repl.session import Session

INIT_PROMPT = """\
Write AGENTS.md for this folder: instructions for a coding agent that works here for the first time. Look before you
write: list the files, read the README, the build files and a few central sources. Say in at most 60 lines what the
project is, how it is built, tested and checked, where things are, and which conventions the code keeps to. State only
what you have seen here. If there is an AGENTS.md, keep what is right in it and improve the rest. Then show what you
wrote in a few lines."""
"""The message of /init."""
FILE_TOOLS = "files"
"""The set of tools that /init needs."""


def known_providers(config: Config) -> list[str]:
    """Return the providers that can have a key."""
    return list(dict.fromkeys((*sellers(), *config.providers, *config.keys)))


def own_program(arguments: argparse.Namespace, *words: str) -> list[str]:
    """Return the command line of a subcommand of this program, with the configuration and database of this run.

    Nothing is imported from the working directory (-P).
    """
    options = [("--config", arguments.config), ("--db", arguments.db), ("--schema", arguments.schema)]
    given = [part for name, value in options if value for part in (name, value)]
    return [sys.executable, "-P", "-m", "ikigai", *given, *words]


async def run_login(session: Session, arguments: argparse.Namespace, provider: str) -> str:
    """Let the user store a key; return what to do with it. Without a provider they pick one. Raise WrongArgument for
    an unknown provider.
    """
    known = known_providers(session.config)
    if not provider and not session.view.bare:
        session.screen.drop_keys(False)  # they are for the list
        provider = await session.screen.programs.pick(ProviderSource(session.config, known), drops_keys=True) or ""
        if not provider:
            return ""
        session.screen.drop_keys(True)
    if provider not in known:  # it may be a key: it is neither shown nor passed on
        what = "There is no such provider. Type its name alone; the key is asked for after that."
        raise WrongArgument(what if provider else "Which provider is the key for?", f"Providers: {', '.join(known)}.")
    code = await session.screen.programs.run(own_program(arguments, "login", provider), hides_typing=True)
    if code is None:
        return ""
    return "No key was stored." if code else _take_key(session, provider)


def _take_key(session: Session, provider: str) -> str:
    """Use the new key of a provider from now on; return a sentence about that."""
    keys = session.config.keys
    session.config = msgspec.structs.replace(session.config, keys={**keys, provider: keys.get(provider, "login")})
    if services := session.services:
        services.config = msgspec.structs.replace(services.config, keys=session.config.keys)
        services.pool.renew(provider)
    if variable := variable_of(session.config.keys[provider]):
        return f"The key in {variable} is used as before. To use the stored one, unset it and start ikigai again."
    now = session.memory.model if session.memory else ""
    if now.startswith(f"{provider}/"):
        return "The key is used from the next message on."
    if services and (listing := model_list_cache.load(model_list_file()).get(provider)):
        services.pool.known.learn(provider, listing.models)  # it came when the key was tried
    return f"To use it: /model {default_model([provider]) or f'{provider}/NAME'}"


async def run_doctor(session: Session, arguments: argparse.Namespace, argument: str) -> None:
    """Run the checks of `ikigai doctor` on the terminal. Raise WrongArgument for other arguments than --online."""
    if argument not in ("", "--online"):
        raise WrongArgument(f"/doctor does not take {quoted(argument)}.")
    await session.screen.programs.run(own_program(arguments, "doctor", *argument.split()))


def run_theme(session: Session, name: str) -> str:
    """Set the theme for this run, or list the themes; return the text to show. Raise WrongArgument for an unknown
    one.
    """
    names = (*THEME_NAMES, *session.config.themes)
    configured = session.config.terminal.theme
    if not name:
        rows = [f"{each}  (configured)" if each == configured else each for each in names]
        return "\n".join([*rows, "/theme NAME sets one for this run, /config terminal.theme NAME for later ones."])
    if name not in names:
        raise WrongArgument(f"There is no theme {quoted(name)}.", f"Themes: {', '.join(names)}.")
    if not session.screen.apply_theme(name, session.config.themes):
        return "Colors are off in this terminal, so a theme changes nothing here."
    return f"Theme for this run: {name}. /config terminal.theme {name} keeps it for later ones."


def init_prompt(memory: Memory | None) -> str:
    """Return the message of /init. Raise Rejected where the model cannot read or write files."""
    if memory is None:
        raise NotReady()
    sets = {tool.set for tool in memory.run.tools}
    if not memory.limits.tools or FILE_TOOLS not in sets or ToolSelection.of(memory.settings).is_off(FILE_TOOLS):
        what = f"{memory.model or 'The model'} has no tools for files here, and /init needs them."
        raise Rejected(what, "/tools shows them, /model chooses another model.")
    return INIT_PROMPT


def complete_themes(config: Config) -> Sequence[str]:
    return (*THEME_NAMES, *config.themes)


class ProviderSource:
    """The providers `names`, for the picker of /login, with the source of the key that each has under `config`."""

    title, verb, more_key = "Providers: which one is the key for?", "asks for the key", ""

    def __init__(self, config: Config, names: Sequence[str]) -> None:
        self._rows = [_provider_row(config, name) for name in names]

    async def page(self, typed: str, everything: bool, shown: Sequence[PickerRow]) -> tuple[Sequence[PickerRow], bool]:
        """Return the providers that have the typed text in their names."""
        return [row for row in self._rows if typed.strip().lower() in row.name.lower()], True

    def typed_value(self, typed: str) -> str:
        """Refuse a text that is in no name: it may be a key, so it is not repeated."""
        raise Rejected("No provider has this name.", "Ctrl+U clears the filter.")


def _provider_row(config: Config, name: str) -> PickerRow:
    seller, source = sellers().get(name), config.keys.get(name, "")
    has = "has a stored key" if source == LOGIN else f"key in {source.partition(' ')[2]}" if source else ""
    needs_none = ""
    if seller and not seller.key_variables:
        needs_none = "on this machine, needs no key" if isinstance(seller, ServerPreset) else "has a sign-in of its own"
    return PickerRow(name, name, tuple(filter(None, (has, needs_none))))
