"""What the tools that only read files have in common: where a call leads is told before, and is the same later."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from ikigai.tools.base import Kind, Touch
from ikigai.tools.files.read_tracker import Seen, Shown
from ikigai.tools.files.safe_paths import inside, resolved, same, shown
from ikigai.tools.secret_files import secret


class Looking:
    """For the tool `name` of one agent in one working directory."""

    def __init__(self, name: str, directory: Path, seen: Seen) -> None:
        self._name, self._seen = name, seen
        self.directory = directory

    def touch(self, arguments: msgspec.Struct, path: str, told: str = "") -> Touch:
        """What the call would read; `told` stands before the path that is shown."""
        real = resolved(path, self.directory)
        self._seen.show(self._name, arguments, Shown(str(real), None))
        return Touch(
            Kind.READ,
            told + shown(real, self.directory),
            directory=str(self.directory),
            paths=(str(real),),
            inside=inside(real, self.directory),
        )

    def path(self, arguments: msgspec.Struct, path: str) -> Path:
        """Where the path leads now. OSError, in words, when it led elsewhere as the call was shown."""
        real = resolved(path, self.directory)
        asked = self._seen.shown(self._name, arguments)
        same(real, asked.path if asked else "", path)
        return real

    def secrets_from(self, searched: Path) -> str:
        """Return the folder from which files below `searched` are judged to look like keys.

        It is the working directory, so that .git/config looks so when .git is searched. A folder that looks so itself
        was asked about: of the files in it those are left out that would be in any folder.
        """
        root = os.path.realpath(self.directory)
        return str(searched) if secret(root, str(searched)) else root
