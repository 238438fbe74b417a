"""Local models to begin with (suggestions.json): the size of each file as its page states it."""

import os
from pathlib import Path

import msgspec

from ikigai.core.events.record import Record

SUGGESTIONS_FILE = Path(__file__).with_name("suggestions.json")
MEMORY_SHARE = 0.75
"""The part of the machine's memory that a suggested file fills at most: the context and other programs need some."""


class ModelSuggestion(Record, frozen=True):
    """A model: its place as `setup --model` takes it, its size in megabytes (10^6), and the page that states it."""

    model: str
    megabytes: int
    license: str
    source: str


def read_suggestions() -> list[ModelSuggestion]:
    """Return all suggestions, small ones first."""
    return msgspec.json.decode(SUGGESTIONS_FILE.read_bytes(), type=list[ModelSuggestion])


def memory_megabytes() -> int:
    """Return the memory of this machine."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 1_000_000


def fits(suggestion: ModelSuggestion, memory: int) -> bool:
    """Return True if a machine with so many megabytes of memory has room for the model."""
    return suggestion.megabytes <= memory * MEMORY_SHARE
