"""Build the error of an unusable setting: its place, key, value, the allowed values, and the nearest key."""

import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from ikigai.config.key_table import (
    KEY_SPECS,
    PROFILE_KEYS,
    USUAL_VARIABLES,
    VARIABLE_PREFIX,
    KeyPath,
    Setting,
    all_paths,
    dotted_path,
    path_pattern,
    variables_of,
)
from ikigai.config.records import THEME_NAMES
from ikigai.core.commands.arguments import name_a_model
from ikigai.core.errors import ConfigError, ConfigErrors, closest_names
from ikigai.core.vendors import sellers


def bad_value(setting: Setting) -> ConfigError:
    from ikigai.core.secrets.redaction import looks_like_key

    # People put the key itself where the name of its variable belongs.
    value = format_value(setting.value) + _culprit(setting)
    if setting.path[-1] == "api_key_env" or looks_like_key(value):
        value = "the present value"
    where = f"{setting.place}: {dotted_path(setting.path)}" if setting.kind == "configuration" else setting.place
    remedy = f"Allowed: {KEY_SPECS[path_pattern(setting.path)].allowed}."
    if setting.path[-1] == "model" and isinstance(setting.value, str) and setting.value in sellers():
        remedy = name_a_model(setting.value)
    if setting.place in USUAL_VARIABLES.values():
        own = variables_of(setting.path)[0]
        remedy += f" If {setting.place} is meant for another program, set {own}, which overrides it."
    return ConfigError(f"{where} cannot be {value}.", remedy)


def _culprit(setting: Setting) -> str:
    """Return the first wrong item of an array; empty where the setting is not an array, or wrong as a whole."""
    expected = KEY_SPECS[path_pattern(setting.path)]
    if not (isinstance(setting.value, list) and isinstance(expected.default, tuple)):
        return ""
    for item in setting.value:
        try:
            msgspec.convert([item], expected.type)
        except msgspec.ValidationError:
            return f" with {format_value(item)}"
    return ""


def all_of(errors: Sequence[ConfigError]) -> ConfigError:
    """Return one error for all of these, each told once."""
    distinct = list({str(error): error for error in errors}.values())
    return distinct[0] if len(distinct) == 1 else ConfigErrors(distinct)


OTHER_VARIABLES = ("IKIGAI_PROCESS",)
"""Variables that begin like the variables of keys but set no key: the mark of the commands that tools start."""


def unknown_variables(environ: Iterable[str], providers: Iterable[str]) -> Iterator[str]:
    """Yield a sentence for each variable that begins like the variables of keys but sets no key, with these
    `providers`.
    """
    variables = [*OTHER_VARIABLES, *(name for path in all_paths(providers, ()) for name in variables_of(path))]
    known = [name.removeprefix(VARIABLE_PREFIX) for name in variables if name.startswith(VARIABLE_PREFIX)]
    removed = {name: how for path, how in REMOVED_KEYS.items() if "*" not in path for name in variables_of(path)}
    for name in environ:
        if how := removed.get(name):
            how = how.replace("Remove the line", "Unset it")
            yield f"{name} is set, but is not a variable of ikigai any more. {how}"
        elif name.startswith(VARIABLE_PREFIX) and name.removeprefix(VARIABLE_PREFIX) not in known:
            table = next((table for table in ONLY_IN_FILES if name.startswith(f"{VARIABLE_PREFIX}{table}_")), "")
            near = [] if table else closest_names(name.removeprefix(VARIABLE_PREFIX), known)
            how = (
                f"Did you mean {VARIABLE_PREFIX}{near[0]}?"
                if near
                else ONLY_IN_FILES.get(table, "`ikigai config` lists the keys.")
            )
            yield f"{name} is set, but is not a variable of ikigai. {how}"


ONLY_IN_FILES = {
    "PROVIDERS": "Variables set keys of the providers that your configuration has a table of.",
    **dict.fromkeys(
        ("MODELS", "MCP_SERVERS", "PROFILES", "THEMES"),
        "Models, MCP servers, profiles and themes are set in the configuration.",
    ),
}
"""Tables whose keys have no variables, or only where there is a table; and what to say of them."""


def bad_name(setting: Setting, allowed: str) -> ConfigError:
    return ConfigError(
        f"{setting.table_place or setting.place}: the table [{dotted_path(setting.path[:2])}] has no usable name.",
        allowed,
    )


def no_theme(setting: Setting, own: Iterable[str]) -> ConfigError:
    where = f"{setting.place}: {dotted_path(setting.path)}" if setting.kind == "configuration" else setting.place
    near = closest_names(setting.value, [*THEME_NAMES, *own])
    how = f'Did you mean "{near[0]}"?' if near else f"Write a table [themes.{setting.value}] in the configuration."
    return ConfigError(f"{where}: there is no theme {setting.value!r}.", how)


_FIXED = "Remove the line: the value is fixed now."
_REMOVED_LOOKS: tuple[str, ...] = (
    *("prompt", "assistant", "call", "bold", "found", "selected", "thought", "added_word", "removed_word", "hunk"),
    *("heading", "link", "quote", "border", "code", "code_keyword", "code_name", "code_definition", "code_string"),
    *("code_number", "code_comment"),
)
REMOVED_KEYS: dict[KeyPath, str] = {
    ("mcp_servers", "*", "approval"): 'Write approved_tools = ["*"] to let all its tools run.',
    ("mcp_servers", "*", "directory"): "Remove the line: servers run in the working directory.",
    ("mcp_servers", "*", "grant"): "Remove the line: a server with an issuer logs in without you.",
    ("providers", "*", "max_output"): 'Write it under [models."PROVIDER/NAME"].',
    ("terminal", "links"): "Set FORCE_HYPERLINK=1 for links in any terminal, FORCE_HYPERLINK=0 for none.",
    ("terminal", "update_index"): "Set PIP_INDEX_URL.",
    **{("agents", key): _FIXED for key in ("depth", "at_once", "per_tree")},
    **{("providers", "*", key): _FIXED for key in ("first_seconds", "idle_seconds")},
    **{("terminal", key): _FIXED for key in ("notify_after", "prompt_marks", "suggestions")},
    **{("tools", key): _FIXED for key in ("mcp_tools_tokens", "max_stored_result")},
    **{(table, *name, "auto_recall_tokens"): _FIXED for table, name in (("context", ()), ("profiles", ("*",)))},
    ("agents",): "Remove the table: its values are fixed now.",
    **{("themes", "*", look): "Remove the line: this look follows the others, or the base." for look in _REMOVED_LOOKS},
    ("database", "user_name"): "Remove the line: the name is that of your account on this machine.",
}
"""Keys of earlier versions: what to do about each, where a key with a similar name would be another thing."""


def unknown_key(setting: Setting, allowed: Iterable[KeyPath] = ()) -> ConfigError:
    """Return the error for an unknown key; `allowed` are a project's keys, one of which no other file has."""
    name = dotted_path(setting.path)
    if remedy := REMOVED_KEYS.get(path_pattern(setting.path)):
        return ConfigError(f"{setting.place}: there is no key {name} any more.", remedy)
    plain = re.sub("[_-]", "", setting.path[-1].lower())
    if any(word in plain for word in ("apikey", "secret", "password")):
        return ConfigError(
            f"{setting.place}: {name} does not belong in a file.",
            "Run `ikigai login`, or set a variable such as OPENAI_API_KEY; api_key_env can name another variable.",
        )
    if setting.path[0] == "themes":
        keys = [each[-1] for each in KEY_SPECS if each[0] == "themes"]
        near = closest_names(setting.path[-1], keys) if len(setting.path) == 3 else []
        how = f"Did you mean {near[0]}?" if near else f"A table [themes.NAME] has the keys {', '.join(keys)}."
        return ConfigError(f"{setting.place}: there is no key {name}.", how)
    if setting.path[0] == "profiles" and (len(setting.path) < 3 or setting.path[2] in ("context", "tools")):
        where = f"in [{dotted_path(setting.path[:2])}] itself" if setting.path[2:] else "in a table [profiles.NAME]"
        return ConfigError(f"{setting.place}: there is no key {name}.", f"The keys of a profile belong {where}.")
    if setting.table_place and len(setting.path) > 1 and (table := _nearest_table(setting.path[0])):
        where = f"{setting.table_place}: there is no table [{dotted_path(setting.path[:-1])}]."
        return ConfigError(where, f"Did you mean [{dotted_path((table, *setting.path[1:-1]))}]?")
    if name in ("tools_off", "tools.off", "tools.tools_off") and not allowed:
        how = "A profile has tools_off, a trusted project [tools] off; /tools off SET switches a set off for an agent."
        return ConfigError(f"{setting.place}: there is no key {name}.", how)
    near = _nearest(setting.path, allowed)
    if not near:
        return ConfigError(f"{setting.place}: there is no key {name}.", "config.example.toml shows them all.")
    place = " (above the first [table])" if "." in name and "." not in near else ""
    return ConfigError(f"{setting.place}: there is no key {name}.", f"Did you mean {near}{place}?")


def _nearest_table(name: str) -> str:
    """Return the table with a name like this one, which is none; else ""."""
    tables = {path[0] for path in KEY_SPECS if len(path) > 1}
    return "" if name in (*tables, "profiles") else "".join(closest_names(name, sorted({*tables, "profiles"})))


def _nearest(path: KeyPath, allowed: Iterable[KeyPath]) -> str:
    """Return the key whose table was joined to it, as tools_off; the same key in another table, or a key of the table
    that stands there as a value; else one with similar letters.
    """
    name = dotted_path(path)
    own = {table: path[1:2] if path[0] == table and len(path) == 3 else () for table in ("providers", "models")}
    known = {dotted_path(other): other for other in (*all_paths(own["providers"], own["models"]), *allowed)}
    if path[0] == "profiles" and len(path) == 3:
        profiled = [("profiles", path[1], key) for key in (*PROFILE_KEYS, "inherits", "level", "tools_off")]
        known = {dotted_path(other): other for other in profiled} | known
    tables = {other[0] for other in known.values() if len(other) > 1}
    alike = closest_names(path[-1], [other[-1] for other in known.values()])
    near = (
        *(key for key, other in known.items() if len(other) > 1 and path[-1] == "_".join(other)),
        *(key for key, other in known.items() if other[-1] == path[-1] or key.startswith(f"{name}.")),
        *closest_names(name, [*known, *tables]),
        *(key for key, other in known.items() if other[-1] in alike),
    )
    return next(iter(near), "")


def mask_passwords(text: str) -> str:
    """Return a database or web address with *** for its password; other text as it is."""
    text = re.sub(r"(://[^:/@\s]*:)\S*@", r"\1***@", text)
    # From the begin of a word on, else a word of ten thousand letters would take seconds.
    secret = r"(\b\w*(?:password|secret|scram_\w+_key)\s*=\s*)"
    return re.sub(secret + r"('(?:[^'\\]|\\.)*'?|(?:\\.|\S)+)", r"\1***", text, flags=re.IGNORECASE)


def format_value(value: object) -> str:
    """Return a value as people write it, without passwords, in at most 80 characters."""
    match value:
        case bool():
            text = str(value).lower()
        case str():
            text = repr(mask_passwords(value))
        case dict():
            text = "a table"
        case list():
            text = "a list"
        case _:
            text = str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
