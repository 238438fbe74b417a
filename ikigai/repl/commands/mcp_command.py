"""Carry out /mcp: show the MCP servers and their states, restart one, and get their prompts."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ikigai.core.commands.arguments import quoted
from ikigai.core.commands.mentions import format_mention
from ikigai.core.errors import Rejected, WrongArgument, closest_names
from ikigai.core.request.tool_rules import TOOL_RULES, refusal, refused_tools
from ikigai.core.text import tokens
from ikigai.core.text.sanitize import clean, clean_line
from ikigai.tools.mcp.host_messages import GetPrompt

if TYPE_CHECKING:
    from ikigai.tools.mcp.servers import McpServers, McpStatus

NO_SERVERS = "There are no MCP servers. Add one in a shell: ikigai mcp add NAME -- COMMAND [ARGUMENT ...]"


def run_mcp(servers: McpServers | None, argument: str) -> str:
    """Carry out /mcp without a prompt, and return the text that it shows. Raise Rejected."""
    if servers is None:
        return NO_SERVERS
    word, _, name = argument.partition(" ")
    match word:
        case "":
            return format_servers(servers)
        case "restart" if name.strip():
            servers.restart(_known(servers, name.strip()))
            return f"The MCP server {name.strip()} is being restarted; /mcp shows its state."
        case _ if not name:
            return format_server(servers, _known(servers, word))
        case _:
            raise WrongArgument(f"/mcp does not take {quoted(clean_line(argument))}.")


def _known(servers: McpServers, name: str) -> str:
    if name in servers.servers:
        return name
    near = closest_names(name, servers.servers) or list(servers.servers)
    raise Rejected(f"There is no MCP server {quoted(clean_line(name))}.", f"There are: {', '.join(near)}.")


def format_servers(servers: McpServers) -> str:
    """Return a line for each server: its state, what it offers, and what its tools take in a request."""
    rows = [_row(servers, status) for status in servers.statuses.values()]
    return "\n".join((*rows, "/mcp NAME shows what a server offers, /mcp restart NAME connects to it anew."))


def _row(servers: McpServers, status: McpStatus) -> str:
    return f"{status.name:<16} {status.state:<8}  {_about(servers, status)}"


def _about(servers: McpServers, status: McpStatus) -> str:
    if status.state == "login":
        return f"run: ikigai mcp login {status.name}"
    if status.state != "ready":
        return status.detail
    size = tokens.count_tokens("", "", sum(each.size for each in status.definitions))
    counts = [
        f"{len(found)} {word}{'s' * (len(found) != 1)}"
        for word, found in (("tool", status.definitions), ("resource", status.resources), ("prompt", status.prompts))
        if found
    ]
    refused = len({each.name for each in status.definitions for rule in TOOL_RULES if refusal(rule, each.spec.schema)})
    not_for_all = f"; {refused} not offered to models of every vendor" if refused else ""
    return f"{', '.join(counts) or 'nothing'}; its tools take {tokens.format_tokens(size)} tokens{not_for_all}"


def format_server(servers: McpServers, name: str) -> str:
    """Return all that a server offers."""
    status, server = servers.statuses[name], servers.servers[name]
    where = " ".join(server.launch.command) or server.launch.url
    lines = [_row(servers, status), f"  {clean_line(where)}  ({clean_line(server.place)})"]
    if status.title:
        lines.append(f"  {status.title}, protocol {clean_line(status.protocol)}")
    lines += [f"  {each.name}: {_first_line(each.description)}" for each in status.definitions]
    lines += [f"  @{name}:{clean_line(each.uri)}  {_first_line(each.name)}" for each in status.resources]
    lines += [f"  /{name}:{clean_line(each.name)}  {_first_line(each.description)}" for each in status.prompts]
    lines += [f"  {each}" for each in list_problems(status)]
    return "\n".join(lines)


def list_problems(status: McpStatus) -> list[str]:
    """Return sentences about what a server has and cannot be offered, or not to the models of some vendor."""
    specs = [each.spec for each in status.definitions]
    return [*status.problems, *(problem for rule in TOOL_RULES for problem in refused_tools(specs, rule))]


def _first_line(text: str) -> str:
    line = clean_line(text.strip().partition("\n")[0])
    return line if len(line) <= 100 else f"{line[:99]}…"


async def get_prompt(servers: McpServers | None, line: str) -> str:
    """Return the text of the prompt that a line /SERVER:PROMPT [ARGUMENT ...] names. Raise Rejected."""
    word, _, rest = line.removeprefix("/").partition(" ")
    server, _, prompt = word.partition(":")
    if servers is None:
        raise Rejected(f"There is no MCP server {quoted(clean_line(server))}.", NO_SERVERS)
    status = servers.statuses[_known(servers, server)]
    listed = {each.name: each for each in status.prompts}
    if prompt not in listed:
        known = ", ".join(f"/{server}:{clean_line(each)}" for each in listed) or "none"
        raise Rejected(f"{server} has no prompt {quoted(clean_line(prompt))}.", f"Its prompts: {known}.")
    arguments = _arguments(rest, [name for name, _ in listed[prompt].arguments])
    missing = [name for name, required in listed[prompt].arguments if required and name not in arguments]
    if missing:
        usage = " ".join(f"{name}=VALUE" if needed else f"[{name}=VALUE]" for name, needed in listed[prompt].arguments)
        raise Rejected(f"{', '.join(missing)} missing.", f"Usage: /{server}:{prompt} {usage}")
    result = await servers.carry_out(GetPrompt(servers.next_id(), server, prompt, arguments))
    if result.failed or not result.text.strip():
        raise Rejected(clean(result.text) or f"The prompt {prompt} of {server} is empty.", "Nothing was sent.")
    return result.text


def _arguments(text: str, names: Iterable[str]) -> dict[str, str]:
    """Return the arguments of a prompt: NAME=VALUE, or values in the order of their names."""
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    free, found = list(names), dict[str, str]()
    for word in words:
        name, equals, value = word.partition("=")
        if equals and name in free:
            free.remove(name)
            found[name] = value
        elif free:
            found[free.pop(0)] = word
    return found


def complete_resources(servers: McpServers, typed: str) -> list[str]:
    """Return the mentions of resources that `typed` can become."""
    found = (f"{name}:{each.uri}" for name, status in servers.statuses.items() for each in status.resources)
    return [format_mention(each) for each in found if each.startswith(typed) and each.isprintable()]
