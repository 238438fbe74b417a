"""Tests of the comparison with stored screens: it finds differences, in styles alone too, and screens never shown."""

from pathlib import Path

import pyte
import pytest

from tests.support import screens
from tests.support.screens import Screens, shown, styles


class Still:
    """A terminal that always shows the same text."""

    def __init__(self, text: str) -> None:
        self.screen = pyte.Screen(40, 5)
        pyte.Stream(self.screen).feed(text)

    def pump(self, seconds: float) -> bool:
        return False


HELLO = "\x1b[1;36m❯\x1b[0m hello \x1b[2mthere in\x1b[0m \x1b[7m12 s\x1b[0m\x1b[H"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(screens, "FOLDER", tmp_path)
    for name in ("PATIENCE", "SHORT", "QUIET"):
        monkeypatch.setattr(screens, name, 0.01)
    return tmp_path


def stored(folder: Path, monkeypatch: pytest.MonkeyPatch, *states: str) -> None:
    monkeypatch.setattr(screens, "RENEW", True)
    with Screens("walk", "dark") as walk:
        for state in states:
            walk.agrees(state, Still(HELLO))
    monkeypatch.setattr(screens, "RENEW", False)


def test_text_and_styles_in_words():
    assert shown(Still(HELLO).screen) == "❯ hello there in 0 s\n──\n40 × 5, cursor 1:1\n"
    assert styles(Still(HELLO).screen) == "  1  bold cyan '❯'  dim 'there in'  reverse '0 s'\n"


def test_screens_report_differences_from_stored_ones(folder: Path, monkeypatch: pytest.MonkeyPatch):
    stored(folder, monkeypatch, "one")
    with Screens("walk", "dark") as walk:
        walk.agrees("one", Still(HELLO.replace("12 s", "7 s")))
    text, style = HELLO.replace("hello", "hallo"), HELLO.replace("36", "35")
    for other, told in ((text, "+❯ hallo there in 0 s"), (style, "+  1  bold magenta '❯'")):
        with pytest.raises(AssertionError) as failed, Screens("walk", "dark") as walk:
            walk.agrees("one", Still(other))
        assert told in str(failed.value) and "IKIGAI_RENEW_SCREENS" in str(failed.value)
    with pytest.raises(AssertionError, match=r"one\.light\.styles"), Screens("walk", "light") as walk:
        walk.agrees("one", Still(HELLO))


def test_unseen_screen_is_reported_and_deleted_when_renewed(folder: Path, monkeypatch: pytest.MonkeyPatch):
    stored(folder, monkeypatch, "one", "two")
    with pytest.raises(AssertionError, match=r"walk/two\.txt is of a state"), Screens("walk", "dark") as walk:
        walk.agrees("one", Still(HELLO))
    stored(folder, monkeypatch, "one")
    assert sorted(file.name for file in (folder / "walk").iterdir()) == ["one.dark.styles", "one.txt"]
