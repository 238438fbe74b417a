"""Carry out `ikigai usage --plot` and /cost --plot: plots in the terminal."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from typing import TYPE_CHECKING

from ikigai.app.list_options import day_start
from ikigai.app.plots import text_chart
from ikigai.app.plots.data import PlotData, gather_data
from ikigai.config import Config
from ikigai.core.errors import as_config_error
from ikigai.system.output import print_lines
from ikigai.terminal.render.theme import Theme, output_theme

if TYPE_CHECKING:
    from ikigai.store.agents.agents import Agent
    from ikigai.store.database import Database

PIPED_WIDTH = 80
"""Width in cells if the output is not a terminal."""


async def run(database: Database, config: Config, arguments: argparse.Namespace) -> None:
    """Draw the plot of `ikigai usage --plot`. Raise IkigaiError."""
    agent = None
    if arguments.agent:
        with as_config_error():
            agent = await database.agents.find(arguments.agent)
    since = day_start(arguments.since) if arguments.since else None
    window = agent or await database.agents.last()
    figures = await gather_data(database, config, arguments.by, agent, since, window)
    theme = output_theme(os.environ, sys.stdout.isatty())
    print_lines(format_plot(figures, theme, config.terminal.screen_reader), painted=True)


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


async def plot_for_screen(database: Database, config: Config, agent: Agent, budget: int) -> PlotData:
    """Return the data of /cost --plot: all requests over time, and this agent's window with its budget in tokens."""
    return await gather_data(database, config, window=agent, budget=budget)
