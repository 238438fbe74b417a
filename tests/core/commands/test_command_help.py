"""Tests of the help of commands: its groups, examples and layout."""

import re
from itertools import groupby
from operator import attrgetter
from typing import get_args

import pytest

from ikigai.core.commands import command_help
from ikigai.core.commands.key_actions import KEY_ACTIONS, key_label
from ikigai.core.commands.spec import CommandGroup, CommandSpec
from ikigai.core.commands.table import BY_NAME, COMMANDS, parse
from ikigai.core.errors import Rejected


def test_commands_of_a_group_stand_together_in_the_order_of_the_headings():
    assert [group for group, _ in groupby(COMMANDS, attrgetter("group"))] == [*get_args(CommandGroup)]


@pytest.mark.parametrize("command", COMMANDS, ids=attrgetter("name"))
def test_example_is_accepted_and_related_commands_exist(command: CommandSpec):
    assert command.example.split()[0] == f"/{command.name}"
    parse(command.example)
    assert command.related
    assert {*command.related.split()} <= {each.name for each in COMMANDS} - {command.name}


def test_help_of_a_command_has_usage_example_aliases_and_related_commands():
    assert command_help.format_command(BY_NAME["quit"]).split("\n") == [
        "/exit: leave; the conversation stays",
        "Usage: /exit",
        "Example: /exit",
        "Also typed: /quit",
        "Related: /switch",
    ]
    told = command_help.format_command(command_help.find_command("/send"))
    assert 'Usage: /send NAME "text"\nExample: /send tests "Look' in told
    assert "Also typed: /resume, /sessions" in command_help.format_command(BY_NAME["switch"])


@pytest.mark.parametrize("columns", [16, 38, 78, 118])
def test_overview_and_list_name_all_commands_and_keep_to_the_columns(columns: int):
    for text in (command_help.format_overview(columns), command_help.format_all(columns)):
        named = {word[1:] for word in text.split() if word.startswith("/")}
        assert named >= {command.name for command in COMMANDS}
        longest = max(len(word) for word in text.split())
        assert max(map(len, text.split("\n"))) <= max(columns, 10 + longest)
        assert not any(row != row.rstrip() for row in text.split("\n"))
    assert all(command.help.split()[0] in command_help.format_all(columns) for command in COMMANDS)


def test_overview_fits_a_usual_screen():
    assert command_help.format_overview(78).count("\n") <= 20


@pytest.mark.parametrize(
    ("name", "hint"),
    [("nosuch", "/help lists them."), ("claer", "Did you mean /help clear"), ("x" * 10_000, "/help lists them.")],
)
def test_help_of_an_unknown_command_names_the_nearest(name: str, hint: str):
    with pytest.raises(Rejected) as refused:
        command_help.find_command(name)
    assert hint in refused.value.remedy and len(str(refused.value)) < 150


def test_help_names_the_keys_of_a_command_as_they_are_bound():
    history = command_help.find_command("history")
    assert "\nCtrl+T: browse the whole history" in command_help.format_command(history)
    assert "\nF3: browse the whole history" in command_help.format_command(history, {"history": ("f3",)})
    assert "Ctrl+T" not in command_help.format_command(history, {"history": ()})


def test_texts_of_commands_name_no_key_that_can_be_changed():
    labels = {key_label(key) for action in KEY_ACTIONS for key in action.keys} - {"Enter", "Tab"}
    texts = [command_help.INTRODUCTION, command_help.FURTHER, *(f"{each.help} {each.more}" for each in COMMANDS)]
    assert not [(label, text) for text in texts for label in labels if re.search(rf"\b{re.escape(label)}\b", text)]
