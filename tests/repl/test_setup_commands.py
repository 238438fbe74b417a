"""Tests of /login, /theme and /init as far as they need no terminal."""

import argparse
from typing import Any, cast

import pytest

from ikigai.config import Config
from ikigai.core.errors import NotReady, Rejected, WrongArgument
from ikigai.core.state.memory import replace
from ikigai.repl.commands import setup_commands
from ikigai.repl.commands.setup_commands import ProviderSource
from ikigai.repl.session import Session
from tests.core.agent import Agent

ARGUMENTS = argparse.Namespace(config="my.toml", db=None, schema=None)


class NoTerminal:
    """A session whose screen runs nothing and takes every theme."""

    def __init__(self, color: bool = True) -> None:
        self.config, self.services, self.memory, self.screen, self.view = Config(), None, None, self, self
        self.programs = self
        self.bare, self.picks, self.dropped = False, "groq", list[bool]()
        self.ran: list[Any] = []
        self.color = color
        self.code = 1

    async def run(self, program: list[str], hides_typing: bool) -> int:
        assert hides_typing
        self.ran.append(program)
        return self.code

    async def pick(self, source: ProviderSource, drops_keys: bool) -> str | None:
        assert drops_keys and self.dropped[-1:] != [True], "the list takes keys"
        (row,) = (await source.page(self.picks, False, ()))[0] or (None,)
        return row.value if row else None

    def drop_keys(self, drops: bool) -> None:
        self.dropped.append(drops)

    def apply_theme(self, name: str, own: object) -> bool:
        self.ran.append(name)
        return self.color


def session(color: bool = True) -> tuple[Session, list[Any]]:
    made = NoTerminal(color)
    return cast(Session, made), made.ran


async def test_login_neither_shows_nor_passes_on_what_may_be_a_key():
    made, ran = session()
    with pytest.raises(WrongArgument) as refused:
        await setup_commands.run_login(made, ARGUMENTS, "sk-canary-123456")
    assert "canary" not in str(refused.value) and "anthropic" in refused.value.remedy and not ran


@pytest.mark.parametrize("picks", ["groq", "no such name"])
async def test_login_alone_lets_the_user_pick_the_provider(picks: str):
    made, ran = session()
    cast(Any, made).picks = picks
    told = await setup_commands.run_login(made, ARGUMENTS, "")
    assert [program[-2:] for program in ran] == ([["login", "groq"]] if picks == "groq" else [])
    assert (told, cast(Any, made).dropped) == (("No key was stored.", [False, True]) if ran else ("", [False]))


async def test_login_alone_names_the_providers_where_no_list_can_be_shown():
    made, ran = session()
    cast(Any, made).bare = True
    with pytest.raises(WrongArgument, match="Which provider is the key for") as refused:
        await setup_commands.run_login(made, ARGUMENTS, "")
    assert "Providers: anthropic, openai" in refused.value.remedy and not ran


async def test_list_of_providers_says_where_a_key_is():
    source = ProviderSource(
        Config(keys={"openai": "login", "groq": "environment GROQ_API_KEY"}),
        ("openai", "groq", "xai", "ollama", "vertex"),
    )
    rows, complete = await source.page("", False, ())
    assert complete and [(row.name, row.facts) for row in rows] == [
        ("openai", ("has a stored key",)),
        ("groq", ("key in GROQ_API_KEY",)),
        ("xai", ()),
        ("ollama", ("on this machine, needs no key",)),
        ("vertex", ("has a sign-in of its own",)),
    ]
    with pytest.raises(Rejected) as refused:
        source.typed_value("sk-canary-123456")
    assert "canary" not in str(refused.value)


async def test_login_runs_the_subcommand_with_this_configuration():
    made, ran = session()
    assert await setup_commands.run_login(made, ARGUMENTS, "anthropic") == "No key was stored."
    assert ran[0][1:] == ["-P", "-m", "ikigai", "--config", "my.toml", "login", "anthropic"]


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({}, "To use it: /model groq/NAME"),
        ({"groq": "environment GROQ_API_KEY"}, "The key in GROQ_API_KEY is used as before."),
    ],
)
async def test_login_says_which_key_is_used_from_now_on(keys: dict[str, str], told: str):
    made, _ = session()
    made.config = Config(keys=keys)
    cast(Any, made).code = 0
    assert (await setup_commands.run_login(made, ARGUMENTS, "groq")).startswith(told)
    assert made.config.keys == {"groq": "login", **keys}


def test_theme_lists_sets_and_refuses():
    made, ran = session()
    listed = setup_commands.run_theme(made, "")
    assert "auto  (configured)\nlight\n" in listed and "/config terminal.theme" in listed and not ran
    assert "terminal.theme light" in setup_commands.run_theme(made, "light") and ran == ["light"]
    with pytest.raises(WrongArgument, match="There is no theme 'pink'"):
        setup_commands.run_theme(made, "pink")
    assert "Colors are off" in setup_commands.run_theme(session(color=False)[0], "light")


def test_init_needs_tools_for_files():
    with pytest.raises(NotReady):
        setup_commands.init_prompt(None)
    with pytest.raises(Rejected, match="has no tools for files here"):
        setup_commands.init_prompt(replace(Agent().memory))
