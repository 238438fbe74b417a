"""Apply the settings of a trusted project (.ikigai/config.toml): they only tighten the user's own.

Everybody who can write to a repository can write this file, and trust in a folder is not trust in each of its commits.
So nothing that could loosen a setting has a place in it: no keys, addresses and databases, no allow-list, no hosts, no
profiles. It has no key that costs money or sends the conversation elsewhere (the model and its level). It has no system
prompt either: AGENTS.md adds to that one, and cannot take the user's own words out of it.

A value that is looser than the user's own is no error, and changes nothing: a project does not know its users. A value
of the environment or of a flag goes before it.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, get_args

import msgspec

from ikigai.config import diagnostics, toml_file
from ikigai.config.key_table import (
    KEY_SPECS,
    RECORD_OF_TABLE,
    TOOLS_OFF_KEY,
    Config,
    KeyPath,
    Setting,
    dotted_path,
    path_pattern,
)
from ikigai.config.value_types import ToolSet, alternatives
from ikigai.core.errors import ConfigError
from ikigai.core.state.project_limits import ProjectLimits, smaller_budget
from ikigai.core.tools.approval_mode import ApprovalMode
from ikigai.core.tools.tool_selection import NO_TOOLS, ToolSelection

CAP_SCOPES = ("turn", "run", "day", "agent")
"""The scopes of spending caps, as `core.request.spending` has them; it is not loaded without a cap."""
TOOL_SETS = get_args(ToolSet)
"""The tool sets that can be off. An unknown name is an error, for its author thinks that something is off by it."""


MODES = ApprovalMode.EDITS.up_to()
"""The values of `[tools] approval` in a project."""
REDACTION_LEVELS = ("own", "patterns")
"""The values of `[tools] redact` in a project, the stricter behind."""


class Tightening(NamedTuple):
    """The allowed values of a project for a key, in words too, and a function that returns the stricter of the user's
    and its value.
    """

    fits: Callable[[Any], bool]
    allowed: str
    stricter: Callable[[Any, Any], Any]


def _redaction(value: str) -> int:
    return REDACTION_LEVELS.index(value) if value in REDACTION_LEVELS else -1


def smaller_cap(own: float, new: float) -> float:
    """Return the smaller one of two caps; 0 is no cap."""
    return min(own or new, new or own)


def _only(value: bool | str) -> Tightening:
    text = f'"{value}"' if isinstance(value, str) else str(value).lower()
    return Tightening(lambda new: new == value and type(new) is type(value), text, lambda own, new: new)


ALLOWED_KEYS: dict[KeyPath, Tightening] = {
    ("tools", "enabled"): _only(False),
    ("tools", "approval"): Tightening(
        lambda new: new in MODES, alternatives(MODES), lambda own, new: own.stricter(ApprovalMode(new))
    ),
    TOOLS_OFF_KEY: Tightening(
        lambda new: isinstance(new, list) and all(each in TOOL_SETS for each in new),
        f"a list of sets of tools ({', '.join(TOOL_SETS)})",
        lambda own, new: new,
    ),
    ("tools", "redact"): Tightening(
        lambda new: new in REDACTION_LEVELS, '"own" or "patterns"', lambda own, new: max(own, new, key=_redaction)
    ),
    ("tools", "sandbox"): _only("bwrap"),
    ("tools", "sandbox_network"): _only(False),
    ("context", "sliding_context_tokens"): Tightening(
        lambda new: _whole(new), "a whole number of tokens, 1 to 1000000000", smaller_budget
    ),
    **{
        ("limits", f"{scope}_usd"): Tightening(
            lambda new: _dollars(new), "US dollars, more than 0 and up to 1000000", smaller_cap
        )
        for scope in CAP_SCOPES
    },
    **{
        ("limits", f"{scope}_tokens"): Tightening(
            lambda new: _whole(new), "a whole number of tokens, 1 to 1000000000", smaller_cap
        )
        for scope in CAP_SCOPES
    },
}
"""Every key that a project may set."""


def tighten_with(config: Config, file: Path, content: bytes) -> tuple[Config, ProjectLimits]:
    """Return the configuration tightened by the `content` of a trusted project's file, and the limits for each agent.

    Raise ConfigError that names file, line and key for all but ALLOWED_KEYS.
    """
    settings = dict(config.settings)
    values: dict[str, dict[str, Any]] = {}
    project: dict[KeyPath, Setting] = {}
    for path, value, line, table_line in toml_file.parse(file, content):
        if value == {} and path in RECORD_OF_TABLE:
            continue
        setting = _checked(Setting(path, value, "project", f"{file}:{line}", f"{file}:{table_line}").with_size())
        if config.kind(path) in ("environment", "flag"):
            continue
        project[path] = setting
        if path == TOOLS_OFF_KEY:
            settings[path] = setting
        elif (left := ALLOWED_KEYS[path].stricter(own := _own(config, path), setting.value)) != own:
            settings[path] = setting
            values.setdefault(path[0], {})[path[1]] = left
    changed = {table: msgspec.structs.replace(getattr(config, table), **keys) for table, keys in values.items()}
    return msgspec.structs.replace(config, settings=settings, **changed), _bounds(project)


def _checked(setting: Setting) -> Setting:
    if setting.path not in ALLOWED_KEYS:
        if path_pattern(setting.path) not in KEY_SPECS:
            raise diagnostics.unknown_key(setting, ALLOWED_KEYS)
        raise ConfigError(
            f"{setting.place}: {dotted_path(setting.path)} cannot be set by a project.",
            f"Remove it; a project can only tighten: {', '.join(map(dotted_path, ALLOWED_KEYS))}.",
        )
    if not ALLOWED_KEYS[setting.path].fits(setting.value):
        shown = diagnostics.format_value(setting.value)
        message = f"{setting.place}: {dotted_path(setting.path)} cannot be {shown} in a project."
        raise ConfigError(message, f"It can only tighten. Allowed there: {ALLOWED_KEYS[setting.path].allowed}.")
    return setting


def _own(config: Config, path: KeyPath) -> Any:
    return getattr(getattr(config, path[0]), path[1])


def _bounds(project: dict[KeyPath, Setting]) -> ProjectLimits:
    """Return the limits on the settings of agents, whatever they and their profiles choose."""
    approval, budget = project.get(("tools", "approval")), project.get(("context", "sliding_context_tokens"))
    off = project.get(("tools", "enabled")) or project.get(TOOLS_OFF_KEY)
    origins = {"approval": approval, "budget": budget, "tools_off": off}
    return ProjectLimits(
        ApprovalMode(approval.value) if approval else ApprovalMode.YOLO,
        NO_TOOLS if off and off.path != TOOLS_OFF_KEY else ToolSelection(tuple(off.value)) if off else ToolSelection(),
        budget.value if budget else 0,
        {key: setting.origin for key, setting in origins.items() if setting},
        {path[1]: setting.value for path, setting in project.items() if path[0] == "limits"},
    )


def _dollars(new: object) -> bool:
    return isinstance(new, int | float) and not isinstance(new, bool) and 0 < new <= 1_000_000


def _whole(new: object) -> bool:
    return isinstance(new, int) and not isinstance(new, bool) and 1 <= new <= 1_000_000_000
