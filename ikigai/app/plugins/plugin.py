"""Load a plugin from its folder, and say what it brings."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from ikigai.app.plugins.manifest import MANIFEST_FILE, Manifest, read_manifest
from ikigai.app.plugins.plugin_digest import stamp_of
from ikigai.app.plugins.plugin_servers import SERVERS_FILE, PluginServer, describe_server, read_servers
from ikigai.app.skills.library import Skill, SkillPlace, read_skill, short_line
from ikigai.config.project import project_files
from ikigai.config.project.skill_files import read_skill_file, skill_folders
from ikigai.core.errors import Rejected
from ikigai.core.text.sanitize import clean_line
from ikigai.system import paths

MAX_MANIFEST_BYTES = 1 << 20


class Plugin(NamedTuple):
    """A plugin that was read: `folder` is real. `problems` are clauses about what of it is not used."""

    folder: Path
    manifest: Manifest
    skills: tuple[Skill, ...]
    servers: dict[str, PluginServer]
    problems: tuple[str, ...]
    stamp: str

    @property
    def name(self) -> str:
        return self.manifest.name

    @property
    def data(self) -> Path:
        return data_folder(self.name)

    @property
    def skill_place(self) -> SkillPlace:
        return SkillPlace(self.folder / "skills", f"plugin {self.name}", self.read, self, is_strict=True)

    def read(self, file: Path) -> bytes:
        """Return a SKILL.md of it. Raise Rejected, with a clause, if that is not a file of it, or something changed."""
        if stamp_of(self.folder) != self.stamp:
            raise Rejected("its plugin has changed meanwhile", f"Check it, then run: ikigai plugins add {self.folder}")
        return read_contained(self.folder, file)


def data_folder(name: str) -> Path:
    """Return the folder in which a plugin may keep data."""
    return paths.data_dir() / "plugins" / name


def read_contained(root: Path, file: Path) -> bytes:
    """Return a SKILL.md that lies in a plugin. Raise Rejected, with a clause."""
    if not file.is_relative_to(root):
        raise Rejected("it is a link to a place outside the plugin", "")
    try:
        return read_skill_file(file).head
    except OSError as error:
        raise Rejected(project_files.error_reason(error), "") from None


def load_plugin(folder: Path) -> Plugin:
    """Return the plugin in a folder. Raise Rejected if its manifest cannot be used."""
    root = Path(os.path.realpath(folder))
    stamp = stamp_of(root)
    try:
        manifest, problems = read_manifest(_read_file(root, MANIFEST_FILE))
    except (OSError, ValueError) as error:
        why = project_files.error_reason(error) if isinstance(error, OSError) else str(error)
        what = f"{MANIFEST_FILE} cannot be read: {why}" if isinstance(error, OSError) else why
        raise Rejected(f"{clean_line(str(root))} is not a plugin: {what}.", "It needs a valid plugin.json.") from None
    skills, servers = list[Skill](), dict[str, PluginServer]()
    for each in skill_folders(root / "skills"):
        place = SkillPlace(root, manifest.name, lambda file: read_contained(root, file), is_strict=True)
        try:
            skills.append(read_skill(each, place)[0])
        except Rejected as refusal:
            problems.append(f"its skill {clean_line(each.name)} is not used: {refusal.what.rstrip('.')}")
    if os.path.lexists(root / SERVERS_FILE):
        try:
            servers, unusable = read_servers(_read_file(root, SERVERS_FILE), root, data_folder(manifest.name))
            problems += unusable
        except (OSError, ValueError) as error:
            why = project_files.error_reason(error) if isinstance(error, OSError) else str(error)
            problems.append(f"its MCP servers are not used: {why}")
    return Plugin(root, manifest, tuple(skills), servers, tuple(problems), stamp)


def _read_file(root: Path, name: str) -> bytes:
    content = project_files.read_own(root, root / name, MAX_MANIFEST_BYTES + 1).head
    if len(content) > MAX_MANIFEST_BYTES:
        raise ValueError(f"{name} is longer than 1 MiB")
    return content


def describe_plugin(plugin: Plugin) -> list[str]:
    """Return lines about all that a plugin brings."""
    head = " ".join(filter(None, (plugin.name, plugin.manifest.version)))
    lines = [f"{head} in {plugin.folder}"]
    lines += [f"  {plugin.manifest.description}"] if plugin.manifest.description else []
    if plugin.skills:
        lines += ["Skills, whose descriptions models get, and whose instructions they follow:"]
        lines += [f"  {each.name}: {short_line(each.description)}" for each in plugin.skills]
    if plugin.servers:
        lines += ["MCP servers, which start now and with every start:"]
        lines += [f"  {describe_server(name, server)}" for name, server in plugin.servers.items()]
    if not (plugin.skills or plugin.servers):
        lines += ["It brings no skill and no MCP server."]
    lines += [f"Not used: {each}." for each in plugin.problems]
    return [clean_line(line) for line in lines]
