"""What the user approved for always: exactly these calls, until they are revoked.

    approved   all of them
    approve    one more
    revoke     one less

The file is a JSON object, fingerprint → what was approved, in the user's data folder. The fingerprint decides, and the
scripts; the words beside them are for the list.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from ikigai.core.errors import Refused
from ikigai.core.sanitize import storable
from ikigai.system import private_json

FILE = "approved.json"
"""Its name, in the data folder."""
MOST = 1_000
LONGEST = 500
"""Characters kept of what was shown; the whole of it stands in the log."""
_DAMAGED = ("what you approved for always", "Delete it: ikigai then asks again.")


class Approved(msgspec.Struct, frozen=True):
    """One standing approval: the tool, its command, path or address, where, and when (seconds since 1970).

    `scripts` are those that the command runs, path → digest; it holds as long as they are the same.
    """

    tool: str
    shown: str
    directory: str
    at: float
    scripts: dict[str, str] = {}


def approved(file: Path) -> dict[str, Approved]:
    """Every standing approval by its fingerprint, oldest first. Raises ConfigError when the file cannot be read."""
    kept = private_json.read(file, Approved, *_DAMAGED)
    return dict(sorted(kept.items(), key=lambda each: each[1].at))


def approve(file: Path, fingerprint: str, given: Approved) -> None:
    """Approve a call for always. Raises IkigaiError, and Refused when there are too many."""
    if not re.fullmatch("[0-9a-f]{64}", fingerprint):
        raise ValueError(f"no fingerprint: {fingerprint!r}")
    shown = given.shown if len(given.shown) <= LONGEST else f"{given.shown[: LONGEST - 1]}…"
    kept_as = Approved(storable(given.tool), storable(shown), storable(given.directory), given.at, given.scripts)
    with private_json.changing(file, Approved, *_DAMAGED) as kept:
        if len(kept) >= MOST and fingerprint not in kept:
            raise Refused(f"{MOST:,} calls are approved for always, and no more can be.", "Revoke some of them first.")
        kept[fingerprint] = kept_as


def revoke(file: Path, fingerprint: str) -> bool:
    """Ask about a call again; False when it was not approved. Raises IkigaiError."""
    with private_json.changing(file, Approved, *_DAMAGED) as kept:
        return kept.pop(fingerprint, None) is not None
