"""Which folders the user trusts: only from these are project settings, tools and AGENTS.md read.

    is_trusted   may anything of this folder be obeyed
    trust        from now on
    revoke       no more
    trusted      all of them

A folder is trusted by its real path and for itself alone: what lies in it (a vendored package, a clone in ~/src) may be
somebody else's, and is asked about when ikigai is started there. No trust goes up or down, or through a link.
The file is a JSON object, real path → when, in the user's data folder.
"""

from __future__ import annotations

from pathlib import Path

from ikigai.core.errors import Refused
from ikigai.system import private_json

FILE = "trusted.json"
"""Its name, in the data folder."""
MOST = 5_000
_DAMAGED = ("the folders you trust", "Delete it: ikigai then asks again for each.")


def is_trusted(file: Path, folder: Path) -> bool:
    """Whether `folder` itself was trusted. Raises ConfigError when the file cannot be read: then nothing is trusted."""
    path = _real(folder)
    return path is not None and path in private_json.read(file, float, *_DAMAGED)


def trust(file: Path, folder: Path, now: float) -> str:
    """Trust `folder` from `now` on (seconds since 1970); its real path. Raises IkigaiError, Refused for no folder."""
    path = _real(folder)
    if path is None or not Path(path).is_dir():
        raise Refused(f"{folder} is no folder that can be trusted.", "Start ikigai in a folder with a plain name.")
    with private_json.changing(file, float, *_DAMAGED) as kept:
        if len(kept) >= MOST and path not in kept:
            raise Refused(f"{MOST:,} folders are trusted, and no more can be.", "Revoke some of them first.")
        kept[path] = now
    return path


def revoke(file: Path, folder: Path) -> bool:
    """Trust `folder` no more; False when it was not trusted. It need not exist. Raises IkigaiError."""
    path = _real(folder)
    with private_json.changing(file, float, *_DAMAGED) as kept:
        return path is not None and kept.pop(path, None) is not None


def trusted(file: Path) -> dict[str, float]:
    """Every trusted folder by its real path, and since when. Raises ConfigError when the file cannot be read."""
    return dict(sorted(private_json.read(file, float, *_DAMAGED).items()))


def _real(folder: Path) -> str | None:
    """The real path; None where there is none, or none that a JSON file can hold."""
    try:
        path = str(folder.resolve())
        path.encode()
    except (OSError, RuntimeError, ValueError):  # a loop of links; a NUL; not UTF-8
        return None
    return path
