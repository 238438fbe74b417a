"""Approval policy: the mode decides which calls run, need a question, or are refused.

                     read-only   ask     edits    auto    yolo
    own log          runs        runs    runs     runs    runs
    own agents       runs        runs    runs     runs    runs
    read inside      runs        runs    runs     runs    runs
    read elsewhere   asks        asks    asks     asks    runs
    edit inside      refused     asks    runs     runs    runs
    edit elsewhere   refused     asks    asks     asks    runs
    command          refused     asks    asks     list    runs
    MCP tool         refused     asks    asks     asks    runs
    network          refused     asks    asks     asks    runs
    own network      refused     asks    asks     asks    asks

"list" is the allow-list: a plain command runs without a question if each of its programs follows a rule of `rules.toml`
or of the user's configuration, and all its files are inside (`allowlist`); all others need a question. "Elsewhere" is
outside the working directory, in ikigai's own folders, a file that looks like one with keys, and for edits also a file
that other programs run or obey (.git, shell start files, CI …). The user's configuration can approve tools of MCP
servers. A standing approval, for exactly this call and with the same scripts, answers the question, and so does a rule
that the command follows (see `star_rules`), unless it is to run in the background. No edit comes twice, so its approval
is for the file, or for all ordinary files inside. Calls about subagents run, as each call of a subagent is judged like
the agent's own calls.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TypeAlias

import msgspec

from ikigai.core.events.messages import ToolCall
from ikigai.core.events.record import Record
from ikigai.core.text.sanitize import clean_line
from ikigai.core.tools.approval_mode import ApprovalMode
from ikigai.tools.approval.allowlist import Allowlist
from ikigai.tools.approval.invisible_characters import describe_hidden, hidden_in_diff
from ikigai.tools.approval.path_policy import PathScope, is_below, protection_reason, reading_doubts
from ikigai.tools.base import Effect, EffectKind


class ApprovalLifetime(StrEnum):
    """Lifetime of a yes: this call, one run of the program, or until it is revoked."""

    ONCE = "once"
    SESSION = "session"
    ALWAYS = "always"


class Approval(Record, frozen=True):
    """Lasting approval of a call: its lifetime, and the `scripts` it holds for (see `Effect`)."""

    lasting: ApprovalLifetime
    scripts: tuple[tuple[str, str], ...] = ()


class Allow(Record, frozen=True):
    """The call runs; `why` is a clause for the `approval` event."""

    why: str


class AskUser(Record, frozen=True):
    """The user decides; `why` are sentences about its risks, the gravest first."""

    why: tuple[str, ...] = ()


class Deny(Record, frozen=True):
    """The call does not run; `why` is the message for the model."""

    why: str


Verdict: TypeAlias = Allow | AskUser | Deny

COMMAND_TOOLS = frozenset({"shell"})
"""Tools whose `shown` is a command for bash; other tools run programs or write to them."""
LIFETIME_REASONS = {
    ApprovalLifetime.SESSION: "approved for this session",
    ApprovalLifetime.ALWAYS: "approved for always",
}


def decide_approval(
    mode: ApprovalMode,
    call: ToolCall,
    effect: Effect,
    scope: PathScope,
    allowlist: Allowlist,
    standing: Mapping[str, Approval],
    rules: Sequence[str] = (),
) -> Verdict:
    """Return the verdict on a call. `standing` are the lasting approvals by fingerprint, `rules` the rules of its
    folder.

    Decide again right before the call runs: an earlier edit, or another program, may have changed what its paths mean.
    """
    if mode == ApprovalMode.YOLO and not effect.origin:
        return Allow("approval mode yolo")
    if mode == ApprovalMode.READ_ONLY and effect.kind not in (EffectKind.NOTHING, EffectKind.READ):
        return Deny(f"The approval mode is {mode}: {mode.meaning}.")
    if effect.approved_by:
        return Allow(effect.approved_by)
    if effect.kind is EffectKind.EDIT:
        return _judge_edit(mode, effect, scope, standing)
    key = origin_fingerprint(call, effect) if effect.origin else call_fingerprint(call, effect)
    approval = standing.get(key) or Approval(ApprovalLifetime.ONCE)
    why = LIFETIME_REASONS.get(approval.lasting)
    if why and approval.scripts == effect.scripts:
        return Allow(why)
    verdict = _by_mode(mode, call, effect, scope, allowlist)
    if isinstance(verdict, AskUser) and effect.rule and rules:
        if effect.rule in rules:
            return Allow(f"approved for always: {effect.rule}")
        if any(rule.startswith(effect.rule.partition(" (")[0] + " (") for rule in rules):
            return AskUser((_describe_change({}, dict(effect.scripts), effect.rule), *verdict.why))
    elif isinstance(verdict, AskUser) and rules and takes_rule(call, effect):
        from ikigai.tools.approval.star_rules import find_rule

        if rule := find_rule(rules, effect.shown, scope, effect.directory):
            return Allow(f"approved for always: {rule}")
    if why and isinstance(verdict, AskUser):
        return AskUser((_describe_change(dict(approval.scripts), dict(effect.scripts), effect.rule), *verdict.why))
    return verdict


def takes_rule(call: ToolCall, effect: Effect) -> bool:
    """Return True for a call that a rule can approve: a command for the shell that ends with the call."""
    return call.name in COMMAND_TOOLS and effect.kind is EffectKind.RUN and not effect.background


def _describe_change(approved: Mapping[str, str], now: Mapping[str, str], rule: str) -> str:
    """Return a sentence about what has changed since the call was approved: scripts, or the definition of a tool."""
    paths = sorted(path for path in {*approved, *now} if approved.get(path) != now.get(path))
    names = ", ".join(clean_line(path) for path in paths[:3]) + ", …" * (len(paths) > 3)
    if rule:
        return f"The definition of {names} has changed since it was approved."
    if not approved:
        return f"This was approved with another version of the script: {names}."
    return f"The script has changed since this was approved: {names}."


def _by_mode(mode: ApprovalMode, call: ToolCall, effect: Effect, scope: PathScope, allowlist: Allowlist) -> Verdict:
    match effect.kind:
        case EffectKind.NOTHING:
            return Allow("changes nothing")
        case EffectKind.READ:
            doubts = _find_doubts(effect, scope)
            if doubts:
                return AskUser((*_warnings(effect), *doubts))
            return Allow(
                "reads inside the working directory" if effect.inside else "reads files of a skill or a plugin"
            )
        case EffectKind.RUN if mode == ApprovalMode.AUTO and call.name in COMMAND_TOOLS:
            return _judge_command(effect, scope, allowlist)
        case _:
            return AskUser(_warnings(effect))


def _judge_edit(mode: ApprovalMode, effect: Effect, scope: PathScope, standing: Mapping[str, Approval]) -> Verdict:
    """Return the verdict on an edit. A yes for the session also holds for a file that asks each time, but for no hidden
    characters; all others hold for an ordinary file.
    """
    doubts = edit_doubts(effect, scope)
    of_file = standing.get(file_fingerprint(effect))
    if of_file and not (doubts if of_file.lasting is ApprovalLifetime.ALWAYS else _hidden_text(effect)):
        return Allow(LIFETIME_REASONS[of_file.lasting])
    if doubts:
        return AskUser(doubts)
    if mode in (ApprovalMode.EDITS, ApprovalMode.AUTO):
        return Allow(f"approval mode {mode}")
    in_folder = standing.get(folder_fingerprint(scope))
    return Allow(LIFETIME_REASONS[in_folder.lasting]) if in_folder else AskUser()


def edit_doubts(effect: Effect, scope: PathScope) -> tuple[str, ...]:
    """Return why an edit asks each time, in sentences; empty for one of an ordinary file in the working directory."""
    return (*_warnings(effect), *_find_doubts(effect, scope))


def deny_unasked(ask: AskUser) -> Deny:
    """Return the verdict if the user cannot be asked."""
    why = " ".join(ask.why)
    return Deny(f"This needs the user's approval, and the user cannot be asked here. {why}".strip())


def call_fingerprint(call: ToolCall, effect: Effect) -> str:
    """Return the identity of a call for lasting approvals, as 64 hexadecimal digits.

    It covers the tool, its arguments, the directory and the paths. Arguments count as values: blanks and the order of
    keys do not matter. It has the real paths, so that a link that leads elsewhere later makes another call. The content
    of the scripts of a command is apart, in `Approval`.
    """
    try:
        arguments = msgspec.json.decode(call.arguments or "{}")
    except (msgspec.DecodeError, UnicodeEncodeError):
        arguments = call.arguments
    return _fingerprint([1, call.name, arguments, call.malformed, effect.kind, effect.directory, effect.paths])


def origin_fingerprint(call: ToolCall, effect: Effect) -> str:
    """Return the identity of all calls of this tool for pages of this origin."""
    return _fingerprint([4, call.name, effect.kind, effect.origin])


def file_fingerprint(effect: Effect) -> str:
    """Return the identity of all edits of the files that this one changes, by their real paths."""
    return _fingerprint([2, effect.kind, effect.paths])


def folder_fingerprint(scope: PathScope) -> str:
    """Return the identity of all edits of ordinary files in the working directory."""
    return _fingerprint([3, EffectKind.EDIT, scope.root])


def _fingerprint(exact: list[object]) -> str:
    try:
        encoded = msgspec.json.encode(exact, order="deterministic")
    except UnicodeEncodeError:  # a path that is not UTF-8
        encoded = repr(exact).encode("utf-8", "surrogateescape")
    return hashlib.sha256(encoded).hexdigest()


def _judge_command(effect: Effect, scope: PathScope, allowlist: Allowlist) -> Verdict:
    judgement = allowlist.judge(effect.shown, scope, effect.directory)
    if judgement.approved:
        return Allow(judgement.why)
    return AskUser((*_warnings(effect), f"Not allowed by the allow-list: {judgement.why}."))


def _find_doubts(effect: Effect, scope: PathScope) -> tuple[str, ...]:
    """Return why a file is not read or changed without a question, in sentences; empty for an ordinary file."""
    doubts: list[str] = []
    if not effect.paths:
        doubts.append("It does not name its files.")
    elif not (effect.inside and all(is_below(scope.root, path) for path in effect.paths)):
        doubts += [] if _is_free(effect, scope) else ["It is outside the working directory."]
    for path in effect.paths:
        if effect.kind == EffectKind.EDIT and (why := protection_reason(scope, path)):
            doubts.append(f"Be careful: {why}.")
        elif effect.kind == EffectKind.READ:
            doubts += [f"It {why}." for why in reading_doubts(scope, path)]
    return tuple(dict.fromkeys((*doubts, *_hidden_text(effect))))


def _is_free(effect: Effect, scope: PathScope) -> bool:
    """Return True if the call only reads, in the working directory and folders that are readable as well."""
    within = (is_below(scope.root, path) or scope.is_readable(path) for path in effect.paths)
    return effect.kind is EffectKind.READ and all(within)


def _hidden_text(effect: Effect) -> tuple[str, ...]:
    """Return a sentence about hidden characters in the new text; () for none."""
    why = hidden_in_diff(effect.diff) if effect.diff else ""
    return (f"The new text has hidden characters. {why}",) if why else ()


def _warnings(effect: Effect) -> tuple[str, ...]:
    """Return a sentence about characters that an eye would miss in a command, an address or a path; () for none."""
    text = effect.shown if effect.kind != EffectKind.EDIT else ""
    warning = describe_hidden("\n".join((text, *effect.paths)))
    return (warning,) if warning else ()
