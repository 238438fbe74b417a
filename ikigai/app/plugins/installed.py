"""Keep the list of the plugins that the user has added, and notice when the content of one changes.

The list is a JSON object in the data folder, real path → an entry. A plugin is used where it lies, as long as all its
files are as they were when the user agreed to it. A change is asked about again.
"""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

from ikigai.app.plugins.plugin import Plugin, load_plugin
from ikigai.app.plugins.plugin_digest import digest_of, stamp_of
from ikigai.core.errors import ConfigError, Rejected, closest_names
from ikigai.core.text.sanitize import clean_line
from ikigai.system import paths, private_json

_DAMAGED = ("the plugins that you added", "Delete it, and add them again: ikigai plugins add FOLDER")


class InstalledPlugin(msgspec.Struct):
    """An entry of the list: a name, the time it was added, the digest of all files, and of what the system says of
    them.
    """

    name: str
    since: float
    digest: str
    stamp: str


def read_list() -> dict[str, InstalledPlugin]:
    """Return the entries by real path. Raise ConfigError."""
    return private_json.read(paths.plugins_file(), InstalledPlugin, *_DAMAGED)


def add_plugin(plugin: Plugin, digest: str) -> None:
    """Add a plugin, or one that has changed, with the `digest` of the content that the user has agreed to.

    Raise Rejected if it changed meanwhile, or if another one has the name.
    """
    if stamp_of(plugin.folder) != plugin.stamp:
        raise Rejected(f"{plugin.folder} changed meanwhile.", "Add it again.")
    entry = InstalledPlugin(plugin.name, time.time(), digest, plugin.stamp)
    paths.make_private(paths.plugins_file().parent)
    with private_json.open_for_change(paths.plugins_file(), InstalledPlugin, *_DAMAGED) as entries:
        other = next((path for path, each in entries.items() if each.name == plugin.name), "")
        if other and other != str(plugin.folder):
            raise Rejected(
                f"There is a plugin {plugin.name} already, in {other}.", f"ikigai plugins remove {plugin.name}"
            )
        entries[str(plugin.folder)] = entry


def remove_plugin(name: str) -> str:
    """Take a plugin out of the list, and return its folder. Raise Rejected for an unknown name."""
    paths.make_private(paths.plugins_file().parent)
    with private_json.open_for_change(paths.plugins_file(), InstalledPlugin, *_DAMAGED) as entries:
        found = next((path for path, each in entries.items() if each.name == name), "")
        if not found:
            names = [each.name for each in entries.values()]
            near = ", ".join(closest_names(name, names) or names) or "none"
            raise Rejected(f"There is no plugin {clean_line(name)!r}.", f"There are: {near}.")
        del entries[found]
    return found


def is_unchanged(folder: str, entry: InstalledPlugin) -> bool:
    """Return True if all files of a plugin are as they were when it was added."""
    try:
        return stamp_of(Path(folder)) == entry.stamp or digest_of(Path(folder)) == entry.digest
    except Rejected:
        return False


def changed_plugins() -> list[Plugin]:
    """Return the plugins whose content has changed, as they are now, without those that are no plugins any more."""
    found = list[Plugin]()
    for folder, entry in (read_list() if paths.plugins_file().exists() else {}).items():
        if not is_unchanged(folder, entry):
            try:
                found.append(load_plugin(Path(folder)))
            except Rejected:  # `usable_plugins` says so
                continue
    return found


def usable_plugins(problems: list[str]) -> list[Plugin]:
    """Return the plugins that are used; messages about others, and about parts that are not, go to `problems`."""
    if not paths.plugins_file().exists():
        return []
    try:
        entries = read_list()
    except ConfigError as error:
        problems.append(str(error))
        return []
    found = list[Plugin]()
    for folder, entry in entries.items():
        what, remedy = f"The plugin {entry.name} is not used", f"Check it, then run: ikigai plugins add {folder}"
        try:
            plugin = load_plugin(Path(folder))
        except Rejected as refusal:
            problems.append(f"{what}. {refusal}")
            continue
        # What was read is what is there now, and what the user has agreed to.
        if not is_unchanged(folder, entry) or stamp_of(plugin.folder) != plugin.stamp:
            problems.append(f"{what}: its content has changed since you added it. {remedy}")
            continue
        problems += [f"Plugin {plugin.name}: {each}." for each in plugin.problems]
        found.append(plugin)
    return found
