"""Carry out /config: show settings, write one to the user's file, and apply those that can change now."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import TYPE_CHECKING

from ikigai.config import Config, settings_file, with_setting
from ikigai.config.key_table import KeyPath, all_paths, dotted_path
from ikigai.core.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ikigai.repl.session import Session

COMMANDS_OF_KEYS: dict[KeyPath, str] = {
    ("model",): "/model",
    ("system_prompt",): "/system",
    ("profile",): "/profile",
    ("context", "sliding_context_tokens"): "/budget",
    ("tools", "approval"): "/approve",
    ("terminal", "theme"): "/theme",
}
"""The commands that change what these keys set at once, for this run or the agent on screen."""


BUDGET: KeyPath = ("context", "sliding_context_tokens")
SKILLS_OFF: KeyPath = ("context", "skills_off")
SKILLS_KEYS: tuple[KeyPath, ...] = (SKILLS_OFF, ("context", "skills_tokens"))


async def run_config(session: Session, argument: str, profile: str | None) -> str:
    """Return the answer to /config [KEY [VALUE]]; KEY alone may be a table. Raise ConfigError for a wrong one."""
    name, value = _split(argument)
    if not name:
        return settings_file.list_settings(session.config, profile)
    if not value and (table := settings_file.list_table(session.config, name.strip("[]"), profile)):
        return table
    path = settings_file.find_key(session.config, name)
    if not value:
        text = settings_file.describe_key(session.config, path, profile).text
        pending = settings_file.pending_value(session.config, path)
        return text + (f"\nIn {session.config.file}: {pending}" if pending else "")
    if path == BUDGET and session.services and session.memory:
        from ikigai.app.run.setting_changes import check_change

        budget = None if value == settings_file.UNSET_WORD else settings_file.parse_value(path, value)
        check_change(session.services, session.memory, {"budget": budget})
    written = await asyncio.to_thread(settings_file.set_value, Path(session.config.file), path, value)
    return f"{settings_file.describe_written(written, path, session.config.file)} {_apply(session, path, written)}"


def _split(argument: str) -> tuple[str, str]:
    """Return key and value as typed. A part of the key in quotes may hold spaces."""
    found = re.match(r'(?P<key>(?:"[^"]*"|[^\s"])*)\s*(?P<value>.*)', argument, re.DOTALL)
    assert found
    return found["key"], found["value"].strip()


def _apply(session: Session, path: KeyPath, written: Config) -> str:
    """Put a written setting in force if that is possible now; return a sentence about it."""
    config = session.config
    if config.kind(path) in ("environment", "flag", "project"):
        return f"In this run {config.origin(path)} overrides it."
    now = with_setting(config, path, written.settings.get(path))
    if path[0] == "keys":
        session.screen.bind_keys(now.key_changes)
    elif path == ("terminal", "status"):
        session.screen.show_status_parts(now.terminal.status)
    elif path in SKILLS_KEYS and session.services:
        session.services.use_config(now)
    else:
        command = COMMANDS_OF_KEYS.get(path)
        return "It takes effect at the next start." + (f" {command} changes it now." if command else "")
    session.config = now
    return "It is in effect now."


def complete_config(config: Config, typed: str) -> Mapping[str, str]:
    """Return completions of /config: the keys with their values, then the allowed values of one."""
    name, space, _ = typed.partition(" ")
    if not space:
        paths = all_paths(config.providers, config.models)
        return {dotted_path(path): settings_file.describe_key(config, path, "").line for path in paths}
    try:
        path = settings_file.find_key(config, name)
    except ConfigError:
        return {}
    return {f"{name} {value}": "" for value in settings_file.allowed_values(path)}
