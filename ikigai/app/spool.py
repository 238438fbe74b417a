"""The last resort: what the database would not take is kept in a file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from ikigai.core.transfer.unsaved import text_of
from ikigai.system import paths

if TYPE_CHECKING:
    from ikigai.core.transfer.unsaved import Unsaved


class Spooled(NamedTuple):
    """The sentence about it, and whether the file has everything."""

    told: str
    whole: bool


def spool(unsaved: Unsaved) -> Spooled:
    """Keep what the database would not take in a file of the state folder."""
    path = paths.unsaved_file(unsaved.agent)
    one, count = len(unsaved.events) == 1, f"{len(unsaved.events):,}"
    lost = f"{count} event{'' if one else 's'} could not be saved"
    try:
        paths.private(path.parent)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
            file.write(text_of(unsaved))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        return Spooled(f"{lost}, nor kept in {path}: {error.strerror}.", False)
    they = "it is" if one else "they are"
    return Spooled(f"{lost}; {they} kept in {path} until {unsaved.name} is opened again.", True)
