"""Name the setting that would allow a call where the user cannot be asked."""

from __future__ import annotations

import shlex

import msgspec

from ikigai.core.errors import ConfigError
from ikigai.core.events.messages import ToolCall
from ikigai.core.tools.approval_mode import ApprovalMode
from ikigai.tools.approval import allow_rules, shell_parser
from ikigai.tools.approval.allowlist import Allowlist
from ikigai.tools.approval.invisible_characters import describe_hidden
from ikigai.tools.approval.path_policy import PathScope
from ikigai.tools.approval.policy import edit_doubts, takes_rule
from ikigai.tools.base import Effect, EffectKind

MAX_RULES = 3
"""Rules that are named for one command; for more the sentence would be no help."""


def describe_remedy(mode: ApprovalMode, call: ToolCall, effect: Effect, scope: PathScope, allowlist: Allowlist) -> str:
    """Return a sentence about what would allow the call: a setting if there is one, and --yolo."""
    setting = effect.setting
    if effect.kind is EffectKind.EDIT and not edit_doubts(effect, scope):
        setting = '[tools] approval = "edits"'
    elif takes_rule(call, effect):
        setting = _name_rules(mode, effect, scope, allowlist)
    if effect.origin:  # that also asks in the mode yolo
        return f"Allow it: {setting}, and --yolo."
    return f"Allow it: {setting}; --yolo allows everything." if setting else "--yolo allows everything."


def _name_rules(mode: ApprovalMode, effect: Effect, scope: PathScope, allowlist: Allowlist) -> str:
    """Return the settings with which the allow-list lets the command run; "" if no rule can."""
    command, folder = effect.shown, effect.directory
    auto = [] if mode is ApprovalMode.AUTO else ['approval = "auto"']
    if allowlist.judge(command, scope, folder).approved:
        return f"[tools] {', '.join(auto)}"
    try:
        commands = shell_parser.parse_commands(command)
        words = dict.fromkeys(shlex.join(word.text for word in each.words) for each in commands)
        rules = [rule for rule in words if not allowlist.judge(rule, scope, folder).approved]
        allowed = allowlist.extended(allow_rules.parse_rules(rules, ""))
    except (shell_parser.NotPlain, ImportError, ConfigError):
        return ""
    if len(rules) > MAX_RULES or describe_hidden(command) or not allowed.judge(command, scope, folder).approved:
        return ""
    listed = ", ".join(msgspec.json.encode(rule).decode() for rule in rules)
    return f"[tools] {', '.join((*auto, f'allow = [{listed}]'))}"
