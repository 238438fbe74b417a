"""Which calls run, which are asked about and which are refused, by the approval mode: policy alone, no questions here.

                     read-only   ask     edits    auto    yolo
    own log          runs        runs    runs     runs    runs
    own agents       runs        runs    runs     runs    runs
    read inside      runs        runs    runs     runs    runs
    read elsewhere   asks        asks    asks     asks    runs
    edit inside      refused     asks    runs     runs    runs
    edit elsewhere   refused     asks    asks     asks    runs
    command          refused     asks    asks     list    runs
    network          refused     asks    asks     asks    runs

"list" is the allow-list: what follows a rule runs, all else is asked about. "Elsewhere" is outside the working
directory, ikigai's own folders, what looks like a file with keys, and for edits also what other programs run or obey
(.git, shell start files, CI …).
A standing approval, for exactly this call and with the same scripts, answers what would be asked. Having agents runs,
as each of their calls is judged like the agent's own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from enum import StrEnum
from typing import TypeAlias

import msgspec

from ikigai.core.messages import ToolCall
from ikigai.core.record import Record
from ikigai.core.sanitize import clean_line
from ikigai.tools.approval.allowlist import Allowlist
from ikigai.tools.approval.invisible_characters import brought, hidden
from ikigai.tools.approval.path_policy import Place, inside, meets, protected
from ikigai.tools.base import Kind, Touch
from ikigai.tools.secret_files import secret


class Mode(StrEnum):
    """How much runs without a question, from least to most."""

    READ_ONLY = "read-only"
    ASK = "ask"
    EDITS = "edits"
    AUTO = "auto"
    YOLO = "yolo"


class Lasting(StrEnum):
    """How long a yes holds: for this call, for one run of the program, or until it is revoked."""

    ONCE = "once"
    SESSION = "session"
    ALWAYS = "always"


class Approval(Record, frozen=True):
    """A lasting approval of a call: how long it holds, and for which `scripts` (see `Touch`)."""

    lasting: Lasting
    scripts: tuple[tuple[str, str], ...] = ()


class Allow(Record, frozen=True):
    """It runs; `why` is a clause for the `approval` event."""

    why: str


class Ask(Record, frozen=True):
    """The user decides; `why` are sentences that tell what to look at, the gravest first."""

    why: tuple[str, ...] = ()


class Deny(Record, frozen=True):
    """It does not run; `why` is what the model is told."""

    why: str


Verdict: TypeAlias = Allow | Ask | Deny

COMMANDS = frozenset({"shell"})
"""The tools whose `shown` is a command for bash. What other tools run or write to a program is none."""
STANDING = {Lasting.SESSION: "approved for this session", Lasting.ALWAYS: "approved for always"}


def verdict(
    mode: Mode, call: ToolCall, touch: Touch, place: Place, allowlist: Allowlist, standing: Mapping[str, Approval]
) -> Verdict:
    """What becomes of a call. `standing` are the lasting approvals by `fingerprint`.

    Ask again right before the call runs: an edit before it, or another program, may have changed what its paths mean.
    """
    if mode == Mode.YOLO:
        return Allow("approval mode yolo")
    if mode == Mode.READ_ONLY and touch.kind not in (Kind.NOTHING, Kind.READ):
        return Deny("The approval mode is read-only: files can be read, nothing can be changed or run.")
    approval = standing.get(fingerprint(call, touch)) or Approval(Lasting.ONCE)
    why = STANDING.get(approval.lasting)
    if why and approval.scripts == touch.scripts:
        return Allow(why)
    found = _by_mode(mode, call, touch, place, allowlist)
    if why and isinstance(found, Ask):
        return Ask((_changed(dict(approval.scripts), dict(touch.scripts)), *found.why))
    return found


def _changed(approved: Mapping[str, str], now: Mapping[str, str]) -> str:
    """Say which scripts are others than when the call was approved."""
    paths = sorted(path for path in {*approved, *now} if approved.get(path) != now.get(path))
    names = ", ".join(clean_line(path) for path in paths[:3]) + ", …" * (len(paths) > 3)
    if not approved:
        return f"This was approved, but not with what is in the script now: {names}."
    return f"The script has changed since this was approved: {names}."


def _by_mode(mode: Mode, call: ToolCall, touch: Touch, place: Place, allowlist: Allowlist) -> Verdict:
    match touch.kind:
        case Kind.NOTHING:
            return Allow("changes nothing")
        case Kind.READ:
            doubts = _doubts(touch, place)
            return Ask((*_hidden(touch), *doubts)) if doubts else Allow("reads inside the working directory")
        case Kind.EDIT:
            doubts = (*_hidden(touch), *_doubts(touch, place))
            if mode in (Mode.EDITS, Mode.AUTO) and not doubts:
                return Allow(f"approval mode {mode}")
            return Ask(doubts)
        case Kind.RUN if mode == Mode.AUTO and call.name in COMMANDS:
            return _judged(touch, place, allowlist)
        case _:
            return Ask(_hidden(touch))


def unasked(ask: Ask) -> Deny:
    """The answer where nobody can be asked."""
    why = " ".join(ask.why)
    return Deny(f"This needs the user's approval, and nobody can be asked here. {why}".strip())


def following(mode: Mode) -> Mode:
    """The mode that Shift+Tab goes to: never yolo, out of which it leads back to asking."""
    ring = (Mode.ASK, Mode.EDITS, Mode.AUTO, Mode.READ_ONLY)
    return ring[(ring.index(mode) + 1) % len(ring)] if mode in ring else Mode.ASK


def fingerprint(call: ToolCall, touch: Touch) -> str:
    """What a lasting approval holds for, as 64 hexadecimal digits: the tool, its arguments, the directory, the paths.

    Arguments count as values: blanks and the order of keys do not matter. The real paths are in it so that a link that
    leads elsewhere later is another call. What is in the scripts of a command stands beside it, in `Approval`.
    """
    try:
        arguments = msgspec.json.decode(call.arguments or "{}")
    except (msgspec.DecodeError, UnicodeEncodeError):
        arguments = call.arguments
    exact = [1, call.name, arguments, call.malformed, touch.kind, touch.directory, touch.paths]
    try:
        told = msgspec.json.encode(exact, order="deterministic")
    except UnicodeEncodeError:  # a path that is not UTF-8
        told = repr(exact).encode("utf-8", "surrogateescape")
    return hashlib.sha256(told).hexdigest()


def _judged(touch: Touch, place: Place, allowlist: Allowlist) -> Verdict:
    judgement = allowlist.judge(touch.shown, place, touch.directory)
    if judgement.approved:
        return Allow(judgement.why)
    return Ask((*_hidden(touch), f"Not by the allow-list: {judgement.why}."))


def _doubts(touch: Touch, place: Place) -> tuple[str, ...]:
    """Why a file is not read or changed without a question, in sentences; empty when nothing speaks against it."""
    doubts: list[str] = []
    if not touch.paths:
        doubts.append("It does not say which files it touches.")
    elif not (touch.inside and all(inside(place.root, path) for path in touch.paths)):
        doubts.append("It is outside the working directory.")
    for path in touch.paths:
        if touch.kind == Kind.EDIT and (why := protected(place, path)):
            doubts.append(f"Be careful: {why}.")
        elif touch.kind == Kind.READ and meets(place.own, path):
            doubts.append("It belongs to ikigai itself, or holds what does.")
        elif touch.kind == Kind.READ and secret(place.root, path):
            doubts.append("Its name looks like that of a file with keys or passwords.")
    if touch.diff and (why := brought(touch.diff)):
        doubts.append(f"The new text hides something. {why}")
    return tuple(dict.fromkeys(doubts))


def _hidden(touch: Touch) -> tuple[str, ...]:
    """What the eye would miss in a command, an address or a path."""
    text = touch.shown if touch.kind != Kind.EDIT else ""
    said = hidden("\n".join((text, *touch.paths)))
    return (said,) if said else ()
