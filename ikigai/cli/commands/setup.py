"""Carry out `ikigai setup`: prepare database and model, without questions.

With --model it installs a local model: a GGUF file that is here, or one that it downloads.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import shlex
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from ikigai.app.run.factories import make_pool
from ikigai.app.run.open_database import opened_database
from ikigai.config import Config, mask_passwords, settings_file, unused_address
from ikigai.config.key_table import KeyPath
from ikigai.core.commands.arguments import parse_model
from ikigai.core.errors import IkigaiError
from ikigai.providers.pool import ProviderPool
from ikigai.system import paths
from ikigai.system.output import format_table, print_lines
from ikigai.system.own_command import own_command
from ikigai.system.progress import OnProgress, format_size, show_progress, show_waiting

MODEL_FILE: KeyPath = ("providers", "local", "model_file")
"""The key of the configuration that names the file of the local model."""


def add(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add this command to the subcommands; `common` holds the options that every command takes."""
    command = commands.add_parser(
        "setup",
        parents=[common],
        help="prepare database and model; asks nothing",
        description="Prepare the database, and a small local model if there is no key. With --model, install the "
        "local model of your choice; an interrupted download continues when the command is run again.",
    )
    command.add_argument(
        "--model",
        dest="model_source",  # `model` is the flag of a run
        nargs="?",
        const="",
        metavar="FILE|URL|hf:OWNER/REPO/FILE.gguf",
        help="the local model to install; alone: list some, with their sizes",
    )
    command.set_defaults(act=run_setup)


async def run_setup(config: Config, arguments: argparse.Namespace) -> None:
    """Print a line for each step, also for one that is done already. Fail if ikigai would not answer afterwards."""
    if arguments.model_source == "":
        _print_suggestions()
        return
    if arguments.model_source is not None:
        config = await _install_model(config, arguments.model_source)
    await _prepare_database(config)
    pool = make_pool(config)
    for provider, place in config.keys.items():
        variable = place.partition(" ")[2]
        origin = f"in the environment ({variable})" if variable else "stored by ikigai login"
        print_lines(f"key        {provider}: {origin}")
    if not config.keys:
        print_lines("key        none (add one: ikigai login)")
    provider = next(iter(config.keys), "")
    if provider and not config.model and not pool.default_model(config.keys):
        raise IkigaiError("No model is chosen.", f"Run: ikigai config set model {provider}/NAME")
    if not config.model and not pool.default_model(config.keys):
        await _fetch_bundled(pool)
        print_lines(f"model      {pool.local_model()}: fetched")
    chosen = config.model or pool.default_model(config.keys)
    model, level = (str(parse_model(chosen).get(key) or "") for key in ("model", "level"))
    pool.check(model, level)
    print_lines(f"ready      {chosen} answers when you run {shlex.quote(own_command())}")
    if arguments.model_source and (local := pool.local_model()) != model:
        print_lines(f"           For the local model: ikigai -m {local}")


async def _prepare_database(config: Config) -> None:
    async with opened_database(config) as (lease, _):
        if lease:
            print_lines(f"database   embedded PostgreSQL {lease.major}, {'created' if lease.initialized else 'ready'}")
            if note := unused_address(config, os.environ):
                print_lines(f"           {note}")
        else:
            print_lines(f"database   {mask_passwords(config.database.dsn or '') or 'as configured for libpq'}, ready")


async def _fetch_bundled(pool: ProviderPool) -> None:
    """Fetch the small model that comes with ikigai. Ctrl+C ends it at once."""
    stopped = threading.Event()
    with show_progress("model     ", "bytes") as on_progress:
        try:
            await asyncio.to_thread(pool.fetch_local, _until(stopped, on_progress))
        finally:
            stopped.set()


def _until(stopped: threading.Event, on_progress: OnProgress) -> Callable[[int, int | None], None]:
    def report(done: int, total: int | None) -> None:
        if stopped.is_set():
            raise IkigaiError("The download was stopped.")
        on_progress(done, total)

    return report


async def _install_model(config: Config, text: str) -> Config:
    """Install the model that `text` names as the local one; return the configuration with it. Raise IkigaiError."""
    from ikigai.providers.local import model_source
    from ikigai.providers.local.model_server import LocalServer, require_package

    require_package()
    source = model_source.read_source(text, paths.data_dir() / "models", os.environ)
    name = model_source.check_name(source if isinstance(source, Path) else source.remotes[0][1])
    if isinstance(source, Path):
        model_source.check_file(source)
        file, how = source, "installed"
    else:
        file, how = await _download(source)
    async with show_waiting(f"Loading {name}"):
        server = LocalServer(file, config.local.context)
        try:
            await asyncio.to_thread(server.ready)
        finally:
            server.close()
    settings_file.set_value(Path(config.file), MODEL_FILE, str(file))
    print_lines(f"model      {name}: {how}, {format_size(file.stat().st_size)}, in {file}")
    if config.kind(MODEL_FILE) == "environment":
        variable = config.settings[MODEL_FILE].place
        raise IkigaiError(f"{variable} names another file, and overrides {config.file}.", f"Unset {variable}.")
    return msgspec.structs.replace(config, local=msgspec.structs.replace(config.local, model_file=str(file)))


async def _download(source: Any) -> tuple[Path, str]:
    """Download all files of a model; return the one to load, and a word about it."""
    from ikigai.providers.local import model_source
    from ikigai.providers.local.download import Downloader

    models = paths.data_dir() / "models"
    checked = True
    for number, (remote, target) in enumerate(source.remotes, 1):
        for folder in (paths.data_dir(), *_between(models, target.parent)):
            paths.make_private(folder)
        part = f" {number} of {len(source.remotes)}" if len(source.remotes) > 1 else ""
        with show_progress(f"model{part}     ", "bytes", soon=0.0) as on_progress:
            on_progress(0, None)  # a server may take a minute to answer
            downloader = Downloader(remote, target, model_source.check_gguf, on_progress)
            try:
                await downloader.run()
            except asyncio.CancelledError:
                sys.stderr.write(f"\nThe download was interrupted. {downloader.next_step}\n")
                raise
            finally:
                for folder in _between(models, target.parent)[:0:-1]:
                    with contextlib.suppress(OSError):  # it holds what came
                        folder.rmdir()
        checked = checked and bool(downloader.sha256)
    return source.remotes[0][1], "downloaded" if checked else "downloaded (the server names no checksum)"


def _between(top: Path, folder: Path) -> list[Path]:
    """Return `top` and the folders from it down to `folder`."""
    return [each for each in reversed((folder, *folder.parents)) if each == top or top in each.parents]


def _print_suggestions() -> None:
    from ikigai.providers.local import suggestions

    memory = suggestions.memory_megabytes()
    rows = [("model", "size", "license", "")]
    for each in suggestions.read_suggestions():
        fit = "" if suggestions.fits(each, memory) else "needs more memory"
        rows.append((each.model, format_size(each.megabytes * 1_000_000), each.license, fit))
    print_lines(f"Models to begin with (this machine has {memory / 1000:.1f} GB of memory):")
    print_lines(format_table(rows))
    print_lines("Install one, or any other GGUF file: ikigai setup --model hf:OWNER/REPO/FILE.gguf")
