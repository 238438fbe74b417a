"""What completes what."""

import os

import pytest
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document

from ikigai.core.commands.table import COMMANDS
from ikigai.terminal.input.completion import Menu, candidates
from ikigai.terminal.input.input_line import Input
from ikigai.terminal.render.theme import Theme
from ikigai.terminal.tty import Tty

SOURCES = {
    "marks": lambda: ["one", "two", "three and a half"],
    "models": lambda: ["openai/gpt-5", "openai/gpt-5-mini"],
    "acts": lambda: {"45": "filter", "42": "rewind"},
    "profiles": lambda: ["fast", "deep"],
    "files": lambda typed: [f"{typed.rpartition('/')[0]}/a b.md"] if "/" in typed else ["sub/"],
    "pins": lambda: {"a b.md": "1.2k tokens", "c.md": "5 tokens"},
    "sets": lambda: {"off files": "read_file", "on shell": "shell"},
    "turns": lambda: {"at 12": "what is it?", "at 8": "hello"},
    "all": lambda: {"--all": "the dead, too"},
    "modes": lambda: {"auto": "edits run", "revoke ": "ask again"},
    "mentions": lambda typed: (
        [f"@{name}" for name in ("src/main.py", "a.png") if typed in name] + ['@"why\'s"'] * (typed == "y's")
    ),
}


@pytest.mark.parametrize(
    ("before", "texts"),
    [
        ("", []),
        ("hello", []),
        ("/cl", ["/clear"]),
        ("/m", ["/mark", "/model"]),
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
        ("/help cnd", ["condense"]),
        ("/cnds", ["/condense"]),
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
    found = candidates(before, SOURCES)
    assert [each.text for each in found] == texts
    assert all(len(before) >= each.replaces for each in found)


def test_what_can_be_undone_is_offered_with_what_it_is():
    assert [(each.text, each.about) for each in candidates("/undo 4", SOURCES)] == [("45", "filter"), ("42", "rewind")]


def test_a_slash_offers_everything_with_its_help():
    found = candidates("/", SOURCES)
    assert [each.text for each in found] == ["/" + command.name for command in COMMANDS]
    assert all(each.about for each in found)


def test_what_a_source_finds_later_joins_the_menu_where_somebody_waits_for_it():
    found = ["@one"]
    buffer = Buffer(document=Document("see @o"))
    menu = Menu(buffer, {"mentions": lambda typed: found})

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


def test_the_menu_stays_when_earlier_prompts_come():
    """They are read from the database while somebody may be typing."""
    main, side = os.openpty()
    made = Input(
        Tty(side, side), Theme(plain=True), SOURCES, on_typing=str, on_draft=lambda: None,
        look=lambda text, found: lambda: None, suggests=lambda: False, changed=lambda: None,
    )  # fmt: skip
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
