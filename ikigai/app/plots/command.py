"""This module implements `ikigai usage --plot` and /cost --plot: plots in the terminal or in a file."""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ikigai.app.plots import image_chart, text_chart
from ikigai.app.plots.data import PlotData, gather_data
from ikigai.app.usage_report import day_start
from ikigai.config import Config
from ikigai.core.errors import ConfigError, Rejected, as_config_error
from ikigai.system.atomic_file import write_atomically
from ikigai.system.output import print_lines
from ikigai.system.paths import expand_home
from ikigai.system.progress import show_waiting
from ikigai.terminal.render.theme import Theme, output_theme

if TYPE_CHECKING:
    from ikigai.store.agents import Agent
    from ikigai.store.database import Database

PIPED_WIDTH = 80
"""Width in cells if the output is not a terminal."""


class PlotRequest(NamedTuple):
    """A request for a plot, if `plot` is set; `file` None draws it in the terminal."""

    plot: bool = False
    file: Path | None = None
    force: bool = False


def parse_typed(argument: str) -> PlotRequest:
    """Parse the argument of /cost: nothing, or --plot [FILE], with --force before or after FILE.

    Raise ConfigError, and IkigaiError if the extra is missing.
    """
    plot, _, rest = argument.strip().partition(" ")
    named = rest.strip().removeprefix("--force ").removesuffix(" --force")
    name = named.strip().strip("\"'")
    return PlotRequest(bool(plot), _target(name) if name else None, named != rest.strip())


def _target(name: str) -> Path:
    target = expand_home(name)
    if target.suffix.lower() not in image_chart.IMAGE_SUFFIXES:
        raise ConfigError(
            f"The format of {name!r} is not known.",
            f"Use a name that ends with {' or '.join(image_chart.IMAGE_SUFFIXES)}.",
        )
    image_chart.check()
    return target


def parse_flags(arguments: argparse.Namespace) -> PlotRequest:
    """Parse the options of `ikigai usage`. Raise ConfigError, and IkigaiError if the extra is missing."""
    if arguments.plot is None:
        if arguments.force:
            raise ConfigError("--force replaces the file of a picture.", "Add --plot FILE.")
        return PlotRequest()
    if arguments.csv:
        raise ConfigError("--csv is a table and --plot a picture.", "Leave out one of the two.")
    if arguments.plot:
        return PlotRequest(True, _target(arguments.plot), arguments.force)
    if arguments.json or arguments.force:
        option = "--json" if arguments.json else "--force"
        raise ConfigError(f"{option} applies only to a picture in a file.", "Leave out one of the two, or name a file.")
    return PlotRequest(True)


async def run(database: Database, config: Config, arguments: argparse.Namespace, request: PlotRequest) -> None:
    """Draw or write the plot of `ikigai usage --plot`, and print the message. Raise IkigaiError."""
    agent = None
    if arguments.agent:
        with as_config_error():
            agent = await database.agents.find(arguments.agent)
    since = day_start(arguments.since) if arguments.since else None
    window = agent or await database.agents.last()
    work = gather_data(database, config, arguments.by, agent, since, window)
    if request.file:
        async with show_waiting("Painting"):
            message = await write_image(await work, request)
        if not arguments.json:
            print_lines(message)
        return
    theme = output_theme(os.environ, sys.stdout.isatty())
    print_lines(format_plot(await work, theme, config.terminal.screen_reader), painted=True)


def format_plot(figures: PlotData, theme: Theme | None = None, words: bool = False) -> str:
    """Return the plot as wide as the terminal, or in words on request or on a dumb terminal; plain without `theme`."""
    if words or os.environ.get("TERM", "dumb") in ("", "dumb"):
        return text_chart.describe_plot(figures)
    return text_chart.draw_text(
        figures, shutil.get_terminal_size((PIPED_WIDTH, 24)).columns, theme or Theme(plain=True)
    )


def draw_on_screen(figures: PlotData, width: int, theme: Theme) -> str:
    """Return the plot in `width` cells, or in words if the theme has no colors."""
    if theme.words or "dim" not in theme:
        return text_chart.describe_plot(figures)
    return text_chart.draw_text(figures, width, theme)


async def write_image(figures: PlotData, request: PlotRequest) -> str:
    """Write the plot to its file; return the message. Raise Rejected, IkigaiError."""
    assert request.file
    if not figures.rows:
        raise Rejected(f"{text_chart.NO_REQUESTS[:-1]}, so there is no picture.", "Ask a model something first.")
    with write_atomically(request.file, request.force) as file:
        data = await asyncio.to_thread(image_chart.draw_image, figures, request.file.suffix.lower())
        file.flush()
        file.buffer.write(data)
    return f"{request.file} shows {figures.title[0].lower()}{figures.title[1:]}."


async def plot_for_screen(database: Database, config: Config, agent: Agent, budget: int) -> PlotData:
    """Return the data of /cost --plot: all requests over time, and this agent's window with its budget in tokens."""
    return await gather_data(database, config, window=agent, budget=budget)
