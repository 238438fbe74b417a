"""Store the standing approvals: the calls that the user has approved until they are revoked.

The file is a JSON object from fingerprint to approval, in the data folder of the user. Fingerprint and scripts decide;
the other fields are for the list.
"""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from ikigai.core.errors import Rejected
from ikigai.core.text.sanitize import storable
from ikigai.system import private_json

APPROVED_FILE = "approved.json"
"""Name of the file, in the data folder."""
MAX_STANDING_APPROVALS = 1_000
MAX_SHOWN_CHARACTERS = 500
"""Characters of the shown command that are stored; the log has the whole."""
_DAMAGED = ("your standing approvals", "Delete it; ikigai then asks again.")


class StandingApproval(msgspec.Struct, frozen=True):
    """Standing approval: the tool, its command, path or address, its directory, and its time (seconds since 1970).

    `scripts` are those that the command runs, by path with their digests; it holds while they are unchanged. `rule` is
    what was approved instead of one call, for commands in the directory (see `star_rules`).
    """

    tool: str
    shown: str
    directory: str
    at: float
    scripts: dict[str, str] = {}
    rule: str = ""


def list_approvals(file: Path) -> dict[str, StandingApproval]:
    """Return the standing approvals by fingerprint, oldest first. Raise ConfigError if the file cannot be read."""
    approvals = private_json.read(file, StandingApproval, *_DAMAGED)
    return dict(sorted(approvals.items(), key=lambda each: each[1].at))


def approve(file: Path, fingerprint: str, approval: StandingApproval) -> None:
    """Approve a call for always. Raise IkigaiError, or Rejected if there are too many."""
    if not re.fullmatch("[0-9a-f]{64}", fingerprint):
        raise ValueError(f"no fingerprint: {fingerprint!r}")
    text = approval.shown
    shown = storable(text if len(text) <= MAX_SHOWN_CHARACTERS else f"{text[: MAX_SHOWN_CHARACTERS - 1]}…")
    tool, folder = storable(approval.tool), storable(approval.directory)
    stored = StandingApproval(tool, shown, folder, approval.at, approval.scripts, approval.rule)
    with private_json.open_for_change(file, StandingApproval, *_DAMAGED) as approvals:
        if len(approvals) >= MAX_STANDING_APPROVALS and fingerprint not in approvals:
            raise Rejected(
                f"{MAX_STANDING_APPROVALS:,} standing approvals are stored, which is the limit.",
                "Revoke some of them first: /approve revoke N.",
            )
        approvals[fingerprint] = stored


def revoke(file: Path, fingerprint: str) -> bool:
    """Revoke the approval of a call; return False if there was none. Raise IkigaiError."""
    with private_json.open_for_change(file, StandingApproval, *_DAMAGED) as approvals:
        return approvals.pop(fingerprint, None) is not None
