"""Pictures in files: what is on them can be read, they are the same each time, and a file that is there stays."""

import argparse
import io
import re
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from PIL import Image

from ikigai.app.plots import command
from ikigai.app.plots import image_chart as painted
from ikigai.app.plots.data import PlotData
from ikigai.core.errors import ConfigError, IkigaiError, Rejected
from ikigai.system.install_command import extra_command
from tests.app.plots.test_text_chart import DAYS, NAMES, of, saw

pytestmark = pytest.mark.skipif(not find_spec("matplotlib"), reason="needs matplotlib, of the extra plot")


def test_svg_says_it_in_text() -> None:
    rows = [*DAYS[:3], ("<b>$x^2$ & $y$", of(50, None))]
    figures = PlotData("Tokens and cost by day", "model", rows, ("1 request without a known price.",), saw(60))
    text = painted.draw_image(figures, ".svg").decode()
    labels = ("Tokens and cost by day", "&lt;b&gt;$x^2$ &amp; $y$", "cost in US dollars", "read from a cache")
    for said in (*labels, "The window of calm-otter", "budget, 100,000", "turns left the window", "1 request without"):
        assert said in text, said
    assert "<script" not in text
    assert not re.search(r"\d\d:\d\d:\d\d", text), "no time of making"


@pytest.mark.filterwarnings("error")
def test_png_is_not_blank_and_on_white() -> None:
    rows = [*NAMES, ("nothing yet", of(0, "0"))]
    figures = PlotData("Tokens and cost by model", "model", rows, (), saw(1))
    picture = Image.open(io.BytesIO(painted.draw_image(figures, ".png"))).convert("RGB")
    assert picture.size[0] == 1350 and picture.getpixel((2, 2)) == (255, 255, 255)
    colours = {colour for _, colour in picture.getcolors(1 << 20) or ()}
    assert {(0x00, 0x9E, 0x73), (0x00, 0x72, 0xB2), (0, 0, 0)} <= colours, "bars of cost and of tokens, and words"


async def test_file_that_is_there_stays(tmp_path: Path) -> None:
    target = tmp_path / "usage.svg"
    figures = PlotData("Tokens and cost by day", "day", DAYS[:2])
    told = await command.write_image(figures, command.parse_typed(f"--plot {target}"))
    assert told == f"{target} shows tokens and cost by day."
    before = target.read_bytes()
    assert before.startswith(b"<?xml") and target.stat().st_mode & 0o777 == 0o600
    with pytest.raises(Rejected, match="already exists"):
        await command.write_image(figures, command.parse_typed(f"--plot {target}"))
    target.write_bytes(b"old")
    await command.write_image(figures, command.parse_typed(f'--plot --force "{target}"'))
    assert target.read_bytes() == before, "the same each time"
    assert command.parse_typed(f"--plot {target} --force") == command.parse_typed(f"--plot --force {target}")
    assert [*tmp_path.iterdir()] == [target]
    with pytest.raises(IkigaiError, match="cannot be written"):
        await command.write_image(figures, command.parse_typed(f"--plot {tmp_path}/no/x.png"))
    with pytest.raises(Rejected, match="No requests were found"):
        await command.write_image(PlotData("t", "day", []), command.parse_typed(f"--plot {tmp_path}/x.png"))


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # as Python has it where it is not to be found
    for asks in (
        lambda: command.parse_typed("--plot x.png"),
        lambda: painted.draw_image(PlotData("t", "day", DAYS), ".png"),
    ):
        with pytest.raises(IkigaiError, match="need matplotlib") as found:
            asks()
        assert found.value.exit_code == 1 and found.value.remedy == f"Install it with: {extra_command('plot')}"
    assert command.parse_typed("--plot").plot, "the terminal needs none"


def test_what_is_asked_for() -> None:
    def flags(plot: str | None = None, force: bool = False, json: bool = False) -> argparse.Namespace:
        return argparse.Namespace(plot=plot, force=force, json=json, csv=False)

    assert command.parse_typed("") == command.parse_flags(flags()) == command.PlotRequest()
    assert command.parse_typed("--plot") == command.parse_flags(flags("")) == command.PlotRequest(True)
    assert command.parse_typed("--plot a b.PNG") == command.PlotRequest(True, Path("a b.PNG"))
    assert command.parse_flags(flags("x.svg", True, True)) == command.PlotRequest(True, Path("x.svg"), True)
    for refused in (flags("x.pdf"), flags("x"), flags("-"), flags(force=True), flags("", json=True)):
        with pytest.raises(ConfigError):
            command.parse_flags(refused)
