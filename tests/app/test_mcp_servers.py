"""Tests of the MCP servers that configuration and project make."""

import json
from pathlib import Path

import pytest

from ikigai import config
from ikigai.app.project import project_servers
from ikigai.app.project.trusted_project import Project
from ikigai.app.tools import mcp_servers
from ikigai.app.tools.tool_runtime import ToolRuntime
from ikigai.config import toml_file
from ikigai.core.secrets.secret_variables import is_secret

ENVIRONMENT = {"PATH": "/bin"}


def made(text: str, folder: Path, project: Project | None = None) -> tuple[dict[str, mcp_servers.McpServer], list[str]]:
    problems = list[str]()
    file = folder / "config.toml"
    settings = config.build(toml_file.parse(file, text.encode()), file, {}, {})
    servers = mcp_servers.make_servers(settings, project, folder, ENVIRONMENT, is_secret, problems)
    return (servers.servers if servers else {}), problems


def trusted(folder: Path, servers: object) -> Project:
    (folder / ".mcp.json").write_text(json.dumps({"mcpServers": servers}))
    project = Project(folder, folder / "trusted.json")
    project.trust(0)
    return project


def test_table_makes_a_command_with_its_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DB_TOKEN", "secret")
    text = '[mcp_servers.db]\ncommand = "~/db"\nargs = ["-v"]\nenv = { TOKEN = "env:DB_TOKEN", MODE = "ro" }\n'
    servers, problems = made(text + 'approved_tools = ["read_*"]\n', tmp_path)
    launch = servers["db"].launch
    assert launch.command == (str(Path.home() / "db"), "-v") and launch.directory == str(tmp_path)
    assert launch.environment == {"PATH": "/bin", "TOKEN": "secret", "MODE": "ro"}
    assert servers["db"].approved("read_row") and not servers["db"].approved("drop")
    assert problems == [] and servers["db"].place.endswith("config.toml:1")
    servers, _ = made(text + 'approved_tools = ["*"]\n', tmp_path)
    assert servers["db"].approved("drop")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[mcp_servers.x]\nstartup_seconds = 3\n", "needs a command or a url"),
        ('[mcp_servers.x]\ncommand = "a"\nurl = "https://b"\n', "needs a command or a url"),
        ('[mcp_servers.x]\ncommand = "a"\nenv = { A = "env:MISSING" }\n', "MISSING"),
        (
            '[mcp_servers.x]\nurl = "https://b"\nheaders = { Authorization = "env:MISSING_VARIABLE" }\n',
            "MISSING_VARIABLE",
        ),
        (
            '[mcp_servers.x]\nurl = "https://b"\nclient_id = "c"\nclient_key = "/k"\n',
            "without a user needs a url, issuer, client_id",
        ),
        (
            '[mcp_servers.x]\nurl = "https://b"\nissuer = "https://i"\nclient_id = "c"\n',
            "either client_secret or client_key",
        ),
        ('[mcp_servers.x]\ncommand = "a"\nissuer = "https://i"\nclient_id = "c"\nclient_key = "/k"\n', "needs a url"),
    ],
)
def test_unusable_table_is_told_and_the_others_are_used(text: str, problem: str, tmp_path: Path) -> None:
    servers, problems = made(f'{text}[mcp_servers.good]\ncommand = "a"\n', tmp_path)
    assert list(servers) == ["good"] and problem in problems[0]


def test_server_that_is_switched_off_is_none(tmp_path: Path) -> None:
    assert made('[mcp_servers.x]\ncommand = "a"\nenabled = false\n', tmp_path) == ({}, [])


def test_project_is_used_once_it_is_trusted_and_only_as_it_was(tmp_path: Path) -> None:
    (tmp_path / ".mcp.json").write_text('{"mcpServers": {"p": {"command": "run"}}}')
    project = Project(tmp_path, tmp_path / "trusted.json")
    assert made("", tmp_path, project) == ({}, [])
    assert ".mcp.json" in project.contents
    project = trusted(tmp_path, {"p": {"command": "run", "args": ["x"]}})
    servers, _ = made("", tmp_path, project)
    assert servers["p"].launch.command == ("run", "x") and servers["p"].project and not servers["p"].approved("any")
    (tmp_path / ".mcp.json").write_text('{"mcpServers": {"p": {"command": "evil"}}}')
    assert made("", tmp_path, project) == ({}, []) and "changed since" in project.problems[0]


def test_project_gets_no_key_of_ikigai_and_never_replaces_a_server_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
    monkeypatch.setenv("REGION", "eu")
    listed = {
        "p": {"url": "https://h/${REGION}/${MISSING:-x}", "headers": {"Authorization": "Bearer ${ANTHROPIC_API_KEY}"}},
        "mine": {"command": "other"},
        "a_b": {"command": "x"},
        "old": {"type": "sse", "url": "https://h"},
    }
    servers, problems = made('[mcp_servers.mine]\ncommand = "own"\n', tmp_path, trusted(tmp_path, listed))
    assert servers["p"].launch.url == "https://h/eu/x" and servers["p"].launch.headers == {"Authorization": "Bearer "}
    assert servers["mine"].launch.command == ("own",) and set(servers) == {"p", "mine"}
    assert len(problems) == 3 and any("mine, too: yours is used" in problem for problem in problems)


def test_trust_question_shows_each_server_in_full() -> None:
    content = (
        b'{"mcpServers": {"p": {"command": "npx", "args": ["-y", "x"], "env": {"K": "v"}, "cwd": "sub"}, '
        b'"q": {"url": "https://h/${A_TOKEN}", "headers": {"X": "${env:A_TOKEN}", "Y": "${REGION}"}}, '
        b'"off": {"command": "x", "disabled": true}}, "servers": {"r": {"command": "s"}}}'
    )
    assert project_servers.describe_project_servers(content) == [
        "  r: s",
        "  p: npx -y x K=v (in sub)",
        "  q: https://h/${A_TOKEN} X=${env:A_TOKEN} Y=${REGION} (without A_TOKEN: it may hold a key)",
    ]
    assert project_servers.describe_project_servers(b"nonsense") == []
    content = b'{"servers": {"p": {"command": "x", "env": {"A": "./evil"}, "headers": {"A": "no"}}}}'
    assert project_servers.describe_project_servers(content) == ["  p: x A=./evil A=no"]


def test_project_gets_no_variable_with_a_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its name, as the key of a provider, by a login in its value, and with the value of a key of ikigai's own."""
    values = {
        "REGION": "eu",
        "CORP_LLM": "of-the-provider",
        "OTHER_NAME": "of-the-provider",
        "SERVICE_URL": "https://user:pw@h/",
        "DB": "Server=h;AccountKey=abc",
        "TEAM_HEADER": "of-a-header",
        "A_TOKEN": "abc",
        "WITH_SCHEME": "Bearer of-the-provider",
        "OF_ANOTHER": "ghp_a8Kd0Lw2Qz7Xc1Vb5Nm9Rt3Yu6Pi4Oe8Gh2J",
        "HTTPS_PROXY": "http://user:pw@h:1",
    }
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    text = (
        '[providers.corp]\nbase_url = "http://h/v1"\napi_key_env = "CORP_LLM"\n'
        'headers = { "X-Team" = "env:TEAM_HEADER" }\n'
    )
    file = tmp_path / "config.toml"
    settings = config.build(toml_file.parse(file, text.encode()), file, {}, {})
    runtime = ToolRuntime(settings, tmp_path)
    listed = {"p": {"url": "https://h", "headers": {name: f"${{{name}}}" for name in values}}}
    runtime.add_servers(trusted(tmp_path, listed))
    assert runtime.mcp
    sent = runtime.mcp.servers["p"].launch.headers
    assert sent == {name: "eu" if name == "REGION" else "" for name in values}
    (line,) = project_servers.describe_project_servers(
        (tmp_path / ".mcp.json").read_bytes(), runtime.redaction.withholds
    )
    withheld = [name for name in values if name != "REGION"]
    assert line.endswith(f"(without {', '.join(withheld)}: it may hold a key)")
    environment = runtime.environment
    assert "CORP_LLM" not in environment and environment["HTTPS_PROXY"] == values["HTTPS_PROXY"]


GOOD = {"command": "run"}
BAD_SERVERS = {
    "a number in env": ({"command": "x", "env": {"PORT": 3000}}, "Expected `str`, got `int` - at `$.env[...]`"),
    "no args": ({"command": "x", "args": None}, "Expected `array`, got `null` - at `$.args`"),
    "a number in args": ({"command": "x", "args": ["-p", 1]}, "$.args[1]"),
    "args as a text": ({"command": "x", "args": "-p"}, "$.args"),
    "a list as command": ({"command": ["x"]}, "$.command"),
    "a list as headers": ({"url": "https://h", "headers": ["A: b"]}, "$.headers"),
    "a text": ("run", "Expected `object`, got `str`"),
    "nothing": (None, "Expected `object`, got `null`"),
    "sse": ({"type": "sse", "url": "https://h"}, "HTTP+SSE is not supported"),
    "another type": ({"type": "ws", "url": "https://h"}, "its type 'ws' is not known"),
    "a type of the other kind": ({"type": "http", "command": "x"}, "goes with a url"),
    "both": ({"url": "https://h", "command": "x"}, "and not both"),
    "neither": ({"args": ["x"]}, "needs a command"),
}


@pytest.mark.parametrize("kind", BAD_SERVERS)
def test_server_that_cannot_be_used_is_named_and_the_others_are_used(tmp_path: Path, kind: str) -> None:
    bad, words = BAD_SERVERS[kind]
    servers, problems = made("", tmp_path, trusted(tmp_path, {"first": GOOD, "theirs": bad, "last": GOOD}))
    assert list(servers) == ["first", "last"]
    (problem,) = problems
    assert problem.startswith(".mcp.json has a server 'theirs' that cannot be used: ") and words in problem


@pytest.mark.parametrize(
    ("entry", "where"),
    [
        ({"type": "stdio", "command": "x", "timeout": 60, "alwaysAllow": ["a"], "autoApprove": None}, "x"),
        ({"type": "http", "url": "https://h"}, "https://h"),
        ({"type": "streamable-http", "url": "https://h", "timeout": 5000}, "https://h"),
        ({"type": "streamableHttp", "url": "https://h"}, "https://h"),
        ({"transport": "streamable_http", "url": "https://h"}, "https://h"),
        ({"httpUrl": "https://h", "trust": False}, "https://h"),
        ({"serverUrl": "https://h"}, "https://h"),
        ({"command": "x", "disabled": False, "enabled": True, "description": "d"}, "x"),
        ({"command": "x", "disabled": True}, ""),
        ({"command": "x", "enabled": False}, ""),
        ({"type": "sse", "url": "https://h", "disabled": True}, ""),
    ],
)
def test_entries_of_other_programs(tmp_path: Path, entry: dict[str, object], where: str) -> None:
    servers, problems = made("", tmp_path, trusted(tmp_path, {"p": entry}))
    found = [" ".join(each.launch.command) or each.launch.url for each in servers.values()]
    assert (found, problems) == ([where] if where else [], [])


@pytest.mark.parametrize(
    "content",
    [
        '\ufeff{"mcpServers": {"p": {"command": "x"}}}',
        '{"servers": {"p": {"command": "x"}}, "inputs": []}',
        '{ // mine\n"mcpServers": { /* of the\n team */ "p": {"command": "x", "args": ["a",],}, }, }',
        '{"mcpServers": {"p": {"command": "x", "env": {"U": "http://h//, ]"}}}}',
    ],
)
def test_files_of_other_programs(tmp_path: Path, content: str) -> None:
    (tmp_path / ".mcp.json").write_text(content)
    project = Project(tmp_path, tmp_path / "trusted.json")
    project.trust(0)
    servers, problems = made("", tmp_path, project)
    assert list(servers) == ["p"] and problems == []
    assert servers["p"].launch.environment.get("U", "http://h//, ]") == "http://h//, ]"


@pytest.mark.parametrize("content", ["", "[]", "nonsense", '{"mcpServers": []}', '{"servers": 3}', "[" * 9_000])
def test_file_that_is_none_is_told(tmp_path: Path, content: str) -> None:
    (tmp_path / ".mcp.json").write_text(content)
    project = Project(tmp_path, tmp_path / "trusted.json")
    project.trust(0)
    servers, problems = made("", tmp_path, project)
    assert servers == {} and all(problem.startswith(".mcp.json is not used: ") for problem in problems)
    assert bool(problems) is bool(content)


def test_directory_of_a_server_begins_at_the_project(tmp_path: Path) -> None:
    listed = {"p": {"command": "x", "cwd": "sub"}, "q": {"command": "x", "cwd": "/else"}, "r": GOOD}
    listed["s"] = {"command": "x", "cwd": "~nobody-of-that-name/x"}
    servers, _ = made("", tmp_path, trusted(tmp_path, listed))
    places = [str(tmp_path / "sub"), "/else", str(tmp_path), str(tmp_path / "~nobody-of-that-name/x")]
    assert [each.launch.directory for each in servers.values()] == places
