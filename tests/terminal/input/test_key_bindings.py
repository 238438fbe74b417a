"""These tests press every key of the input, from the bytes that a terminal sends to the effect."""

import asyncio
from collections.abc import Iterator
from typing import Any, cast

import pytest
from prompt_toolkit.application import Application
from prompt_toolkit.application.current import set_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.input import DummyInput
from prompt_toolkit.input.ansi_escape_sequences import ANSI_SEQUENCES
from prompt_toolkit.key_binding import defaults
from prompt_toolkit.key_binding.bindings.vi import load_vi_bindings
from prompt_toolkit.key_binding.key_processor import KeyProcessor
from prompt_toolkit.key_binding.vi_state import InputMode
from prompt_toolkit.output import DummyOutput

from ikigai.terminal.input.completion import Menu
from ikigai.terminal.input.input_actions import InputActions
from ikigai.terminal.input.key_bindings import build_bindings
from ikigai.terminal.input.prompt import GhostSuggestion, build_layout
from ikigai.terminal.input.sent_prompts import Pastes, PromptHistory
from ikigai.terminal.key_lookup import KeyLookup
from ikigai.terminal.keys.parser import KeyParser
from ikigai.terminal.tty import Tty


class Pressed:
    """An input with its keys; `calls` are the calls of the screen."""

    def __init__(self, vi: bool, busy: bool, asked: bool, finding: bool) -> None:
        self.calls: list[str] = []
        self.handler = self
        self.busy, self.asked, self.finding = busy, asked, finding
        self.queue = ["queued"] if busy else []
        pastes = Pastes()
        prompts = PromptHistory(pastes)
        prompts.fill(["earlier one", "older"])
        self.buffer, field = Buffer(history=prompts, on_text_insert=lambda _: self.menu.offer()), Buffer()
        self.menu = Menu(self.buffer, lambda kind, typed: ["one", "two"] * (kind == "marks"))
        ghost = GhostSuggestion(self.buffer, prompts, lambda: True, lambda: 80)
        keys = build_bindings(cast(InputActions, self), self.buffer, pastes, self.menu, ghost, vi)
        laid = build_layout(self.buffer, field, str, ghost, Tty.__new__(Tty))
        self.app: Application[None] = Application(
            layout=laid,
            input=DummyInput(),
            output=DummyOutput(),
            editing_mode=EditingMode.VI if vi else EditingMode.EMACS,
        )
        lookup = KeyLookup(vi)
        lookup.bind(keys)
        self.app.key_processor = KeyProcessor(lookup)
        self.buffer.load_history_if_not_yet_loaded()

    def __getattr__(self, name: str) -> Any:
        def called(*values: object, **named: object) -> bool:
            self.calls.append(" ".join([name, *map(str, (*values, *named.values()))]))
            return False

        return called

    def at_work(self) -> str:
        self.calls.append("at_work")
        return "running" if self.busy else ""

    def take_back(self) -> bool:
        if self.queue:
            self.buffer.document = Document(self.queue.pop())
            return True
        return False

    def entered(self) -> None:
        """Do nothing: it only draws."""

    def pasted(self, text: str) -> str:
        return text

    def type(self, keys: str) -> None:
        """Press keys, one after the other; after each lone Esc there is a pause."""
        parser = KeyParser()
        with set_app(self.app):
            for part in keys.split("‖"):
                self.app.key_processor.feed_multiple([*parser.feed(part), *parser.flush()])
                self.app.key_processor.process_keys()
                self.app.key_processor.feed(_flush())
                self.app.key_processor.process_keys()


def _flush() -> Any:
    from prompt_toolkit.key_binding.key_processor import _Flush  # pyright: ignore[reportPrivateUsage]

    return _Flush


@pytest.fixture(autouse=True)
def all_bindings() -> Iterator[None]:
    """Load vi's bindings: screens of other tests may have left them out."""
    before = defaults.load_vi_bindings  # pyright: ignore[reportPrivateImportUsage]
    defaults.load_vi_bindings = load_vi_bindings  # pyright: ignore[reportPrivateImportUsage]
    yield
    defaults.load_vi_bindings = before  # pyright: ignore[reportPrivateImportUsage]


async def press(keys: str, text: str = "", at: int | None = None, **state: bool) -> tuple[str, list[str]]:
    """Return the text with the cursor as ¦ after these keys, and the calls."""
    pressed = Pressed(**{"vi": False, "busy": False, "asked": False, "finding": False, **state})
    await asyncio.sleep(0)  # history is read
    await asyncio.sleep(0)
    pressed.buffer.document = Document(text, len(text) if at is None else at)
    pressed.type(keys)
    document = pressed.buffer.document
    return f"{document.text_before_cursor}¦{document.text_after_cursor}", pressed.calls


ESC = "\x1b"
EMPTY, DRAFT = "", "one two"
KEYS: list[tuple[str, str, str, str, list[str]]] = [
    # name, bytes, text before, text afterwards, what is called
    ("Enter", "\r", DRAFT, "¦", ["submit one two"]),
    ("Enter on nothing", "\r", " ", " ¦", ["retry"]),
    ("Enter behind a backslash", "\\‖\r‖x", DRAFT, "one two\nx¦", []),
    ("Ctrl+J", "\n", DRAFT, "one two\n¦", []),
    ("Alt+Enter", ESC + "\r", DRAFT, "one two\n¦", []),
    ("Shift+Enter, CSI u", ESC + "[13;2u", DRAFT, "one two\n¦", []),
    ("Shift+Enter, modifyOtherKeys", ESC + "[27;2;13~", DRAFT, "one two\n¦", []),
    ("Ctrl+Enter, CSI u", ESC + "[13;5u", DRAFT, "one two\n¦", []),
    ("unknown sequences", f"a{ESC}[99;99X{ESC}]0;x\x07{ESC}Pq{ESC}\\{ESC}[<0;1;1M{ESC}[57441;1ub", EMPTY, "ab¦", []),
    ("Ctrl+Space", "\x00x", DRAFT, "one twox¦", []),
    ("Ctrl+Space, CSI u", ESC + "[32;5ux", DRAFT, "one twox¦", []),
    ("Shift+Left", f"{ESC}[1;2D{ESC}[1;2Dx", DRAFT, "one tx¦wo", []),
    ("Ctrl+Shift+Left, Shift+Home, Shift+End", f"{ESC}[1;6Dx{ESC}[1;2Hy{ESC}[1;2Fz", DRAFT, "yone xtwoz¦", []),
    ("Shift+Left, Backspace", f"{ESC}[1;2D{ESC}[1;2D\x7f", DRAFT, "one ¦wo", []),
    ("Shift+Up", f"{ESC}[1;2A", EMPTY, "earlier one¦", []),
    ("Alt+unknown", ESC + "%x", EMPTY, "x¦", []),
    ("Esc", ESC, DRAFT, "one two¦", []),
    ("Esc Esc", f"{ESC}‖{ESC}", EMPTY, "¦", ["browse True"]),
    ("Ctrl+C with text", "\x03", DRAFT, "¦", []),
    ("Ctrl+C without", "\x03", EMPTY, "¦", ["ask_to_leave Ctrl+C"]),
    ("Ctrl+D without text", "\x04", EMPTY, "¦", ["at_work", "leave"]),
    ("Alt+Q", ESC + "q", DRAFT, "one two¦", ["stash"]),
    ("Ctrl+X Ctrl+S on an empty line", "\x18\x13", EMPTY, "¦", ["stash"]),
    ("Ctrl+D with text", "\x01\x04", DRAFT, "¦ne two", []),
    ("Ctrl+R", "\x12", DRAFT, "one two¦", ["find"]),
    ("Up", ESC + "[A", EMPTY, "earlier one¦", []),
    ("Up Up Down", f"{ESC}[A{ESC}OA{ESC}[B", EMPTY, "earlier one¦", []),
    ("Ctrl+P, Ctrl+N", "\x10\x10\x0e", EMPTY, "earlier one¦", []),
    ("Ctrl+G", "\x07", DRAFT, "one two¦", ["edit"]),
    ("Ctrl+X Ctrl+E", "\x18\x05", DRAFT, "one two¦", ["edit"]),
    ("Ctrl+O", "\x0f", DRAFT, "one two¦", ["unfold"]),
    ("Ctrl+T", "\x14", DRAFT, "one two¦", ["browse"]),
    ("Ctrl+L", "\x0c", DRAFT, "one two¦", ["redraw"]),
    ("Ctrl+Z", "\x1a", DRAFT, "one two¦", ["suspend"]),
    ("Alt+P", ESC + "p", DRAFT, "one two¦", ["submit /model"]),
    ("Tab", "/und\t", EMPTY, "/undo¦", ["offered"]),
    ("Tab where nothing completes the text", "\t", DRAFT, "one two¦", ["add_recalled"]),
    ("Tab Shift+Tab", f"/rewind \t\t{ESC}[Z", EMPTY, "/rewind one¦", ["offered"]),
    ("Shift+Tab", ESC + "[Z", DRAFT, "one two¦", ["cycle_approval"]),
    ("Alt+Up", ESC + "[1;3A", EMPTY, "¦", ["go_to up"]),
    ("Alt+Down", ESC + ESC + "[B", EMPTY, "¦", ["go_to down"]),
    ("Alt+Left", ESC + "[1;3D", EMPTY, "¦", ["go_to left"]),
    ("Alt+Right", ESC + "[1;3C", EMPTY, "¦", ["go_to right"]),
    ("Alt+Left by words", ESC + "[1;3D", DRAFT, "one ¦two", []),
    ("Alt+Right by words", f"\x01{ESC}[1;3C", DRAFT, "one ¦two", []),
    ("Ctrl+Left, Ctrl+Right", f"\x01{ESC}[1;5C{ESC}[1;5C{ESC}[1;5D", DRAFT, "one ¦two", []),
    ("Home, End", f"{ESC}[Ha{ESC}[Fb", DRAFT, "aone twob¦", []),
    ("Ctrl+A, Ctrl+F, Ctrl+B, Ctrl+E", "\x01\x06\x06\x02x\x05y", DRAFT, "oxne twoy¦", []),
    ("Ctrl+K, Ctrl+Y", "\x01\x06\x0b\x19\x19", DRAFT, "one twone two¦", []),
    ("Ctrl+U", "\x15", DRAFT, "¦", []),
    ("Ctrl+W, undo", "\x17\x1f", DRAFT, "one two¦", []),
    ("Alt+B, Alt+D", f"{ESC}b{ESC}d", DRAFT, "one ¦", []),
    ("Backspace, Delete", f"\x7f\x08\x01{ESC}[3~", DRAFT, "¦ne t", []),
    ("Right at the end takes what is suggested", ESC + "[C", "ear", "earlier one¦", []),
    ("End", ESC + "[F", "ear", "earlier one¦", []),
    ("Ctrl+E", "\x05", "ear", "earlier one¦", []),
    ("Alt+Right takes a word of it", ESC + "[1;3C", "ear", "earlier¦", []),
    ("Ctrl+Right", ESC + "[1;5C", "earlier", "earlier one¦", []),
    ("Right where nothing is suggested", ESC + "[C", "xear", "xear¦", []),
    ("a paste", f"{ESC}[200~a\rb{ESC}[201~", DRAFT, "one twoa\nb¦", ["dropped a\nb"]),
    ("Ctrl+V", "\x16", DRAFT, "one two¦", ["paste_picture"]),
]


@pytest.mark.parametrize(("keys", "text", "then", "calls"), [row[1:] for row in KEYS], ids=[row[0] for row in KEYS])
async def test_keys(keys: str, text: str, then: str, calls: list[str]):
    assert await press(keys, text) == (then, calls)


BUSY = [
    ("Esc", ESC, "", "¦", ["interrupt"]),
    ("Ctrl+C", "\x03", DRAFT, "one two¦", ["interrupt"]),
    ("Up edits what is queued", ESC + "[A", "", "queued¦", []),
    ("Enter", "\r", DRAFT, "¦", ["submit one two"]),
    ("Ctrl+S", "\x13", DRAFT, "¦", ["steer one two"]),
    ("Ctrl+S without text", "\x13", "", "¦", ["steer queued"]),
    ("Ctrl+S twice", "\x13\x13", "", "¦", ["steer queued"]),
    ("Ctrl+D", "\x04", "", "¦", ["at_work", "ask_to_leave Ctrl+D"]),
    ("Alt+Q", ESC + "q", DRAFT, "one two¦", ["stash"]),
]


@pytest.mark.parametrize(("keys", "text", "then", "calls"), [row[1:] for row in BUSY], ids=[row[0] for row in BUSY])
async def test_keys_while_busy(keys: str, text: str, then: str, calls: list[str]):
    assert await press(keys, text, busy=True) == (then, calls)


ANY_KEY = sorted(
    {*map(chr, range(32)), *ANSI_SEQUENCES, *(ESC + chr(code) for code in range(128)), ESC + "[32;5u", ESC + "\x1d"}
    - {ESC + begin for begin in ("", ESC, "[", "O", "]", "P", "X", "^", "_", "[200~")}  # more is to follow
    - {"\x9b"}
)


async def test_text_behind_any_key_is_typed_once():
    """No key makes characters vanish, repeats them, or lets them replace others."""
    lost = []
    for typed in ("xyz", "(m", ")m", "em", "rym", "rkm", "5m", "-m", ">m"):
        pressed = Pressed(vi=False, busy=False, asked=False, finding=False)
        for key in ANY_KEY:
            pressed.buffer.reset(Document("one two", 4))
            pressed.calls.clear()
            pressed.type(key + typed)
            document = pressed.buffer.document
            once = document.text_before_cursor.endswith(typed) and document.text.count(typed[-1]) == 1
            if not pressed.calls and not once:
                lost.append((key, typed, document.text))
    assert lost == []


FINDING = [
    ("Enter", "\r", ["found True"]),
    ("Tab", "\t", ["found True"]),
    ("Esc", ESC, ["found False"]),
    ("Ctrl+C", "\x03", ["found False"]),
    ("Ctrl+R, Up", f"\x12{ESC}[A", ["find_next 1", "find_next 1"]),
    ("Ctrl+S, Down", f"\x13{ESC}[B", ["find_next -1", "find_next -1"]),
    ("Ctrl+Z, Ctrl+L", "\x1a\x0c", ["suspend", "redraw"]),
]


@pytest.mark.parametrize(("keys", "calls"), [row[1:] for row in FINDING], ids=[row[0] for row in FINDING])
async def test_keys_during_a_search(keys: str, calls: list[str]):
    for vi in (False, True):
        assert await press(keys, DRAFT, finding=True, vi=vi) == ("one two¦", calls)


async def test_alt_types_nothing_into_a_search():
    assert await press(f"{ESC}5{ESC}%x", DRAFT, finding=True) == ("one twox¦", [])


VI = [
    ("Esc only leaves insert mode", ESC, DRAFT, "one tw¦o", []),
    ("Esc Esc Esc", f"{ESC}‖{ESC}‖{ESC}", EMPTY, "¦", ["browse True"]),
    ("commands", f"{ESC}‖0dw", DRAFT, "¦two", []),
    ("insert", f"{ESC}‖bix", DRAFT, "one x¦two", []),
    ("append", f"{ESC}‖Ax", DRAFT, "one twox¦", []),
    ("Esc ends what was begun", f"{ESC}‖d‖{ESC}‖x", DRAFT, "one t¦w", []),
    ("replace", f"{ESC}‖0rX", DRAFT, "¦Xne two", []),
    ("undo", f"{ESC}‖ddu", DRAFT, "one tw¦o", []),
    ("k", f"{ESC}‖k", EMPTY, "¦earlier one", []),
    ("a key right behind Esc is not Alt and that key", ESC + "x", DRAFT, "one t¦w", []),
    ("Enter sends", f"{ESC}‖\rx", DRAFT, "x¦", ["submit one two"]),
    ("/ searches", f"{ESC}‖/", DRAFT, "one tw¦o", ["find"]),
    ("Ctrl+R", f"{ESC}‖\x12", DRAFT, "one tw¦o", ["find"]),
    ("Alt+Enter", ESC + "\r", DRAFT, "one two\n¦", []),
    ("Shift+Enter", ESC + "[13;2u", DRAFT, "one two\n¦", []),
    ("Alt+Up", ESC + "[1;3A", EMPTY, "¦", ["go_to up"]),
    (
        "Ctrl+T, Ctrl+G, Ctrl+O, Ctrl+L",
        f"{ESC}‖\x14\x07\x0f\x0c",
        DRAFT,
        "one tw¦o",
        ["browse", "edit", "unfold", "redraw"],
    ),
    ("Ctrl+C", f"{ESC}‖\x03", DRAFT, "¦", []),
]


@pytest.mark.parametrize(("keys", "text", "then", "calls"), [row[1:] for row in VI], ids=[row[0] for row in VI])
async def test_keys_of_vi(keys: str, text: str, then: str, calls: list[str]):
    assert await press(keys, text, vi=True) == (then, calls)


async def test_esc_of_vi_while_busy_or_asked_leaves_insert_mode_first():
    assert await press(ESC, DRAFT, vi=True, busy=True) == ("one tw¦o", [])
    assert await press(f"{ESC}‖{ESC}", DRAFT, vi=True, busy=True) == ("one tw¦o", ["interrupt"])
    assert await press(f"{ESC}‖y", DRAFT, vi=True, asked=True) == ("one tw¦o", ["pressed y"])
    assert await press("y", "", asked=True) == ("y¦", ["pressed y"])


async def test_at_a_question_ctrl_s_leaves_queued_messages_where_they_are():
    assert await press("\x13", "", asked=True) == ("¦", [])


async def test_at_a_question_tab_adds_no_earlier_turns():
    assert "add_recalled" not in (await press("\t", DRAFT, asked=True))[1]


async def test_sending_goes_back_to_insert_mode():
    pressed = Pressed(vi=True, busy=False, asked=False, finding=False)
    pressed.buffer.document = Document("x", 1)
    pressed.type(ESC)
    assert pressed.app.vi_state.input_mode is InputMode.NAVIGATION
    pressed.type("\r")
    assert pressed.app.vi_state.input_mode is InputMode.INSERT
    assert pressed.calls == ["submit x"]
