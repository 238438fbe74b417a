"""These tests cover the colors of themes, the terminal's answer about its background, and variables for colors."""

import os
import re
import select
import termios
import threading
import tty
from pathlib import Path

import pytest

from ikigai.config import records as keys
from ikigai.terminal.render import blocks as render
from ikigai.terminal.render import colors as colours
from ikigai.terminal.render.styles import ELEMENT_STYLES, FOLLOWING_STYLES, STYLE_THEMES, theme_styles
from ikigai.terminal.render.theme import Theme, color_depth, output_theme, sgr_codes, strip_styles, terminal_theme
from tests.terminal.console import DEMO, Console

TERMINAL = {"TERM": "xterm-256color"}
BACKGROUNDS = {
    "dark": ("#000000", "#1e1e1e", "#002b36", "#282a36", "#282c34", "#2e3440"),  # the last: Nord, the lightest
    "light": ("#ffffff", "#fafafa", "#fdf6e3", "#f6f8fa", "#eff1f5"),  # the last: Catppuccin Latte, the darkest
}


def contrast_ratio(one: colours.RgbColor, other: colours.RgbColor) -> float:
    """The contrast ratio of WCAG 2, 1 to 21."""
    low, high = sorted(map(colours.relative_luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("name", STYLE_THEMES)
def test_colored_styles_read_well_on_every_background_of_their_kind(name: str):
    least = 7.0 if name.endswith("high-contrast") else 4.5
    looked_at = 0
    for element, style in theme_styles(1 + STYLE_THEMES.index(name)).items():
        words = style.split()
        assert "dim" not in words, element  # nobody knows how dim that is
        for word in words:
            if word.isdecimal():
                looked_at += 1
                for background in BACKGROUNDS[name.partition("-")[0]]:
                    found = contrast_ratio(colours.parse_rgb(word), colours.parse_rgb(background))
                    assert found >= least, (element, word, background, found)
    assert looked_at > 15


def test_contrast_is_that_of_wcag():
    assert contrast_ratio((0, 0, 0), (255, 255, 255)) == pytest.approx(21)
    assert contrast_ratio(colours.parse_rgb("#767676"), colours.parse_rgb("#ffffff")) == pytest.approx(4.54, abs=0.01)
    assert colours.parse_rgb("244") == (128, 128, 128) and colours.parse_rgb("208") == (255, 135, 0)


@pytest.mark.parametrize(
    "text, kind",
    [
        ("rgb:ffff/ffff/ffff", "light"),
        ("rgb:ff/ff/ff", "light"),
        ("rgb:f/f/f", "light"),
        ("rgba:fdfd/f6f6/e3e3/ffff", "light"),
        ("#ffffff", "light"),
        ("#fffffffff", "light"),
        ("rgb:0000/0000/0000", "dark"),
        ("rgb:00/2b/36", "dark"),
        ("rgba:2e2e/3434/4040/8080", "dark"),
        ("rgb:7777/7777/7777", "light"),
        ("rgb:7575/7575/7575", "dark"),
        ("#000", "dark"),
        ("?", ""),
        ("", ""),
        ("rgb:ffff/ffff", ""),
        ("rgb:fffff/0/0", ""),
        ("rgb:gg/gg/gg", ""),
        ("#ffff", ""),
        ("hsl:0/0/0", ""),
    ],
)
def test_background_color_is_read_from_the_terminals_report(text: str, kind: str):
    for end in ("\x07", "\x1b\\", ""):
        assert colours.background_kind(f"\x1b]11;{text}{end}") == kind
    assert colours.background_kind(f"\x1b]10;{text}\x07") == ""


def test_colorfgbg_gives_the_kind_of_background():
    said = {"15;0": "dark", "0;15": "light", "0;default;15": "light", "7;8": "dark", "12;7": "light"}
    said |= dict.fromkeys(("", "15;default", "0;16", "x", "1;-1"), "")
    assert {value: colours.guess_background({"COLORFGBG": value}) for value in said} == said
    assert colours.guess_background({}) == ""


def test_variables_switch_colors():
    red, none, nothing = "\x1b[31mx\x1b[0m", "x", "x"
    for environ, color, drawn in (
        ({}, "auto", red),
        ({}, "never", none),
        ({"NO_COLOR": ""}, "auto", red),
        ({"NO_COLOR": "1"}, "auto", none),
        ({"NO_COLOR": "1"}, "always", none),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, "auto", none),
        ({"NO_COLOR": "1", "IKIGAI_TERMINAL_COLOR": "always"}, "always", red),
        ({"FORCE_COLOR": "1"}, "never", red),
        ({"FORCE_COLOR": "0"}, "never", none),
        ({"FORCE_COLOR": "1", "IKIGAI_TERMINAL_COLOR": "never"}, "never", none),
        ({"FORCE_COLOR": "1", "TERM": "dumb"}, "always", nothing),
    ):
        assert terminal_theme({**TERMINAL, **environ}, color).paint("error", "x") == drawn, (environ, color)
    assert terminal_theme({**TERMINAL, "NO_COLOR": "1"}).paint("prompt", "x") == "\x1b[1mx\x1b[0m"
    assert terminal_theme({"TERM": "dumb"}, "always").paint("bold", "x") == "x"


def test_command_output_is_plain_off_a_terminal_unless_forced():
    bold, red = "\x1b[1mx\x1b[0m", "\x1b[31mx\x1b[0m"
    for environ, is_terminal, drawn in (
        (TERMINAL, True, (bold, red)),
        (TERMINAL, False, ("x", "x")),
        ({"TERM": "dumb"}, True, ("x", "x")),
        ({**TERMINAL, "NO_COLOR": "1"}, True, (bold, "x")),
        ({**TERMINAL, "NO_COLOR": "1", "FORCE_COLOR": "1"}, False, ("x", "x")),
        ({"FORCE_COLOR": "1"}, False, (bold, red)),
        ({"FORCE_COLOR": "1", "TERM": "dumb"}, False, (bold, red)),
        ({"FORCE_COLOR": "0"}, False, ("x", "x")),
    ):
        made = output_theme(environ, is_terminal)
        assert (made.paint("bold", "x"), made.paint("error", "x")) == drawn, environ


def test_environment_gives_the_color_depth_and_if_the_terminal_is_asked():
    for environ, found in (
        ({"TERM": "xterm"}, 16),
        ({"TERM": "linux"}, 16),
        (TERMINAL, 256),
        ({"TERM": "xterm", "COLORTERM": "truecolor"}, 1 << 24),
        ({**TERMINAL, "FORCE_COLOR": "3"}, 1 << 24),
        ({**TERMINAL, "FORCE_COLOR": "1"}, 16),
        ({**TERMINAL, "FORCE_COLOR": "true"}, 256),
    ):
        assert color_depth(environ) == found
        assert terminal_theme(environ).asks == (found > 16)
    for environ, name in (({**TERMINAL, "NO_COLOR": "1"}, "auto"), ({"TERM": "dumb"}, "auto"), (TERMINAL, "light")):
        assert not terminal_theme(environ, "auto", name).asks


def test_styles_in_words():
    assert sgr_codes("bold cyan") == "1;36" and sgr_codes("bright_red on 238") == "91;48;5;238"
    assert sgr_codes("underline #0a1b2c on bright_white") == "4;38;2;10;27;44;107"
    uncoloured = Theme(color=False)
    uncoloured.apply_styles({"error": "bold #ffffff on red", "call": "red"})
    assert uncoloured.paint("error", "x") == "\x1b[1mx\x1b[0m" and uncoloured.paint("call", "x") == "x"
    drawn = render.draw_reply("# One\n\nIs `two` **three**.\n\n```python\ndef f(): 1\n```", 40, Theme(color=False))
    assert set(re.findall(r"\x1b\[([\d;]*)m", drawn)) == {"0", "1", "1;4", "2"}
    assert "Is `two` " in drawn and "Is two " in strip_styles(render.draw_reply("Is `two` three", 40, Theme()))


def test_own_theme_is_reduced_on_fewer_colors():
    own = {"mine": {"base": "light", "warning": "bold #ff8800", "error": "on 196", "user": ""}}
    made = {colours_: colours.named_styles("mine", own, colours_) for colours_ in (16, 256, 1 << 24)}
    assert made[1 << 24]["warning"] == "bold #ff8800" and made[1 << 24]["error"] == "on 196"
    assert made[256]["warning"] == "bold 208" and made[256]["error"] == "on 196"
    assert made[16]["warning"] == "bold yellow" and made[16]["error"] == "on bright_red"
    assert made[256]["user"] == theme_styles(2)["user"] and made[16]["user"] == theme_styles(0)["user"]
    drawn = terminal_theme({**TERMINAL}, "auto", "mine", own).paint("warning", "x")
    assert drawn == "\x1b[1;38;5;208mx\x1b[0m"


def test_own_theme_changes_elements_beside_those_it_names():
    own = {"mine": {"base": "light", "added": "bold 27", "dim": "240"}}
    made = colours.named_styles("mine", own, 256)
    assert made["added_word"] == "reverse bold 27" and made["removed_word"] == theme_styles(2)["removed_word"]
    assert (made["hunk"], made["border"], made["thought"]) == ("240", "240", "italic 240")


def test_high_contrast_is_never_dim():
    for name in STYLE_THEMES[2:]:
        assert not any("dim" in style for style in colours.named_styles(name, {}, 16).values())
    assert terminal_theme({**TERMINAL, "NO_COLOR": "1"}, "auto", STYLE_THEMES[3]).paint("dim", "x") == "x"
    assert terminal_theme({**TERMINAL, "NO_COLOR": "1"}, "auto", STYLE_THEMES[0]).paint("dim", "x") == "\x1b[2mx\x1b[0m"
    worn = Theme()
    worn.apply_styles(theme_styles(4))
    assert (
        worn.paint("dim", "x") == "\x1b[38;5;238mx\x1b[0m"
        and worn.paint("control-character", "x") == "\x1b[38;5;238mx\x1b[0m"
    )


def test_configuration_and_renderer_know_the_same_themes_and_elements():
    assert set(keys.ELEMENTS) <= set(ELEMENT_STYLES)
    for element, (leader, _) in FOLLOWING_STYLES.items():
        assert element in ELEMENT_STYLES and leader in keys.ELEMENTS and element not in keys.ELEMENTS
    assert set(keys.THEME_NAMES) == {"auto", *STYLE_THEMES}


QUESTION = b"\x1b]11;?\x1b\\\x1b[c"
WHITE, NIGHT = b"\x1b]11;rgb:ffff/ffff/ffff\x1b\\", b"\x1b]11;rgb:00/2b/36\x07"


class Asked(Console):
    """A terminal that answers the query for its background, in pieces."""

    answers = False
    answer: tuple[bytes, ...] = ()
    asked_at = -1

    def _read(self) -> bool:
        read = super()._read()
        if self.asked_at < 0 and QUESTION in self.raw:
            self.asked_at = self.raw.index(QUESTION)
            for part in self.answer:
                os.write(self.fd, part)
        return read


@pytest.mark.parametrize(
    "answer, worn, typed", [((WHITE, b"\x1b[?62c"), 2, ""), ((b"typ", NIGHT, b"ed\x1b[?1;2c"), 1, "typed")]
)
def test_background_color_is_asked_for_after_the_first_prompt(
    tmp_path: Path, answer: tuple[bytes, ...], worn: int, typed: str
):
    with Asked(tmp_path, DEMO_HISTORY="1", DEMO_PATIENCE="30") as console:
        console.answer = answer
        console.ready()
        console.until(lambda: "It keeps whole turns" in console.text and console.prompt.strip() == typed)
        assert "❯".encode() in console.raw[: console.asked_at] and console.raw.count(QUESTION) == 1
        drawn = console.raw[console.asked_at :].decode()
        for element, sign in (("prompt", "❯"), ("assistant", "●"), ("dim", "·")):
            assert f"\x1b[{sgr_codes(theme_styles(worn)[element])}m{sign}" in drawn, element
        assert console.history.count("It keeps whole turns") == console.history.count("● It keeps") == 1
        console.send(b"\x15bye\r")
        console.ended()
        console.assert_restored()


@pytest.mark.parametrize("environ, worn", [({}, 0), ({"COLORFGBG": "0;15"}, 2)])
def test_screen_goes_on_when_the_terminal_does_not_answer(tmp_path: Path, environ: dict[str, str], worn: int):
    with Asked(tmp_path, DEMO, (80, 24), DEMO_HISTORY="1", **environ) as console:
        console.answer = (b"\x1b[?62c",) * (worn == 0)  # it knows no OSC 11, or not even DA1
        console.ready()
        console.until("It keeps whole turns")
        assert console.raw.count(QUESTION) == 1
        assert f"\x1b[{sgr_codes(theme_styles(worn)['assistant'])}m●" in console.raw.decode()
        if worn == 0:  # too late: what is drawn from now on is light, the present value stays
            console.send(WHITE)
            console.until(lambda: f"\x1b[{sgr_codes(theme_styles(2)['prompt'])}m❯" in console.raw.decode())
            assert console.history.count("It keeps whole turns") == 1 and console.prompt.strip() == ""
            assert f"\x1b[{sgr_codes(theme_styles(2)['assistant'])}m●" not in console.raw.decode()
        console.send("bye\r")  # at once: an answer may still be owed
        console.ended()
        console.assert_restored()


def test_late_answer_is_not_left_to_the_shell(tmp_path: Path):
    with Asked(tmp_path, DEMO_PATIENCE="30") as console:
        console.until(lambda: console.asked_at >= 0)
        console.send("\x04")
        threading.Timer(0.1, os.write, (console.fd, WHITE + b"\x1b[?62c")).start()
        console.ended()
        console.assert_restored()
        tty.setraw(console.slave, termios.TCSANOW)
        assert not select.select([console.slave], [], [], 0.1)[0]
