"""Resolve profiles, [profiles.NAME] in a file: their own and inherited keys, and the settings under one.

A profile goes over the configuration, and below flags, variables and an agent's own choices.
"""

from ikigai.config.diagnostics import bad_value
from ikigai.config.key_table import KEY_SPECS, PROFILE_KEYS, Config, KeyPath, Setting, path_pattern
from ikigai.core.errors import ConfigError, closest_names
from ikigai.core.tools.approval_mode import ApprovalMode

NO_PROFILE = "default"
"""The word for no profile, which no profile can be called."""
INHERITED = -1
"""The number that leaves a key to the inherited profile, as if it were not there."""


def is_left(setting: Setting) -> bool:
    """Return True if a profile's key only says that it is inherited."""
    number = setting.path[0] == "profiles" and type(KEY_SPECS[path_pattern(setting.path)].default) in (int, float)
    return number and type(setting.value) is int and setting.value == INHERITED


def check(config: Config) -> None:
    """Raise ConfigError for a profile that is named and not there, one that inherits itself, and one without limits."""
    named = [setting for path, setting in config.settings.items() if path == ("profile",) or path[2:] == ("inherits",)]
    for setting in named:
        if setting.value not in ("", NO_PROFILE if setting.path == ("profile",) else "", *config.profiles):
            raise _missing(setting, config)
    for name in config.profiles:
        line = _line(config, name)
        if line[-1] in line[:-1]:
            setting = config.settings["profiles", line[-2], "inherits"]
            how = " → ".join(line[line.index(line[-1]) :])
            raise ConfigError(f"{_place(setting)} makes a circle: {how}.", "Remove one of these inherits.")
        approval = config.settings.get(("profiles", name, "approval"))
        if approval and approval.value == ApprovalMode.YOLO:
            raise bad_value(approval)


def profile_settings(config: Config, name: str) -> dict[str, Setting]:
    """Return the settings of the profile, by its keys in [profiles.NAME]; of the inherited ones, the nearest goes
    first.
    """
    found: dict[str, Setting] = {}
    for each in reversed(_line(config, name)):
        own = {key: config.settings["profiles", each, key] for key in config.profiles.get(each, ())}
        if "model" in own:
            found.pop("level", None)  # it belonged to another model
        found |= {key: setting for key, setting in own.items() if key != "inherits" and not is_left(setting)}
    return found


def settings_with_profile(config: Config, name: str) -> dict[KeyPath, Setting]:
    """Return all settings of the run under this profile; settings from flags and variables stay."""
    settings = dict(config.settings)
    for key, setting in profile_settings(config, name).items():
        if key in PROFILE_KEYS and config.kind(path := PROFILE_KEYS[key]) not in ("environment", "flag"):
            settings[path] = Setting(path, setting.value, "profile", name)
    return settings


def _line(config: Config, name: str) -> list[str]:
    """Return the profile, the one it inherits, and so on; where that comes back to one of them, this one is the
    last.
    """
    found = [name]
    while (base := config.profiles.get(found[-1], {}).get("inherits")) and found[-1] not in found[:-1]:
        found.append(base)
    return found


def _missing(setting: Setting, config: Config) -> ConfigError:
    others = [name for name in config.profiles if setting.path[:2] != ("profiles", name)]
    near = closest_names(setting.value, others) or others[:5]
    meant = " or ".join(f'"{each}"' for each in near)
    how = f"Did you mean {meant}?" if near else f"Write a table [profiles.{setting.value}] in the configuration."
    return ConfigError(f"{_place(setting)}: there is no profile {setting.value!r}.", how)


def _place(setting: Setting) -> str:
    return f"{setting.place}: {'.'.join(setting.path)}" if setting.kind == "configuration" else setting.place
