"""Tests of plugins: what a manifest and a list of servers may hold, and what is left out of the others."""

import json
from pathlib import Path
from typing import Any

import pytest

from ikigai.app.plugins.manifest import read_manifest
from ikigai.app.plugins.plugin import describe_plugin, load_plugin
from ikigai.app.plugins.plugin_servers import launch_server, read_servers
from ikigai.core.errors import Rejected
from tests.app.plugins.folders import SCHEMAS, write_plugin
from tests.app.skills.folders import use_home, write_skill


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_home(tmp_path / "home", monkeypatch)


def manifest(**fields: Any) -> bytes:
    return json.dumps({"$schema": f"{SCHEMAS}plugin.schema.json", "name": "demo", **fields}).encode()


@pytest.mark.parametrize("name", ["my-plugin", "acme.tools", "lint3r", "a", "a" * 64])
def test_valid_names_are_taken(name: str) -> None:
    assert read_manifest(manifest(name=name))[0].name == name


def test_all_fields_of_the_specification_are_read():
    read, ignored = read_manifest(
        manifest(
            version="one", description="d", author={"name": "A", "email": "no", "url": "x"}, homepage="h",
            repository="r", license="?", keywords=["k"], extensions={"com.example.client": {"setting": True}},
        )
    )  # fmt: skip
    assert (read.version, read.author.name, read.keywords, ignored) == ("one", "A", ("k",), [])


WRONG_NAMES = ("", "My-Plugin", "-start", "end-", "a--b", "a..b", "a_b", "a" * 65)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "not a JSON object"),
        (b"[1]", "not a JSON object"),
        (b'{"name": "demo"}', r"names no \$schema, not https://agent-plugins.org/schemas/1.0.0/plugin.schema.json"),
        (manifest(**{"$schema": f"{SCHEMAS}mcp.schema.json"}), "not of Agent Plugins 1.0.0"),
        (manifest(**{"$schema": "https://agent-plugins.org/schemas/9.0.0/plugin.schema.json"}), "9.0.0"),
        (b"[" * 100_000, "not a JSON object"),
        *((manifest(name=name), "name") for name in WRONG_NAMES),
        (manifest(name=7), "name"),
        (manifest(version=2), "version"),
        (manifest(keywords="k"), "keywords"),
        (manifest(keywords=[1]), "keywords"),
        (manifest(author="me"), "author"),
        (manifest(author={"name": "me", "phone": "1"}), "phone"),
        (manifest(author=None), "author"),
        (manifest(extensions={"com.example": 1}), ""),
    ],
)
def test_broken_manifest_is_refused(content: bytes, why: str) -> None:
    if not why:  # values of namespaces that are not ikigai's are not looked at
        assert read_manifest(content)
        return
    with pytest.raises(ValueError, match=why):
        read_manifest(content)


def test_unknown_fields_and_wrong_extensions_are_told_and_ignored():
    read, ignored = read_manifest(manifest(hooks={}, **{"x\x1b[31m": 1}, extensions=[]))
    assert read.name == "demo" and read.extensions == {}
    assert len(ignored) == 3 and "\x1b" not in "".join(ignored)
    assert ignored[0].endswith("'hooks'") and "not an object" in ignored[2]


def servers_of(root: Path, **servers: Any) -> tuple[list[str], list[str]]:
    content = json.dumps({"$schema": f"{SCHEMAS}mcp.schema.json", "mcpServers": servers}).encode()
    found, problems = read_servers(content, root, root.parent / "data")
    return list(found), problems


STDIO: dict[str, Any] = {"type": "stdio", "command": "./bin/server"}


@pytest.mark.parametrize(
    "server",
    [
        STDIO,
        {"type": "stdio", "command": "npx", "args": ["-y", "a"], "env": {"A": "${PLUGIN_DATA}/b"}, "cwd": "./bin"},
        {**STDIO, "cwd": "${PLUGIN_ROOT}"},
        {**STDIO, "cwd": "${PLUGIN_DATA}/cache"},
        {"type": "streamable-http", "url": "https://example.com/mcp", "headers": {"X-Tenant": "t"}},
        {"type": "streamable-http", "url": "http://localhost:8080/mcp"},
        {"type": "streamable-http", "url": "http://127.0.0.1/mcp"},
        {"type": "streamable-http", "url": "http://[::1]:1/mcp"},
    ],
)
def test_servers_of_the_specification_are_taken(server: dict[str, Any], tmp_path: Path) -> None:
    assert servers_of(tmp_path, one=server) == (["one"], [])


@pytest.mark.parametrize(
    ("server", "why"),
    [
        ({**STDIO, "command": "../bin/server"}, "neither a name nor a path"),
        ({**STDIO, "command": "/bin/sh"}, "neither a name nor a path"),
        ({**STDIO, "command": "./../bin/server"}, "leads out of the folder"),
        ({**STDIO, "command": "./out/server"}, "leads out of the folder"),
        ({**STDIO, "command": ""}, "command"),
        ({**STDIO, "cwd": "data"}, "does not begin with"),
        ({**STDIO, "cwd": ""}, "does not begin with"),
        ({**STDIO, "cwd": "/tmp"}, "does not begin with"),
        ({**STDIO, "cwd": "./.."}, "cwd leads out"),
        ({**STDIO, "cwd": "./out"}, "cwd leads out"),
        ({**STDIO, "cwd": "${PLUGIN_ROOT}/../x"}, "cwd leads out"),
        ({**STDIO, "cwd": "${PLUGIN_DATA}/../x"}, "cwd leads out"),
        ({**STDIO, "cwd": "${PLUGIN_ROOTS}"}, "does not begin with"),
        ({**STDIO, "env": {"PLUGIN_ROOT": "/"}}, "PLUGIN_ROOT"),
        ({**STDIO, "env": {"A": 1}}, "env"),
        ({**STDIO, "url": "https://example.com"}, "url"),
        ({"command": "./bin/server"}, "type"),
        ({"type": "http", "url": "https://example.com"}, "type|http"),
        ({"type": "sse", "url": "https://example.com"}, "HTTP.SSE is not supported"),
        ({"type": "streamable-http"}, "url"),
        ({"type": "streamable-http", "url": "http://example.com/mcp"}, "needs https"),
        ({"type": "streamable-http", "url": "https://me:pw@example.com/mcp"}, "no user"),
        ({"type": "streamable-http", "url": "https://example.com/mcp#x"}, "no fragment"),
        ({"type": "streamable-http", "url": "ftp://example.com/mcp"}, "needs http"),
        ({"type": "streamable-http", "url": "https://example.com:x/"}, "not an address"),
        ({"type": "streamable-http", "url": "/mcp"}, "needs http"),
        ({"type": "streamable-http", "url": "https://a.example", "headers": {"A": "1", "a": "2"}}, "twice"),
        ({"type": "streamable-http", "url": "https://a.example", "headers": {"A b": "1"}}, "not valid"),
        ({"type": "streamable-http", "url": "https://a.example", "headers": {"A": "1\r\nB: 2"}}, "not valid"),
    ],
)
def test_wrong_server_is_left_out_and_the_others_are_used(server: dict[str, Any], why: str, tmp_path: Path) -> None:
    import re

    root = tmp_path / "plugin"
    root.mkdir()
    (root / "out").symlink_to("/usr/bin")
    found, problems = servers_of(root, good=STDIO, bad=server)
    assert found == ["good"] and len(problems) == 1 and re.search(why, problems[0]), problems


def test_names_that_no_tool_can_have_are_left_out(tmp_path: Path):
    found, problems = servers_of(tmp_path, **{"a b": STDIO, "": STDIO, "x" * 33: STDIO, "ok": STDIO})
    assert found == ["ok"] and len(problems) == 3


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("{", "not a JSON object"),
        ('{"mcpServers": {}}', "names no $schema, not https://agent-plugins.org/"),
        (json.dumps({"$schema": f"{SCHEMAS}plugin.schema.json", "mcpServers": {}}), "not of Agent Plugins"),
        (json.dumps({"$schema": f"{SCHEMAS}mcp.schema.json"}), "mcpServers"),
        (json.dumps({"$schema": f"{SCHEMAS}mcp.schema.json", "mcpServers": []}), "mcpServers"),
        (json.dumps({"$schema": f"{SCHEMAS}mcp.schema.json", "mcpServers": {}, "x": 1}), "nothing else"),
    ],
)
def test_broken_list_of_servers_leaves_the_skills(content: str, why: str, tmp_path: Path) -> None:
    folder = write_plugin(tmp_path / "demo")
    (folder / "mcp.json").write_text(content)
    plugin = load_plugin(folder)
    assert [each.name for each in plugin.skills] == ["summarize"] and not plugin.servers
    assert len(plugin.problems) == 1 and why in plugin.problems[0]


def test_skills_of_a_plugin_must_be_valid(tmp_path: Path):
    folder = write_plugin(tmp_path / "demo", skills=("good", "also"))
    write_skill(folder / "skills", "claude", head="disable-model-invocation: true\nmodel: opus\n")
    write_skill(folder / "skills", "Upper")
    write_skill(folder / "skills/nested", "deep")
    (folder / "skills/link").symlink_to(write_skill(tmp_path / "elsewhere", "link"))
    plugin = load_plugin(folder)
    assert [each.name for each in plugin.skills] == ["also", "claude", "good"]
    assert len(plugin.problems) == 2
    assert "Upper is not used: The name 'Upper' must be in lower case" in plugin.problems[0]
    assert "outside the plugin" in plugin.problems[1]


@pytest.mark.parametrize("link", ["plugin.json", "mcp.json", "skills"])
def test_links_out_of_the_folder_are_refused(link: str, tmp_path: Path) -> None:
    real = write_plugin(tmp_path / "real", servers={"one": STDIO})
    folder = write_plugin(tmp_path / "demo", servers={"one": STDIO})
    if link == "skills":
        (folder / "skills").rename(tmp_path / "moved")
    else:
        (folder / link).unlink()
    (folder / link).symlink_to(real / link)
    if link == "plugin.json":
        with pytest.raises(Rejected, match="outside the folder"):
            load_plugin(folder)
        return
    plugin = load_plugin(folder)
    assert (len(plugin.skills), len(plugin.servers)) == ((0, 1) if link == "skills" else (1, 0))
    assert len(plugin.problems) == 1 and "outside the" in plugin.problems[0]


def test_launch_has_the_two_folders_and_expands_them_once(tmp_path: Path):
    env = {"A": "${PLUGIN_ROOT}/x", "B": "$HOME ${HOME} ${PLUGIN_ROOT"}
    folder = write_plugin(tmp_path / "demo", servers={"one": {**STDIO, "args": ["${PLUGIN_DATA}"], "env": env}})
    plugin = load_plugin(folder)
    launch = launch_server("one", plugin.servers["one"], folder, plugin.data, {"PATH": "/bin"}, tmp_path / "logins")
    assert launch.command == (f"{folder}/bin/server", str(plugin.data)) and launch.directory == str(folder)
    assert launch.environment == {
        "PATH": "/bin",
        "A": f"{folder}/x",
        "B": "$HOME ${HOME} ${PLUGIN_ROOT",
        "PLUGIN_ROOT": str(folder),
        "PLUGIN_DATA": str(plugin.data),
    }


def test_description_shows_all_that_it_brings(tmp_path: Path):
    remote = {"type": "streamable-http", "url": "https://example.com/mcp", "headers": {"X-A": "b"}}
    local = {**STDIO, "args": ["--x"], "env": {"K": "v"}, "cwd": "./bin"}
    folder = write_plugin(
        tmp_path / "demo", servers={"one": local, "two": remote, "three": {"type": "sse", "url": "https://a.example"}},
        version="1.0", description="Shows\x1b[31m things.", hooks=[],
    )  # fmt: skip
    lines = describe_plugin(load_plugin(folder))
    assert "\x1b" not in "".join(lines)
    assert lines[0] == f"demo 1.0 in {folder}"
    assert lines[2:] == [
        "Skills, whose descriptions models get, and whose instructions they follow:",
        "  summarize: What summarize is for.",
        "MCP servers, which start now and with every start:",
        "  one: ./bin/server --x K=v (in ./bin)",
        "  two: https://example.com/mcp X-A=b",
        "Not used: plugin.json has an unknown field 'hooks'.",
        "Not used: its MCP server 'three' is not used: the older transport over HTTP+SSE is not supported.",
    ]
