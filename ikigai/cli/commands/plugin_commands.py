"""Carry out `ikigai plugins`: add a plugin after a question that shows all of it, list and remove plugins."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from ikigai.app.json_records.json_output import print_answer
from ikigai.app.json_records.skill_records import PluginRecord
from ikigai.cli.ask import read_answer
from ikigai.config import Config
from ikigai.core.errors import ConfigError, Rejected
from ikigai.core.text.sanitize import clean_line
from ikigai.system.output import print_lines

NO_PLUGINS = "There are no plugins. Add one: ikigai plugins add FOLDER"


def add(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add this command to the subcommands; `common` holds the options that every command takes."""
    command = commands.add_parser(
        "plugins",
        help="add, list and remove plugins: folders with skills and MCP servers",
        description="A plugin is a folder as Agent Plugins 1.0 defines it: a plugin.json, skills in skills/, and MCP "
        "servers in mcp.json. It is used where it lies, as long as its content stays the one that you agreed to.",
    )
    actions = command.add_subparsers(dest="what", required=True)
    new = actions.add_parser("add", parents=[common], help="show all that a plugin brings, and add it")
    new.add_argument("folder", metavar="FOLDER", help="the folder with its plugin.json")
    new.add_argument("--yes", action="store_true", help="do not ask")
    new.set_defaults(act=_add)
    listed = actions.add_parser("list", parents=[common], help="list the plugins and what they bring")
    listed.add_argument("--json", action="store_true", help="one object per plugin")
    listed.set_defaults(act=_list)
    remove = actions.add_parser("remove", parents=[common], help="use a plugin no more; its folder stays")
    remove.add_argument("name", metavar="PLUGIN", help="its name")
    remove.set_defaults(act=_remove)


async def _add(config: Config, arguments: argparse.Namespace) -> int:
    from ikigai.app.plugins.installed import add_plugin
    from ikigai.app.plugins.plugin import describe_plugin, load_plugin
    from ikigai.app.plugins.plugin_digest import digest_of

    if not Path(arguments.folder).is_dir():
        raise ConfigError(f"There is no folder {clean_line(arguments.folder)}.", "Name the folder of a plugin.")
    plugin = load_plugin(Path(arguments.folder))
    digest = digest_of(plugin.folder)
    print_lines("\n".join(describe_plugin(plugin)))
    if not arguments.yes:
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise ConfigError("Adding a plugin needs your answer, and nobody can be asked here.", "--yes adds it.")
        if read_answer("Add this plugin? [y/N] ").lower() not in ("y", "yes"):
            print_lines("Nothing was added.")
            return 0
    add_plugin(plugin, digest)
    print_lines(f"The plugin {plugin.name} was added; it is used from the next start on.")
    return 0


async def _list(config: Config, arguments: argparse.Namespace) -> int:
    from ikigai.app.plugins.installed import is_unchanged, read_list
    from ikigai.app.plugins.plugin import describe_plugin, load_plugin

    entries = read_list()
    if not entries and not arguments.json:
        print_lines(NO_PLUGINS)
    for folder, entry in entries.items():
        changed = not is_unchanged(folder, entry)
        try:
            plugin = load_plugin(Path(folder))
            lines, version, problems = describe_plugin(plugin), plugin.manifest.version, plugin.problems
            skills, servers = tuple(each.name for each in plugin.skills), tuple(plugin.servers)
        except Rejected as refusal:
            lines, version, problems = [f"{entry.name} in {folder}", f"Not used. {refusal}"], "", (str(refusal),)
            skills, servers = (), ()
        if arguments.json:
            brings = {"skills": skills, "servers": servers, "problems": problems}
            print_answer(PluginRecord(name=entry.name, version=version, folder=folder, changed=changed, **brings))
            continue
        if changed:
            lines.append(
                f"Not used: it has changed since you added it. Check it, then run: ikigai plugins add {folder}"
            )
        print_lines("\n".join((clean_line(lines[0]), *(f"  {clean_line(line)}" for line in lines[1:]))))
    return 0


async def _remove(config: Config, arguments: argparse.Namespace) -> int:
    from ikigai.app.plugins.installed import remove_plugin
    from ikigai.app.plugins.plugin import data_folder

    folder, data = remove_plugin(arguments.name), data_folder(arguments.name)
    kept = f" What it stored stays in {data}." if data.exists() else ""
    print_lines(f"The plugin {arguments.name} is no longer used. Its folder stays: {clean_line(folder)}.{kept}")
    return 0
