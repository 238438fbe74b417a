"""Tests of /login, /theme and /init as far as they need no terminal."""

import argparse
from typing import Any, cast

import pytest

from ikigai.config import Config
from ikigai.core.errors import NotReady, Rejected, WrongArgument
from ikigai.core.state.memory import replace
from ikigai.repl import setup_commands
from ikigai.repl.session import Session
from tests.core.agent import Agent

ARGUMENTS = argparse.Namespace(config="my.toml", db=None)


class NoTerminal:
    """A session whose screen runs nothing and takes every theme."""

    def __init__(self, color: bool = True) -> None:
        self.config, self.services, self.memory, self.screen = Config(), None, None, self
        self.ran: list[Any] = []
        self.color = color
        self.code = 1

    async def run_program(self, program: list[str], hides_typing: bool) -> int:
        assert hides_typing
        self.ran.append(program)
        return self.code

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
