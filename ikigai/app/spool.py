"""The last resort: what the database would not take is kept in a file."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from ikigai.core import codec
from ikigai.core.events import Event
from ikigai.system import paths

if TYPE_CHECKING:
    pass


def spool(agent: str, facts: Sequence[Event]) -> str:
    """Keep what the database would not take in a file of the state folder; returns the sentence that says so."""
    path = paths.state_dir() / f"unsaved-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.jsonl"
    rows = (codec.encode(fact)._asdict() for fact in facts)
    lost = "1 event could not be saved" if len(facts) == 1 else f"{len(facts)} events could not be saved"
    try:
        paths.private(path.parent)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "wb") as file:
            file.writelines(msgspec.json.encode({"agent": agent, **row}) + b"\n" for row in rows)
    except OSError as error:
        return f"{lost}, nor kept in {path}: {error.strerror}."
    return f"{lost}; {'it is' if len(facts) == 1 else 'they are'} kept in {path}."
