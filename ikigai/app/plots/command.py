"""`ikigai usage --plot` and /cost --plot: what is asked for, drawn at once or written to a file."""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ikigai.app.plots import image_chart as painted
from ikigai.app.plots import text_chart as drawn
from ikigai.app.plots.data import Figures, gathered
from ikigai.app.usage_report import begins
from ikigai.config import Config
from ikigai.core.errors import ConfigError, Refused
from ikigai.export import atomic_file as files
from ikigai.system.output import say
from ikigai.system.progress import waiting
from ikigai.terminal.render.theme import Theme, output

if TYPE_CHECKING:
    from ikigai.store.agents import Agent
    from ikigai.store.database import Database

PIPED = 80
"""Cells where there is no terminal to ask."""


class Asked(NamedTuple):
    """Whether there is to be a picture at all, and the file it goes to; None draws it."""

    plot: bool = False
    file: Path | None = None
    force: bool = False


def typed(argument: str) -> Asked:
    """What is behind /cost: nothing, or --plot [FILE], with --force before or behind FILE.

    Raises ConfigError, and IkigaiError as `flagged`.
    """
    plot, _, rest = argument.strip().partition(" ")
    named = rest.strip().removeprefix("--force ").removesuffix(" --force")
    name = named.strip().strip("\"'")
    return Asked(bool(plot), _target(name) if name else None, named != rest.strip())


def _target(name: str) -> Path:
    try:
        target = Path(name).expanduser()
    except RuntimeError:
        target = Path(name)
    if target.suffix.lower() not in painted.SUFFIXES:
        raise ConfigError(f"{name!r} does not say as what.", f"Let the name end with {' or '.join(painted.SUFFIXES)}.")
    painted.check()
    return target


def flagged(arguments: argparse.Namespace) -> Asked:
    """What the options of `ikigai usage` mean. Raises ConfigError, and IkigaiError where the extra is missing."""
    if arguments.plot is None:
        if arguments.force:
            raise ConfigError("--force replaces the file of a picture.", "Add --plot FILE.")
        return Asked()
    if arguments.plot:
        return Asked(True, _target(arguments.plot), arguments.force)
    if arguments.json or arguments.force:
        option = "--json" if arguments.json else "--force"
        raise ConfigError(f"{option} goes with no picture in a terminal.", "Leave out one of the two, or name a file.")
    return Asked(True)


async def run(database: Database, config: Config, arguments: argparse.Namespace, asked: Asked) -> None:
    """Draw or write what `ikigai usage --plot` is asked for, and say so. Raises IkigaiError."""
    agent = None
    if arguments.agent:
        try:
            agent = await database.agents.find(arguments.agent)
        except Refused as refusal:
            raise ConfigError(refusal.what, refusal.remedy) from None
    since = begins(arguments.since) if arguments.since else None
    window = agent or await database.agents.last()
    work = gathered(database, config, arguments.by, agent, since, window)
    if asked.file:
        async with waiting("Painting"):
            told = await written(await work, asked)
        if not arguments.json:
            say(told)
        return
    looks = output(os.environ, sys.stdout.isatty())
    say(printed(await work, looks, config.terminal.screen_reader), painted=True)


def printed(figures: Figures, looks: Theme | None = None, words: bool = False) -> str:
    """The picture as wide as the terminal, in words where they are wanted or it cannot draw; without `looks` plain."""
    if words or os.environ.get("TERM", "dumb") in ("", "dumb"):
        return drawn.worded(figures)
    return drawn.drawn(figures, shutil.get_terminal_size((PIPED, 24)).columns, looks or Theme(plain=True))


def on_screen(figures: Figures, width: int, looks: Theme) -> str:
    """The picture among what is said, or the words for it."""
    if looks.words or "dim" not in looks:
        return drawn.worded(figures)
    return drawn.drawn(figures, width, looks)


async def written(figures: Figures, asked: Asked) -> str:
    """Write the picture to its file; the sentence that says so. Raises Refused, IkigaiError."""
    assert asked.file
    if not figures.rows:
        raise Refused(f"{drawn.NOTHING[:-1]}, so there is no picture.", "Ask a model something first.")
    with files.made(asked.file, asked.force) as file:
        data = await asyncio.to_thread(painted.painted, figures, asked.file.suffix.lower())
        file.flush()
        file.buffer.write(data)
    return f"{asked.file} shows {figures.title[0].lower()}{figures.title[1:]}."


async def shown(database: Database, config: Config, agent: Agent, budget: int) -> Figures:
    """What /cost --plot shows: all requests over time, and this agent's window with its budget in tokens."""
    return await gathered(database, config, window=agent, budget=budget)
