"""Settings of a trusted project (.ikigai/config.toml): they tighten what the user's own say, and do nothing else.

Whoever can write to a repository can write this file, and trust in a folder is not trust in each of its commits. So
what could loosen anything has no place in it: no keys, addresses and databases, no allow-list, no hosts, no profiles.
Nor has what costs money or sends the conversation elsewhere (the model and its level), nor the system prompt: AGENTS.md
adds to that one, and cannot take the user's own words out of it.

A value that is looser than the user's own is no error, and changes nothing: a project does not know its users. What the
environment or a flag says for this run goes before it.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ikigai.config import diagnostics as mistakes
from ikigai.config import toml_file
from ikigai.config.key_table import KEYS, TABLES, Config, KeyPath, Setting, dotted, pattern
from ikigai.core.errors import ConfigError
from ikigai.core.state.project_limits import ALL, Bounds, smaller, stricter

OFF: KeyPath = ("tools", "off")
"""The sets of tools that a project switches off; a key of its own, for it has no other meaning elsewhere."""


SETS = ("agents", "external", "files", "memory", "shell", "web")
"""What can be off. A name that is none is an error, for whoever wrote it thinks that something is off by it."""


REDACTION = ("own", "patterns")
"""What `[tools] redact` may be in a project, the stricter behind."""


class Tightens(NamedTuple):
    """What a project may say for a key, in words too, and which of two values, the user's and its, is the stricter."""

    fits: Callable[[Any], bool]
    allowed: str
    stricter: Callable[[Any, Any], Any]


def _redaction(value: str) -> int:
    return REDACTION.index(value) if value in REDACTION else -1


def _only(value: bool | str) -> Tightens:
    said = f'"{value}"' if isinstance(value, str) else str(value).lower()
    return Tightens(lambda given: given == value and type(given) is type(value), said, lambda own, given: given)


ALLOWED: dict[KeyPath, Tightens] = {
    ("tools", "enabled"): _only(False),
    ("tools", "approval"): Tightens(
        lambda given: given in ("read-only", "ask", "edits"), '"read-only", "ask" or "edits"', stricter
    ),
    OFF: Tightens(
        lambda given: isinstance(given, list) and all(each in SETS for each in given),
        f"a list of sets of tools ({', '.join(SETS)})",
        lambda own, given: given,
    ),
    ("tools", "redact"): Tightens(
        lambda given: given in REDACTION, '"own" or "patterns"', lambda own, given: max(own, given, key=_redaction)
    ),
    ("tools", "sandbox"): _only("bwrap"),
    ("tools", "sandbox_network"): _only(False),
    ("context", "sliding_context_tokens"): Tightens(
        lambda given: _whole(given), "a whole number of tokens, 1 to 1000000000", smaller
    ),
}
"""Every key that a project may set."""


def tightened(config: Config, file: Path, content: bytes) -> tuple[Config, Bounds]:
    """The configuration as the `content` of a trusted project's file leaves it, and what that bounds for each agent.

    Raises ConfigError that names file, line and key for all but ALLOWED.
    """
    settings = dict(config.settings)
    values: dict[str, dict[str, Any]] = {}
    said: dict[KeyPath, Setting] = {}
    for path, value, line in toml_file.parse(file, content):
        if value == {} and path in TABLES:
            continue
        given = _checked(Setting(path, value, "project", f"{file}:{line}"))
        if config.kind(path) in ("environment", "flag"):
            continue
        said[path] = given
        if path == OFF:
            settings[path] = given
        elif (left := ALLOWED[path].stricter(own := _own(config, path), value)) != own:
            settings[path] = given
            values.setdefault(path[0], {})[path[1]] = left
    changed = {table: msgspec.structs.replace(getattr(config, table), **keys) for table, keys in values.items()}
    return msgspec.structs.replace(config, settings=settings, **changed), _bounds(said)


def _checked(given: Setting) -> Setting:
    if given.path not in ALLOWED:
        if pattern(given.path) not in KEYS:
            raise mistakes.unknown_key(given)
        raise ConfigError(
            f"{given.place}: {dotted(given.path)} cannot be set by a project.",
            f"Take it out; a project can only tighten: {', '.join(map(dotted, ALLOWED))}.",
        )
    if not ALLOWED[given.path].fits(given.value):
        shown = mistakes.shown(given.value)
        what = f"{given.place}: {dotted(given.path)} cannot be {shown} in a project."
        raise ConfigError(what, f"It can only tighten. Allowed there: {ALLOWED[given.path].allowed}.")
    return given


def _own(config: Config, path: KeyPath) -> Any:
    return getattr(getattr(config, path[0]), path[1])


def _bounds(said: dict[KeyPath, Setting]) -> Bounds:
    """What the settings of agents are bounded by, whatever they and their profiles choose."""
    approval, budget = said.get(("tools", "approval")), said.get(("context", "sliding_context_tokens"))
    off = said.get(("tools", "enabled")) or said.get(OFF)
    origins = {"approval": approval, "budget": budget, "tools_off": off}
    return Bounds(
        approval.value if approval else "",
        (ALL,) if off and off.path != OFF else tuple(off.value) if off else (),
        budget.value if budget else 0,
        {key: setting.origin for key, setting in origins.items() if setting},
    )


def _whole(given: object) -> bool:
    return isinstance(given, int) and not isinstance(given, bool) and 1 <= given <= 1_000_000_000
