"""Name the places of ikigai's files, and make them private: the XDG folders of this user, and the shipped data files.

The umask stays the user's, because everything inherits it that tools and started programs create. So each file and
folder of ikigai's own gets its mode where it is made: files by `open_private`, folders by `make_folder`.
"""

from __future__ import annotations

import errno
import os
import re
import time
from pathlib import Path
from typing import BinaryIO, Literal


def _xdg(variable: str, default: str) -> Path:
    base = os.environ.get(variable, "")
    # The XDG specification: a relative path is invalid and to be ignored.
    root = Path(base) if base.startswith("/") else Path.home() / default
    return root / "ikigai"


def config_dir() -> Path:
    """Return the folder of the configuration: `~/.config/ikigai` unless XDG_CONFIG_HOME says otherwise."""
    return _xdg("XDG_CONFIG_HOME", ".config")


def keys_file() -> Path:
    """Return the file of `ikigai login`."""
    return config_dir() / "keys.json"


def data_dir() -> Path:
    """Return the folder of database and model weights: `~/.local/share/ikigai` unless XDG_DATA_HOME says otherwise."""
    return _xdg("XDG_DATA_HOME", ".local/share")


def plugins_file() -> Path:
    """Return the list of the plugins that the user has added."""
    return data_dir() / "plugins.json"


def state_dir() -> Path:
    """Return the folder of log files: `~/.local/state/ikigai` unless XDG_STATE_HOME says otherwise."""
    return _xdg("XDG_STATE_HOME", ".local/state")


def unsaved_file(agent: str) -> Path:
    """Return a new file for unsaved events of the agent with this id, and of no other agent."""
    now = time.time_ns()
    stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(now // 10**9))
    return state_dir() / f"unsaved-{agent}-{stamp}.{now % 10**9:09}-{os.getpid()}.jsonl"


def unsaved_files(agent: str) -> list[Path]:
    """Return the files of unsaved events that are there, the oldest first."""
    return _files_of_state(f"unsaved-{agent}-")


def early_unsaved_files() -> list[Path]:
    """Return the files of unsaved events that a program before 0.1 has written: without the id of an agent."""
    return [file for file in _files_of_state("unsaved-") if re.fullmatch(r"unsaved-\d{8}-\d{6}-\d+\.jsonl", file.name)]


def unsent_files(agent: str) -> list[Path]:
    """Return the files with drafts of the input that are there."""
    return _files_of_state(f"unsent-{agent}-")


def _files_of_state(start: str) -> list[Path]:
    try:
        return sorted(file for file in state_dir().iterdir() if file.name.startswith(start))
    except OSError:
        return []


def pasted_folder(agent: str = "") -> Path:
    """Return the folder of pictures from the clipboard; with `agent`, the folder of that ephemeral agent's pictures."""
    return data_dir() / "pasted" / agent


def own_folders() -> tuple[Path, ...]:
    """Return the folders that are ikigai's alone."""
    return config_dir(), data_dir(), state_dir()


def make_private(folder: Path) -> Path:
    """Make `folder` (and missing folders above it) readable by its owner alone, and return it."""
    make_folder(folder)
    if folder.stat().st_mode & 0o077:
        folder.chmod(0o700)
    return folder


def make_folder(folder: Path) -> None:
    """Make `folder` and each missing folder above it, readable by their owner alone; leave those that exist."""
    if not folder.is_dir():
        make_folder(folder.parent)
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
        except FileExistsError as error:  # which would say that the file to be written is there
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder)) from error


def expand_home(name: str) -> Path:
    """Return the path that a person wrote, with a home for `~`. That of Path raises for an unknown user."""
    return Path(os.path.expanduser(name))  # noqa: PTH111


def open_private(file: Path, mode: Literal["wb", "ab"]) -> BinaryIO:
    """Open `file` for writing; a new one is readable by its owner alone."""
    return open(file, mode, opener=lambda name, flags: os.open(name, flags, 0o600))


def shipped_path(name: str) -> Path:
    """Return a file or folder that comes with ikigai: inside the wheel, or at the top of a checkout."""
    package = Path(__file__).parents[1]
    packaged = package / "_data" / name
    return packaged if packaged.exists() else package.parent / name


def current_directory() -> str:
    """Return the working directory; "" when it is gone."""
    try:
        return os.getcwd()  # noqa: PTH109 - a path made of it takes six times as long, and every turn begins with this
    except OSError:
        return ""
