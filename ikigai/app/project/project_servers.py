"""Read the MCP servers of a `.mcp.json`, as other programs write it, entry by entry."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from ikigai.core.secrets.secret_variables import is_secret
from ikigai.core.text.sanitize import clean_line

PROJECT_FILE = ".mcp.json"
NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,31}")
_VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_LAST_COMMA = re.compile(r'("(?:\\.|[^"\\])*")|,(?=\s*[}\]])', re.DOTALL)
_STREAMABLE = frozenset({"http", "streamablehttp", "remote"})
_COMMANDS = frozenset({"stdio", "local"})


class ProjectServer(msgspec.Struct):
    """A server of a `.mcp.json`; further keys are ignored. The type is `type` or `transport`; the address is `url`, at
    Gemini CLI `httpUrl`, at Windsurf `serverUrl`. A server is switched off by `disabled`, or by `enabled`.
    """

    type: str = ""
    transport: str = ""
    command: str = ""
    args: list[str] = []
    env: dict[str, str] = {}
    cwd: str = ""
    url: str = ""
    httpUrl: str = ""
    serverUrl: str = ""
    headers: dict[str, str] = {}
    disabled: bool = False
    enabled: bool = True

    @property
    def address(self) -> str:
        return self.url or self.httpUrl or self.serverUrl

    @property
    def is_off(self) -> bool:
        return self.disabled or not self.enabled

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The variables and the headers; one may have the name of another."""
        return (*self.env.items(), *self.headers.items())

    @property
    def texts(self) -> tuple[str, ...]:
        """All that is run or sent, and may name variables."""
        return (self.command, *self.args, self.address, self.cwd, *(value for _, value in self.pairs))


def read_project_file(content: bytes) -> tuple[Mapping[str, ProjectServer], Sequence[str]]:
    """Return the servers of a file that can be used, by their names, and sentences about the others.

    Comments and a comma behind the last entry are ignored, as editors do.
    """
    text = content.decode(errors="replace").removeprefix("\ufeff")
    text = _LAST_COMMA.sub(lambda found: found[1] or "", _COMMENT.sub(lambda found: found[1] or " ", text))
    try:
        listed = msgspec.json.decode(text, type=dict[str, Any])
        entries = {**_entries(listed, "servers"), **_entries(listed, "mcpServers")}
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        return {}, [f"{PROJECT_FILE} is not used: {clean_line(str(error)).rstrip('.')}."]
    servers, problems = dict[str, ProjectServer](), list[str]()
    for name, entry in entries.items():
        try:
            server = msgspec.convert(entry, ProjectServer)
            why = "" if server.is_off else _reason_unusable(name, server)
        except msgspec.ValidationError as error:
            server, why = ProjectServer(), clean_line(str(error))
        if why:
            problems.append(f"{PROJECT_FILE} has a server {clean_line(name)[:80]!r} that cannot be used: {why}.")
        elif not server.is_off:
            servers[name] = server
    return servers, problems


def _entries(listed: dict[str, Any], key: str) -> dict[str, Any]:
    """Return the table of servers under this key: most programs call it mcpServers, VS Code servers."""
    found = listed.get(key, {})
    if not isinstance(found, dict):
        raise ValueError(f"{key} is not an object")
    return found


def _reason_unusable(name: str, server: ProjectServer) -> str:
    """Return why a server cannot be used, as the second half of a sentence; "" if it can."""
    kind = re.sub(r"[-_]", "", (server.type or server.transport).lower())
    if not NAME.fullmatch(name):
        return "it needs a name of at most 32 letters, digits and -, which begins with a letter"
    if kind == "sse":
        return "the older transport over HTTP+SSE is not supported; many servers have one over streamable HTTP, too"
    if kind and kind not in _STREAMABLE | _COMMANDS:
        return f"its type {clean_line(server.type or server.transport)[:40]!r} is not known; use stdio or http"
    if bool(server.command) == bool(server.address):
        return "it needs a command, or the url of a server over streamable HTTP, and not both"
    if kind and (kind in _COMMANDS) != bool(server.command):
        return f"its type is {clean_line(server.type or server.transport)!r}, which goes with " + (
            "a command" if kind in _COMMANDS else "a url"
        )
    return ""


def expand(text: str, withholds: Callable[[str], bool], environment: Mapping[str, str]) -> str:
    """Return the text with the values of its variables: `${NAME}`, `${NAME:-DEFAULT}`, `${env:NAME}`. One that
    `withholds` returns True for has none.
    """

    def value(found: re.Match[str]) -> str:
        name, default = found[1], found[2] or ""
        return default if withholds(name) else environment.get(name, default)

    return _VARIABLE.sub(value, text)


def describe_project_servers(content: bytes, withholds: Callable[[str], bool] = is_secret) -> list[str]:
    """Return a line for each server of a `.mcp.json`, with all that it runs or sends, and the variables that it names
    and does not get.
    """
    lines = list[str]()
    for name, server in read_project_file(content)[0].items():
        what = " ".join((server.command, *server.args)) if server.command else server.address
        pairs = "".join(f" {key}={value}" for key, value in server.pairs)
        where = f" (in {server.cwd})" if server.cwd else ""
        named = dict.fromkeys(found[1] for text in server.texts for found in _VARIABLE.finditer(text))
        withheld = ", ".join(filter(withholds, named))
        lines.append(f"  {name}: {what}{pairs}{where}" + (f" (without {withheld}: it may hold a key)" * bool(withheld)))
    return [clean_line(line) for line in lines]
