"""Read the MCP servers of a plugin, `mcp.json`, and launch them with its folder and a folder for its data."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, TypeAlias
from urllib.parse import urlsplit

import msgspec
from msgspec import UNSET, Meta, UnsetType

from ikigai.app.plugins.manifest import read_object
from ikigai.app.project.project_servers import NAME
from ikigai.core.text.sanitize import clean_line
from ikigai.tools.mcp.host_messages import ServerLaunch

SERVERS_FILE = "mcp.json"
ROOT, DATA = "PLUGIN_ROOT", "PLUGIN_DATA"
"""Variables with the folder of the plugin, and with the folder for its data."""
_PLACEHOLDER = re.compile(rf"\$\{{({ROOT}|{DATA})\}}")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_Text = Annotated[str, Meta(min_length=1)]


class StdioEntry(msgspec.Struct, tag="stdio", tag_field="type", forbid_unknown_fields=True):
    command: _Text
    args: list[str] = []
    env: dict[str, str] = {}
    cwd: str | UnsetType = UNSET


class HttpEntry(msgspec.Struct, tag="streamable-http", tag_field="type", forbid_unknown_fields=True):
    url: _Text
    headers: dict[str, str] = {}


class SseEntry(msgspec.Struct, tag="sse", tag_field="type", forbid_unknown_fields=True):
    url: _Text
    headers: dict[str, str] = {}


PluginServer: TypeAlias = StdioEntry | HttpEntry
_ANY_ENTRY = StdioEntry | HttpEntry | SseEntry


def read_servers(content: bytes, root: Path, data: Path) -> tuple[dict[str, PluginServer], list[str]]:
    """Return the servers that can be used, by name, and clauses about the others. Raise ValueError, with a clause, if
    the file as a whole is wrong.
    """
    file = read_object(content, SERVERS_FILE, "mcp.schema.json")
    if len(file) != 2 or not isinstance(entries := file.get("mcpServers"), dict):
        raise ValueError(f"{SERVERS_FILE} needs the object mcpServers, and nothing else beside $schema")
    servers, problems = dict[str, PluginServer](), list[str]()
    for name, entry in entries.items():
        try:
            server = msgspec.convert(entry, _ANY_ENTRY)
            why = _reason_unusable(name, server, root, data)
            if not (why or isinstance(server, SseEntry)):
                servers[name] = server
        except msgspec.ValidationError as error:
            why = clean_line(str(error))
        if why:
            problems.append(f"its MCP server {clean_line(name)[:60]!r} is not used: {why}")
    return servers, problems


def _reason_unusable(name: str, server: StdioEntry | HttpEntry | SseEntry, root: Path, data: Path) -> str:
    """Return why a server cannot be used, as a clause; "" if it can."""
    if not NAME.fullmatch(name):
        return "its name needs 1 to 32 letters, digits and -, the first one a letter"
    if isinstance(server, SseEntry):
        return "the older transport over HTTP+SSE is not supported"
    if isinstance(server, HttpEntry):
        return _reason_bad_url(server.url) or _reason_bad_headers(server.headers)
    if {ROOT, DATA} & server.env.keys():
        return f"its env has {ROOT} or {DATA}"
    if "/" in server.command and not server.command.startswith("./"):
        return "its command is neither a name nor a path that begins with ./"
    if server.command.startswith("./") and not _within(root, server.command):
        return "its command leads out of the folder"
    if server.cwd is UNSET:
        return ""
    if not re.match(rf"\./|\$\{{({ROOT}|{DATA})\}}(/|\Z)", server.cwd):
        return f"its cwd does not begin with ./, ${{{ROOT}}} or ${{{DATA}}}"
    inside = data if server.cwd.startswith(f"${{{DATA}}}") else root
    return "" if _within(inside, _expand(server.cwd, root, data)) else "its cwd leads out of the folder"


def _within(root: Path, path: str) -> bool:
    return Path(os.path.realpath(root / path)).is_relative_to(os.path.realpath(root))


def _reason_bad_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        host, has_user, _ = parts.hostname or "", "@" in parts.netloc, parts.port
    except ValueError:
        return "its url is not an address"
    if parts.scheme not in ("http", "https") or not host or has_user or "#" in url or clean_line(url) != url:
        return "its url needs http or https, a host, no user and no fragment"
    return "" if parts.scheme == "https" or _is_loopback(host) else "its url needs https"


def _is_loopback(host: str) -> bool:
    import ipaddress

    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _reason_bad_headers(headers: Mapping[str, str]) -> str:
    if len({name.lower() for name in headers}) < len(headers):
        return "it has a header twice"
    is_valid = all(_HEADER.fullmatch(name) and value.isprintable() for name, value in headers.items())
    return "" if is_valid else "it has a header that is not valid"


def _expand(text: str, root: Path, data: Path) -> str:
    """Return the text with the two folders in place of their names; nothing else is expanded."""
    return _PLACEHOLDER.sub(lambda found: str(root if found[1] == ROOT else data), text)


def launch_server(
    name: str, server: PluginServer, root: Path, data: Path, environment: Mapping[str, str], token_file: Path
) -> ServerLaunch:
    """Return how the server is reached; `environment` is the one of commands."""
    if isinstance(server, HttpEntry):
        return ServerLaunch(name, url=server.url, headers=server.headers, token_file=str(token_file))
    command = str(root / server.command) if server.command.startswith("./") else server.command
    own = {key: _expand(value, root, data) for key, value in server.env.items()}
    return ServerLaunch(
        name,
        (command, *(_expand(each, root, data) for each in server.args)),
        {**environment, **own, ROOT: str(root), DATA: str(data)},
        str(root / (_expand(server.cwd, root, data) if server.cwd else "")),
    )


def describe_server(name: str, server: PluginServer) -> str:
    """Return a line with all that the server runs or sends."""
    if isinstance(server, HttpEntry):
        what, pairs, where = server.url, server.headers, ""
    else:
        what, pairs = " ".join((server.command, *server.args)), server.env
        where = f" (in {server.cwd})" if server.cwd else ""
    return clean_line(f"{name}: {what}{''.join(f' {key}={value}' for key, value in pairs.items())}{where}")
