"""What completes what."""

import pytest

from ikigai.core.commands import COMMANDS
from ikigai.terminal.completion import candidates

SOURCES = {"marks": lambda: ["one", "two"], "models": lambda: ["openai/gpt-5", "openai/gpt-5-mini"]}


@pytest.mark.parametrize(
    ("before", "texts"),
    [
        ("", []),
        ("hello", []),
        ("/cl", ["/clear"]),
        ("/m", ["/mark", "/model"]),
        ("/quit", ["/exit"]),
        ("/rewind ", ["one", "two"]),
        ("/rewind t", ["two"]),
        ("/rewind two", []),
        ("/model gpt", ["openai/gpt-5", "openai/gpt-5-mini"]),
        ("/model openai/gpt-5", ["openai/gpt-5-mini"]),
        ("/switch ", []),
        ("/help cle", ["clear"]),
        ("/help clear x", []),
        ("/nosuch ", []),
        ("/usr/bin", []),
        ("/clear\nmore", []),
    ],
)
def test_candidates(before: str, texts: list[str]):
    found = candidates(before, SOURCES)
    assert [each.text for each in found] == texts
    assert all(len(before) >= each.replaces for each in found)


def test_a_slash_offers_everything_with_its_help():
    found = candidates("/", SOURCES)
    assert [each.text for each in found] == ["/" + command.name for command in COMMANDS]
    assert all(each.about for each in found)
