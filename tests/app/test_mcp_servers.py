"""Tests of the MCP servers that configuration and project make."""

import json
from pathlib import Path

import pytest

from ikigai import config
from ikigai.app import mcp_servers
from ikigai.app.trusted_project import Project
from ikigai.config import toml_file
from ikigai.core.secrets import is_secret

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
    servers, _ = made(text + 'approval = "always"\n', tmp_path)
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
            '[mcp_servers.x]\nurl = "https://b"\ngrant = "client_credentials"\nclient_id = "c"\nclient_key = "/k"\n',
            "needs a url, issuer, client_id",
        ),
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
        b'{"mcpServers": {"p": {"command": "npx", "args": ["-y", "x"], "env": {"K": "v"}}, '
        b'"q": {"url": "https://h", "headers": {"X": "y"}}}}'
    )
    assert mcp_servers.describe_project_servers(content) == ["  p: npx -y x K=v", "  q: https://h X=y"]
    assert mcp_servers.describe_project_servers(b"nonsense") == []
