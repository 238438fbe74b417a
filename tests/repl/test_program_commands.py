"""Tests that every command of the table has its handler, at the prompt and in print mode, and is documented."""

import re

import pytest

from ikigai.app.commands.info_commands import COMMANDS_WITHOUT_AGENT, HERE, print_command
from ikigai.cli import help_pages
from ikigai.core.commands.spec import CommandSpec, CommandTiming, PrintMode
from ikigai.core.commands.table import COMMANDS
from ikigai.core.errors import Rejected
from ikigai.headless.tree_commands import TREE_HANDLERS
from ikigai.repl.commands.agent_commands import AGENT_HANDLERS
from ikigai.repl.commands.program_commands import HANDLERS
from ikigai.repl.commands.switching import DESTINATIONS

SHOWN_DIFFERENTLY = {"limit", "model", "status", "skills"}
"""Commands whose handler at the prompt does more than show the answer."""


def names(*wanted: CommandTiming | PrintMode) -> set[str]:
    def fits(command: CommandSpec) -> bool:
        return command.timing in wanted or command.print_mode in wanted

    return {command.name for command in COMMANDS if fits(command)}


def test_every_command_of_the_program_has_one_handler() -> None:
    answered = {*COMMANDS_WITHOUT_AGENT, *HERE}
    commands = {command.name for command in COMMANDS} - names(CommandTiming.AGENT)
    assert {*HANDLERS, *AGENT_HANDLERS, *answered} == commands
    assert not {*AGENT_HANDLERS} & {*HANDLERS, *answered}
    assert {*HANDLERS} & answered == SHOWN_DIFFERENTLY and not {*COMMANDS_WITHOUT_AGENT} & {*HERE}
    assert {*DESTINATIONS, "takeover"} == names(CommandTiming.SWITCHING)


def test_print_mode_has_a_handler_for_what_it_takes() -> None:
    assert {*TREE_HANDLERS} == names(PrintMode.TREE)
    assert names(PrintMode.SHOW) <= {*COMMANDS_WITHOUT_AGENT, *HERE}
    assert not names(PrintMode.CHANGE) & {*HANDLERS, *AGENT_HANDLERS}


@pytest.mark.parametrize(
    "line", ["/help", "/model", "/cost", "/system", "/budget", "/budget 5k", "/think", "/think low", "/clear", "/fork"]
)
def test_print_mode_takes_a_command(line: str) -> None:
    assert print_command(line) is not None


@pytest.mark.parametrize("line", ["/edit", "/quote 1", "/quit", "/config", "/switch x", "/pin"])
def test_print_mode_refuses_a_command_and_names_those_it_has(line: str) -> None:
    with pytest.raises(Rejected, match=f"^{line.split()[0]} is not available in print mode") as refused:
        print_command(line)
    assert {*re.findall(r"/([a-z]+)", refused.value.remedy)} == names(*{*PrintMode} - {PrintMode.NO})


def test_print_mode_help_names_the_commands_it_runs() -> None:
    shown = re.search(r"  (/context.*?) are answered without a model", help_pages.main_text(), re.DOTALL)
    assert shown and {*re.findall(r"/([a-z]+)", shown[1])} == names(PrintMode.SHOW)
