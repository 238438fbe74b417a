"""Keep the last answers of providers' list endpoints in a file, so that a start asks no provider.

The file is a cache: a missing or broken one, or one of another version, counts as empty, and a failed write is ignored.
Two processes that save at once may lose the listing of one of them; it is requested again.
"""

from collections.abc import Iterable
from pathlib import Path

import msgspec

from ikigai.core.events.record import Record
from ikigai.providers.models.models import ListedModel
from ikigai.system import paths
from ikigai.system.file_replacement import write_file

CACHE_VERSION = 1


class ModelListing(Record, frozen=True):
    """The models of one provider; `at` is the time of the request, in seconds since 1970."""

    at: float
    models: tuple[ListedModel, ...]


class _File(Record, frozen=True):
    version: int
    providers: dict[str, ModelListing]


def load(path: Path) -> dict[str, ModelListing]:
    """Return the listings by provider."""
    try:
        file = msgspec.json.decode(path.read_bytes(), type=_File)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}
    return file.providers if file.version == CACHE_VERSION else {}


def save(path: Path, provider: str, listed: Iterable[ListedModel], at: float) -> bool:
    """Store the listing of `provider` as of `at` seconds since 1970; return True on success. Only its owner can read
    it.
    """
    listings = {**load(path), provider: ModelListing(at, tuple(listed))}
    try:
        data = msgspec.json.encode(_File(CACHE_VERSION, listings))
        paths.make_folder(path.parent)
        write_file(path, data)
    except (UnicodeEncodeError, OSError):  # a name with a lone surrogate
        return False
    return True
