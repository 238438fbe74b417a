"""Make the MCP servers of a run from the user's configuration, a trusted project's `.mcp.json`, and plugins."""

from __future__ import annotations

import fnmatch
import importlib.util
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ikigai.app.project.project_servers import PROJECT_FILE, expand, read_project_file
from ikigai.config import Config, extra_fields
from ikigai.config.records import McpServerSettings
from ikigai.core.errors import ConfigError
from ikigai.system import paths
from ikigai.system.install_command import extra_command
from ikigai.system.paths import expand_home
from ikigai.tools.mcp.host_messages import ServerLaunch
from ikigai.tools.mcp.servers import McpServer, McpServers

if TYPE_CHECKING:
    from ikigai.app.plugins.plugin import Plugin
    from ikigai.app.project.trusted_project import Project


def login_file() -> Path:
    """Return the file with the logins to MCP servers."""
    return paths.config_dir() / "mcp_logins.json"


def definitions_file() -> Path:
    return paths.state_dir() / "mcp_tools.json"


def make_servers(
    config: Config,
    project: Project | None,
    directory: Path,
    environment: Mapping[str, str],
    secrets: Callable[[str], bool],
    problems: list[str],
    plugins: Sequence[Plugin] = (),
) -> McpServers | None:
    """Return the servers that are switched on, or None. Sentences about unusable ones go to `problems`.

    `environment` is the environment of commands. `secrets` returns True for a variable that may hold a key: a project
    does not get it.
    """
    found = dict[str, McpServer]()
    for name, settings in config.mcp_servers.items():
        try:
            if server := configured_server(config, name, settings, directory, environment):
                found[name] = server
        except ConfigError as error:
            problems.append(str(error))
    for name, server in _project_servers(project, directory, environment, secrets, problems).items():
        if name in config.mcp_servers:
            problems.append(f"{PROJECT_FILE} names the MCP server {name}, too: yours is used.")
        else:
            found[name] = server
    for plugin in plugins:
        from ikigai.app.plugins.plugin_servers import launch_server

        for name, server in plugin.servers.items():
            if name in found:
                problems.append(f"The plugin {plugin.name} names the MCP server {name}, too: the other one is used.")
                continue
            launch = launch_server(name, server, plugin.folder, plugin.data, environment, login_file())
            found[name] = McpServer(launch, f"plugin {plugin.name}", project=True)
            paths.make_private(plugin.data)
    if found and importlib.util.find_spec("mcp") is None:
        problems.append(
            f"The MCP servers are not used: the package mcp is not installed. Install it with: {extra_command('mcp')}"
        )
        return None
    return McpServers(found, environment, definitions_file()) if found else None


def configured_server(
    config: Config, name: str, settings: McpServerSettings, directory: Path, environment: Mapping[str, str]
) -> McpServer | None:
    """Return the server of a table of the user's configuration; None if it is switched off. Raise ConfigError."""
    if not settings.enabled:
        return None
    place = next((each.table_place for path, each in config.settings.items() if path[:2] == ("mcp_servers", name)), "")
    if bool(settings.command) == bool(settings.url):
        raise ConfigError(
            f"{place}: [mcp_servers.{name}] needs a command or a url, and not both.",
            'Write command = "PROGRAM" with args = [...], or url = "https://HOST/mcp".',
        )
    if (settings.issuer or settings.client_key) and not _has_credentials(settings):
        raise ConfigError(
            f"{place}: a login of [mcp_servers.{name}] without a user needs a url, issuer, client_id, and either "
            "client_secret or client_key.",
            'Write client_secret = "env:NAME", or client_key = "FILE.pem".',
        )
    secret = {"client_secret": settings.client_secret} if settings.client_secret else {}
    own = extra_fields.resolve_environment(f"the MCP server {name}", settings.env, os.environ)
    launch = ServerLaunch(
        name,
        (os.path.expanduser(settings.command), *settings.args) if settings.command else (),  # noqa: PTH111
        {**environment, **own},
        str(directory),
        settings.url,
        extra_fields.resolve_headers(f"the MCP server {name}", settings.headers, os.environ),
        settings.startup_seconds,
        settings.call_seconds,
        str(login_file()),
        settings.client_id,
        extra_fields.resolve_environment(f"the MCP server {name}", secret, os.environ).get("client_secret", ""),
        settings.scopes,
        str(expand_home(settings.client_key)) if settings.client_key else "",
        settings.issuer,
    )
    return McpServer(launch, place, partial(_is_approved, settings))


def _has_credentials(settings: McpServerSettings) -> bool:
    complete = settings.url and settings.issuer and settings.client_id
    return bool(complete) and bool(settings.client_secret) != bool(settings.client_key)


def _is_approved(settings: McpServerSettings, tool: str) -> bool:
    return any(fnmatch.fnmatchcase(tool, each) for each in settings.approved_tools)


def _project_servers(
    project: Project | None,
    directory: Path,
    environment: Mapping[str, str],
    secrets: Callable[[str], bool],
    problems: list[str],
) -> dict[str, McpServer]:
    """Return the servers of a trusted project's file. Their tools always ask."""
    if project is None or not (content := project.mcp_servers()):
        return {}
    listed, unusable = read_project_file(content)
    problems += unusable

    def value(text: str) -> str:
        return expand(text, secrets, os.environ)

    found = dict[str, McpServer]()
    for name, server in listed.items():
        launch = ServerLaunch(
            name,
            (value(server.command), *map(value, server.args)) if server.command else (),
            {**environment, **{key: value(text) for key, text in server.env.items()}},
            str(directory / expand_home(value(server.cwd))),
            value(server.address),
            {key: value(text) for key, text in server.headers.items()},
            token_file=str(login_file()),
        )
        found[name] = McpServer(launch, PROJECT_FILE, project=True)
    return found
