"""Base of the tools that only read files: a call reads the path that was shown for approval."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from ikigai.core.text.lookalikes import visible_name
from ikigai.tools.base import Effect, EffectKind
from ikigai.tools.files.read_tracker import ReadTracker, ShownCall
from ikigai.tools.files.safe_paths import check_same, is_inside, relative_name, resolve_path
from ikigai.tools.secret_files import is_secret


class ReadOnlyTool:
    """Paths of the calls of the tool `name`, for one agent in one working directory."""

    def __init__(self, name: str, directory: Path, tracker: ReadTracker) -> None:
        self._name, self._tracker = name, tracker
        self.directory = directory

    def read_effect(self, arguments: msgspec.Struct, path: str, prefix: str = "") -> Effect:
        """Return the effect of a call that reads `path`; `prefix` precedes the path that is shown."""
        real = resolve_path(path, self.directory)
        self._tracker.show(self._name, arguments, ShownCall(str(real), None))
        return Effect(
            EffectKind.READ,
            prefix + relative_name(real, self.directory),
            directory=str(self.directory),
            paths=(str(real),),
            inside=is_inside(real, self.directory),
        )

    def path(self, arguments: msgspec.Struct, path: str) -> Path:
        """Return the path resolved now. Raise OSError, in words, if it led elsewhere when the call was shown."""
        real = resolve_path(path, self.directory)
        shown = self._tracker.shown(self._name, arguments)
        check_same(real, shown.path if shown else "", path)
        return real

    def format_path(self, path: Path) -> str:
        """Return a found path as text on one line."""
        return visible_name(relative_name(path, self.directory))

    def secrets_from(self, searched: Path) -> str:
        """Return the folder from which files below `searched` are judged to look like keys.

        It is the working directory, so that .git/config looks so when .git is searched. A folder that looks so itself
        was approved by its name: in it only those files are skipped that would be in any folder.
        """
        root = os.path.realpath(self.directory)
        return str(searched) if is_secret(root, str(searched)) else root
