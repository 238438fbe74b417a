"""Give agents their settings: above and below their own choices, and from a profile."""

from ikigai.config import with_profile, with_settings
from ikigai.config.key_table import PROFILE_KEYS, Config, KeyPath, Setting
from ikigai.config.profiles import NO_PROFILE, profile_settings
from ikigai.core.commands.arguments import parse_model
from ikigai.core.errors import ConfigError
from ikigai.core.events.events import Choices
from ikigai.core.events.record import Record
from ikigai.core.tools.approval_mode import ApprovalMode
from ikigai.core.tools.tool_selection import NO_TOOLS, ToolSelection
from ikigai.core.tools.vendor_search import VENDOR_SEARCH

APPROVAL: KeyPath = ("tools", "approval")
VENDOR_SEARCH_KEY: KeyPath = ("tools", "vendor_search")


class ConfigLayers(Record, frozen=True):
    """Settings in the form of memory's RunConfig, and their origins: model ("" is none), level, budget in tokens,
    system.
    """

    below: Choices
    above: Choices
    origins: dict[str, str]


def split_layers(config: Config) -> ConfigLayers:
    """Return the layers: flags and environment go above an agent's own choices, the file and the defaults below
    them.
    """
    model = parse_model(config.model) if config.model else {}
    values: Choices = {
        "model": "",
        "level": "",
        **model,
        "budget": config.context.sliding_context_tokens,
        "system": config.system_prompt,
    }
    if config.tools.approval is ApprovalMode.YOLO and config.kind(APPROVAL) != "flag":
        where = config.origin(APPROVAL)
        raise ConfigError(f"{where}: tools.approval cannot be yolo.", "Start with --yolo, for one run.")
    if config.tools.approval is not ApprovalMode.ASK or config.kind(APPROVAL) != "default":
        values["approval"] = config.tools.approval.value
    if config.tools.vendor_search:
        values["tools_off"] = ToolSelection(on=(VENDOR_SEARCH,)).text
    if config.profile:
        values["profile"] = "" if config.profile == NO_PROFILE else config.profile
    sources: dict[str, KeyPath] = {
        **dict.fromkeys(model, ("model",)),  # a level only where one is named: an agent may choose it otherwise
        "budget": ("context", "sliding_context_tokens"),
        "system": ("system_prompt",),
        **({"approval": APPROVAL} if "approval" in values else {}),
        **({"profile": ("profile",)} if "profile" in values else {}),
        **({"tools_off": VENDOR_SEARCH_KEY} if "tools_off" in values else {}),
    }
    above = {key: values[key] for key, path in sources.items() if config.kind(path) in ("environment", "flag")}
    return ConfigLayers(
        below={key: value for key, value in values.items() if key not in above},
        above=above,
        origins={key: config.origin(path) for key, path in sources.items()},
    )


def profile_choices(config: Config, name: str) -> Choices:
    """Return the settings that replace `ConfigLayers.below` for agents of this profile: its own and the inherited ones.

    Those that a flag or a variable sets at the start are among them: /profile typed in the run wins.
    """
    own, profiled = profile_settings(config, name), with_profile(config, name)
    above = [path for path in PROFILE_KEYS.values() if config.kind(path) in ("environment", "flag")]
    file = {path: each for path, each in config.settings.items() if path not in above}
    layered = split_layers(with_profile(with_settings(config, file), name) if above else profiled)
    origin = Setting((), None, "profile", name).origin
    choices = {key: value for key, value in layered.below.items() if layered.origins.get(key) == origin}
    if "model" in choices:  # it has no level of another model
        choices = {"level": "", **choices}
    if "level" in own and own["level"].value:
        choices["level"] = own["level"].value
    if own.keys() & {"tools", "tools_off", "vendor_search"}:
        off = own["tools_off"].value if "tools_off" in own else ()
        on = (VENDOR_SEARCH,) if profiled.tools.vendor_search else ()
        choices["tools_off"] = (ToolSelection(tuple(off), on) if profiled.tools.enabled else NO_TOOLS).text
    return choices


def are_tools_enabled(config: Config) -> bool:
    """Return True if any agent of this run is offered tools, be it by its profile."""
    return any(with_profile(config, name).tools.enabled for name in ("", *config.profiles))
