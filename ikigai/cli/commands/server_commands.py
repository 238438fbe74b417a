"""Carry out `ikigai mcp`: add, list, test and remove MCP servers, and log in to them."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib.util
import os
import sys
import time
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ikigai.app.json_records.installation_records import McpServerRecord
from ikigai.app.json_records.json_output import print_answer
from ikigai.config import Config, settings_file
from ikigai.core.errors import ConfigError, Rejected, closest_names
from ikigai.core.text.sanitize import clean_line
from ikigai.system import paths
from ikigai.system.install_command import extra_command
from ikigai.system.output import print_lines

if TYPE_CHECKING:
    from ikigai.tools.mcp.host_messages import LoginPage
    from ikigai.tools.mcp.servers import McpServers, McpStatus


def add(commands: Any, common: argparse.ArgumentParser) -> None:
    """Add this command to the subcommands; `common` holds the options that every command takes."""
    command = commands.add_parser(
        "mcp",
        help="add, list, test and remove MCP servers; log in to them",
        description="MCP servers give models further tools. Yours are in your configuration, as [mcp_servers.NAME]; "
        "those of a project are in its .mcp.json, and are used once you trust the folder.",
    )
    actions = command.add_subparsers(dest="what", required=True)
    new = actions.add_parser(
        "add",
        parents=[common],
        help="add a server to your configuration",
        usage="ikigai mcp add [--env KEY=VALUE ...] NAME -- COMMAND [ARGUMENT ...]\n"
        "       ikigai mcp add [--header 'KEY: VALUE' ...] [--client-id ID] NAME URL",
    )
    new.add_argument(
        "--env", action="append", default=[], metavar="KEY=VALUE", help="a variable; VALUE may be env:NAME"
    )
    new.add_argument("--header", action="append", default=[], metavar="KEY: VALUE", help="a header of every request")
    new.add_argument("--client-id", default="", metavar="ID", help="the client id for its login")
    new.add_argument("name", metavar="NAME", help="its name: letters, digits and -")
    new.add_argument("words", nargs="+", metavar="COMMAND|URL", help="the command with its arguments, or the address")
    listed = actions.add_parser("list", parents=[common], help="list the servers, without connecting")
    listed.set_defaults(name="")
    test = actions.add_parser("test", parents=[common], help="connect, and show what a server offers")
    test.add_argument("name", nargs="?", default="", metavar="SERVER", help="its name; all without it")
    login = actions.add_parser("login", parents=[common], help="log in to a server by OAuth")
    login.add_argument("name", metavar="SERVER", help="its name")
    remove = actions.add_parser("remove", parents=[common], help="remove a server, and its login")
    remove.add_argument("name", metavar="SERVER", help="its name")
    for each in (listed, test):
        each.add_argument("--json", action="store_true", help="one object per server")
    for each in (new, listed, test, login, remove):
        each.set_defaults(act=run_mcp)


async def run_mcp(config: Config, arguments: argparse.Namespace) -> int:
    name = arguments.name
    match arguments.what:
        case "add":
            return _add(config, arguments)
        case "remove":
            return _remove(config, name)
        case "login":
            return await _login(config, name)
        case "test":
            return await _test(config, name, arguments.json)
        case _:
            return _list(_make(config), arguments.json)


# ── the configuration ──


def _add(config: Config, arguments: argparse.Namespace) -> int:
    name, rest = arguments.name, arguments.words
    if name in config.mcp_servers:
        raise Rejected(f"There is an MCP server {name} already.", f"Remove it first: ikigai mcp remove {name}")
    values: dict[str, Any] = {}
    if rest[0].startswith(("http://", "https://")):
        if len(rest) > 1 or arguments.env:
            raise ConfigError("A server with a URL takes no arguments and no --env.", "--header adds headers.")
        values = {"url": rest[0], "headers": _pairs(arguments.header, ":"), "client_id": arguments.client_id}
    else:
        if arguments.header or arguments.client_id:
            raise ConfigError("A command takes no --header and no --client-id.", "--env sets variables.")
        values = {"command": rest[0], "args": rest[1:], "env": _pairs(arguments.env, "=")}
    values = {key: value for key, value in values.items() if value}
    file = Path(config.file)
    settings_file.set_table(file, ("mcp_servers", name), values)
    print_lines(f"The MCP server {name} is in {file}. Try it: ikigai mcp test {name}")
    return 0


def _pairs(words: list[str], separator: str) -> dict[str, str]:
    found = dict[str, str]()
    for word in words:
        key, has, value = word.partition(separator)
        if not has or not key.strip():
            raise ConfigError(f"{clean_line(word)!r} is not KEY{separator}VALUE.", "Usage: ikigai mcp --help")
        found[key.strip()] = value.strip()
    return found


def _remove(config: Config, name: str) -> int:
    _known(config.mcp_servers, name, "It may be a project's; see .mcp.json.")
    settings_file.set_table(Path(config.file), ("mcp_servers", name), None)
    from ikigai.app.tools.mcp_servers import login_file
    from ikigai.tools.mcp.stored_logins import forget_login

    forget_login(login_file(), name)
    print_lines(f"The MCP server {name} was removed.")
    return 0


def _known(servers: Any, name: str, remedy: str = "") -> None:
    if name not in servers:
        near = closest_names(name, servers) or list(servers)
        hint = f"There are: {', '.join(near)}." if near else "There are none. Add one: ikigai mcp add NAME -- COMMAND"
        raise Rejected(f"There is no MCP server {clean_line(name)!r}.", f"{hint} {remedy}".strip())


def _list(servers: McpServers | None, as_json: bool) -> int:
    if not servers:
        if not as_json:
            print_lines("There are no MCP servers. Add one: ikigai mcp add NAME -- COMMAND [ARGUMENT ...]")
        return 0
    for name, server in servers.servers.items():
        where = " ".join(server.launch.command) or server.launch.url
        if as_json:
            print_answer(McpServerRecord(name=name, where=where, place=server.place, state=None))
        else:
            print_lines(f"{name:<16} {clean_line(where)}  ({clean_line(server.place)})")
    return 0


def _make(config: Config) -> McpServers | None:
    """Return the servers of the configuration, of a trusted project and of plugins; their problems are printed."""
    from ikigai.app.plugins.installed import usable_plugins
    from ikigai.app.project.trusted_project import make_project
    from ikigai.app.run.factories import make_tool_runtime
    from ikigai.app.tools.mcp_servers import make_servers

    project, runtime = make_project(), make_tool_runtime(config)
    project.check_trust()
    context = config, project, runtime.directory, runtime.environment, runtime.redaction.withholds, runtime.problems
    servers = make_servers(*context, usable_plugins(runtime.problems))
    for problem in (*project.problems, *runtime.problems):
        sys.stderr.write(f"ikigai: {clean_line(problem)}\n")
    return servers


def require_sdk() -> None:
    """Raise ConfigError if the package that speaks to MCP servers is missing."""
    if importlib.util.find_spec("mcp") is None:
        raise ConfigError(
            "MCP servers need the package mcp, which is not installed.", f"Install it with: {extra_command('mcp')}"
        )


# ── connecting ──


async def _test(config: Config, name: str, as_json: bool) -> int:
    """Connect to a server, or to all, and print what they offer; fail if one cannot be used."""
    require_sdk()
    servers = _make(config)
    if name:
        _known(servers.servers if servers else {}, name)
    if not servers:
        return _list(servers, as_json)
    if name:
        servers.keep_only(name)
    began, code = time.monotonic(), 0
    try:
        for each in servers.servers:
            status = await servers.wait_settled(each)
            code = code or int(status.state != "ready")
            _print_status(servers, status, time.monotonic() - began, as_json)
    finally:
        await servers.close()
    return code


def _print_status(servers: McpServers, status: McpStatus, seconds: float, as_json: bool) -> None:
    from ikigai.repl.commands.mcp_command import format_server, list_problems

    if as_json:
        server = servers.servers[status.name]
        record = McpServerRecord(
            name=status.name,
            where=" ".join(server.launch.command) or server.launch.url,
            place=server.place,
            state=status.state,
            detail=status.detail or None,
            protocol=status.protocol or None,
            tools=tuple(each.name for each in status.definitions),
            resources=tuple(each.uri for each in status.resources),
            prompts=tuple(each.name for each in status.prompts),
            problems=tuple(list_problems(status)),
        )
        print_answer(record)
        return
    print_lines(f"{format_server(servers, status.name)}\n  after {seconds:.1f} s")


async def _login(config: Config, name: str) -> int:
    """Log in to a server in the browser, or by the address that the user pastes."""
    require_sdk()
    servers = _make(config)
    _known(servers.servers if servers else {}, name)
    assert servers
    if not servers.servers[name].launch.url:
        raise Rejected(f"The MCP server {name} is a command, which needs no login here.", f"ikigai mcp test {name}")
    servers.keep_only(name)
    pasting: list[asyncio.Task[None]] = []

    def on_login(page: LoginPage) -> None:
        print_lines(f"Log in here:\n\n  {clean_line(page.url)}\n")
        if os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY") or sys.platform == "darwin":
            with contextlib.suppress(webbrowser.Error, OSError):
                webbrowser.open(page.url)
        if sys.stdin.isatty():
            print_lines("If the browser is on another machine, paste the address to which it is sent, and press Enter.")
        pasting.append(asyncio.create_task(_read_address(servers, name)))

    servers.on_login = on_login
    try:
        servers.start(login=name)
        status = await servers.wait_settled(name)
    finally:
        for task in pasting:
            task.cancel()
        await servers.close()
    if status.state != "ready":
        raise Rejected(f"The login to {name} failed: {status.detail}.", f"Try again: ikigai mcp login {name}")
    print_lines(f"You are logged in to {name}: {len(status.definitions)} tools.")
    paths.make_private(paths.config_dir())
    return 0


async def _read_address(servers: McpServers, name: str) -> None:
    """Pass on the lines of standard input."""
    reader = asyncio.StreamReader()
    with contextlib.suppress(OSError, ValueError):
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while line := await reader.readline():
            servers.complete_login(name, line.decode(errors="replace").strip())
