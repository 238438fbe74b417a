"""These tests cover the completions of commands, arguments and mentions."""

import os
from collections.abc import Iterable

import pytest
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document

from ikigai.core.commands.table import COMMANDS
from ikigai.terminal.input.completion import Candidate, Menu, find_candidates
from ikigai.terminal.input.input_line import InputLine
from ikigai.terminal.output.dialog import Dialogs
from ikigai.terminal.render.theme import Theme
from ikigai.terminal.tty import Tty
from tests.support.silent_handler import SilentHandler

SOURCES = {
    "marks": lambda typed: ["one", "two", "three and a half"],
    "models": lambda typed: ["openai/gpt-5", "openai/gpt-5-mini"],
    "acts": lambda typed: {"45": "filter", "42": "rewind"},
    "profiles": lambda typed: ["fast", "deep"],
    "files": lambda typed: [f"{typed.rpartition('/')[0]}/a b.md"] if "/" in typed else ["sub/"],
    "pins": lambda typed: {"a b.md": "1.2k tokens", "c.md": "5 tokens"},
    "sets": lambda typed: {"off files": "read_file", "on shell": "shell"},
    "turns": lambda typed: {"at 12": "what is it?", "at 8": "hello"},
    "all": lambda typed: {"--all": "the dead, too"},
    "own commands": lambda typed: {"review FILE": "Review a file"},
    "modes": lambda typed: {"auto": "edits run", "revoke ": "ask again"},
    "mentions": lambda typed: (
        [f"@{name}" for name in ("src/main.py", "a.png") if typed in name] + ['@"why\'s"'] * (typed == "y's")
    ),
}


class Handler(SilentHandler):
    def complete(self, kind: str, typed: str) -> Iterable[str]:
        return SOURCES.get(kind, lambda typed: ())(typed)


def offered(before: str) -> list[Candidate]:
    return find_candidates(before, Handler().complete)


@pytest.mark.parametrize(
    ("before", "texts"),
    [
        ("", []),
        ("hello", []),
        ("/cl", ["/clear"]),
        ("/m", ["/model", "/mark", "/mcp"]),
        ("/quit", ["/exit"]),
        ("/rewind ", ["one", "two", "three and a half"]),
        ("/rewind t", ["two", "three and a half"]),
        ("/rewind three a", ["three and a half"]),
        ("/undo ", ["45", "42"]),
        ("/undo 42", []),
        ("/rewind two", []),
        ("/model gpt", ["openai/gpt-5", "openai/gpt-5-mini"]),
        ("/model openai/gpt-5", ["openai/gpt-5-mini"]),
        ("/switch ", []),
        ("/profile f", ["fast"]),
        ("/pin ", ["sub/"]),
        ("/pin sub/", ["sub/a b.md"]),
        ("/pin sub/a ", ["sub/a b.md"]),
        ("/unpin a b", ["a b.md"]),
        ("/help cle", ["clear"]),
        ("/help cnd", ["condense", "commands"]),
        ("/rev", ["/revive", "/review"]),
        ("/rvw", ["/review"]),
        ("/cnds", ["/condense", "/commands"]),
        ("/istor", ["/history"]),
        ("/rewind 3hlf", []),
        ("/model o5m", ["openai/gpt-5-mini"]),
        ("/tools o", ["off files", "on shell"]),
        ("/tools on s", ["on shell"]),
        ("/approve re", ["revoke "]),
        ("/fork ", ["at 12", "at 8"]),
        ("/fork at 1", ["at 12"]),
        ("/fork at 12", []),
        ('/fork "at once', []),
        ("/agents ", ["--all"]),
        ("/agents -", ["--all"]),
        ("see @ma", ["@src/main.py"]),
        ("@", ["@src/main.py", "@a.png"]),
        ('see @"ma', ["@src/main.py"]),
        ("(@a", ["@src/main.py", "@a.png"]),
        ("two\n@a.p", ["@a.png"]),
        ("see @a.png", []),
        ("it @y's", ['@"why\'s"']),
        ("see @a.png ", []),
        ("me@ma", []),
        ("/help clear x", []),
        ("/nosuch ", []),
        ("/usr/bin", []),
        ("/clear\nmore", []),
    ],
)
def test_candidates(before: str, texts: list[str]):
    found = offered(before)
    assert [each.text for each in found] == texts
    assert all(len(before) >= each.replaces for each in found)


def test_undoable_events_are_offered_with_their_help():
    assert [(each.text, each.about) for each in offered("/undo 4")] == [("45", "filter"), ("42", "rewind")]


def test_slash_offers_every_command_with_its_help():
    found = offered("/")
    *found, own = found
    assert own == Candidate("/review", 1, "Review a file", "FILE")
    assert [each.text for each in found] == ["/" + command.name for command in COMMANDS]
    assert all(each.about for each in found)
    assert {each.text: each.hint for each in found} == {f"/{command.name}": command.argument for command in COMMANDS}


def test_menu_gets_later_completions_while_it_is_wanted():
    found = ["@one"]
    buffer = Buffer(document=Document("see @o"))
    menu = Menu(buffer, lambda kind, typed: found)

    def offered() -> list[str]:
        return [each.text for each in buffer.complete_state.completions] if buffer.complete_state else []

    menu.offer()
    found.append("@two")
    assert menu.again() and offered() == ["@one", "@two"]
    buffer.complete_next()  # somebody is choosing
    found.append("@three")
    assert not menu.again() and offered() == ["@one", "@two"]
    menu.offer()
    assert menu.close() and offered() == []
    assert not menu.again() and not menu.close()  # Esc took it away, and it stays so
    menu.offer()
    buffer.insert_text("x")
    assert not menu.again()  # it was offered for another text


def test_menu_stays_when_earlier_prompts_arrive():
    """Keep the menu: prompts are read from the database while the user may be typing."""
    main, side = os.openpty()
    made = InputLine(
        Tty(side, side), Theme(plain=True), Handler(), Dialogs(lambda: None), suggests=False, changed=lambda: None
    )
    made.buffer.insert_text("/profile de")
    menu = made.buffer.complete_state
    made.set_prompts(["earlier"])
    assert menu and made.buffer.complete_state is menu
    made.buffer.complete_next()
    made.set_prompts(["earlier"])
    made.buffer.complete_next()
    assert made.text == "/profile de", "it goes on from where it was"
    os.close(main)
    os.close(side)
