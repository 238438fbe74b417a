"""Commands get the variables that a list names, and the variables of `[tools] env`."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from ikigai.app.tools.tool_runtime import ToolRuntime
from ikigai.config.key_table import Config
from ikigai.config.records import ToolSettings
from ikigai.tools.shell.environment import FIXED_VALUES, command_environment
from ikigai.tools.shell.run_command import run

PASSED = {
    "PATH": "/bin", "HOME": "/h", "LANG": "C", "LC_ALL": "C", "SSH_AUTH_SOCK": "/s", "GOPATH": "/go", "CI": "true",
    "VIRTUAL_ENV": "/v", "XDG_RUNTIME_DIR": "/run/user/1", "JAVA_HOME": "/j", "DISPLAY": ":0", "NO_PROXY": "localhost",
    "https_proxy": "http://me:secret@proxy:3128", "GREP_COLORS": "mt=1", "LOCALE_ARCHIVE": "/l", "PERL5LIB": "/p",
}  # fmt: skip
SECRET = {
    "OPENAI_API_KEY": "s", "DATABASE_URL": "s", "IKIGAI_DATABASE_URL": "s", "IKIGAI_CONFIG": "s", "PGPASSWORD": "s",
    "PGPASSFILE": "s", "PGHOST": "s", "PGSERVICE": "s", "MYSQL_PWD": "s", "GITHUB_PAT": "s", "SMTP_PASS": "s",
    "REDIS": "redis://:hunter2@host/0", "QUEUE": "amqp://me:hunter2@host", "XDG_TOKEN": "s",
    "PIP_INDEX_URL": "https://me:hunter2@pypi.lan/simple", "MY_MODEL": "the name that api_key_env says",
}  # fmt: skip
STEERING = [
    "CDPATH", "RIPGREP_CONFIG_PATH", "GLOBIGNORE", "GREP_OPTIONS", "LESSOPEN", "LESSCLOSE", "LD_PRELOAD",
    "LD_LIBRARY_PATH", "BASH_ENV", "ENV", "IFS", "DYLD_INSERT_LIBRARIES", "PROMPT_COMMAND", "GIT_SSH_COMMAND",
    "GIT_DIR", "BASH_FUNC_l%%", "SHELLOPTS", "BASHOPTS", "POSIXLY_CORRECT", "NODE_OPTIONS", "PYTHONSTARTUP", "MAGIC",
    "DBUS_SESSION_BUS_ADDRESS", "A_NAME_NOBODY_KNOWS",
]  # fmt: skip


def test_command_gets_the_listed_variables_without_secrets():
    assert command_environment({**PASSED, **SECRET, "TERM": "xterm", "PAGER": "less"}, ["MY_MODEL"]) == {
        **PASSED,
        **FIXED_VALUES,
    }


@pytest.mark.parametrize("name", STEERING)
def test_variable_that_steers_programs_passes_only_when_it_is_named(name: str):
    assert command_environment({name: "x"}) == FIXED_VALUES
    assert command_environment({name: "x"}, env=[name]) == {**FIXED_VALUES, name: "x"}


@pytest.mark.parametrize(
    "value",
    [
        "https://hunter2@pypi.lan/simple", "https://me:hunter2@pypi.lan/simple", "https://:hunter2@pypi.lan/simple",
        "git+https://hunter2@github.com/a/b", "https://a.lan,https://hunter2@b.lan", "https://host/?token=hunter2",
        "https://host/simple?v=1&access-token=hunter2", "https://host/c?sv=1&sig=hunter2", "redis://:hunter2@host",
        "DefaultEndpointsProtocol=https;AccountName=me;AccountKey=hunter2", "Server=host;Uid=me;Pwd=hunter2",
        "host=db user=me password=hunter2", "Endpoint=sb://h/;SharedAccessSignature=hunter2", "ssh://me:hunter2@host",
    ],
)  # fmt: skip
def test_value_with_credentials_passes_only_by_its_exact_name(value: str):
    assert (
        command_environment({"PIP_INDEX_URL": value, "GOPROXY": value, "MY_QUEUE": value}, env=["MY_*"]) == FIXED_VALUES
    )
    assert command_environment({"MY_QUEUE": value}, env=["MY_QUEUE"]) == {**FIXED_VALUES, "MY_QUEUE": value}


@pytest.mark.parametrize(
    "value",
    [
        "https://pypi.lan/simple", "https://pypi.lan:8080/simple?v=1", "ssh://me@host", "git+ssh://git@host/a",
        "https://proxy.golang.org,direct", "-O2 -DKEY=1 --cfg a=b", "https://host/a@1.2", "tcp://127.0.0.1:2375",
    ],
)  # fmt: skip
def test_value_without_credentials_passes(value: str):
    assert command_environment({"DOCKER_HOST": value}) == {**FIXED_VALUES, "DOCKER_HOST": value}


GIT_THAT_EDITS = [
    "git commit", "git commit --amend", "git tag -a v1", "git rebase -i HEAD~1", "git branch --edit-description",
    "git notes add", "git config --edit", "git revert --edit HEAD", "git merge --edit side", "git cherry-pick -e side",
]  # fmt: skip


@pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")
@pytest.mark.parametrize("command", GIT_THAT_EDITS)
async def test_git_fails_at_once_where_its_configuration_names_an_editor(tmp_path: Path, command: str) -> None:
    (tmp_path / ".gitconfig").write_text(
        '[user]\nname = a\nemail = a@b\n[core]\neditor = "sleep 60; :"\n[sequence]\neditor = "sleep 60; :"\n'
    )
    environment = command_environment({"PATH": os.environ["PATH"], "HOME": str(tmp_path)})
    made = (
        "git init -q; for n in 1 2; do date > f$n; git add .; git commit -qm $n; done; git checkout -qb side HEAD~1; "
    )
    made += "date > side; git add .; git commit -qm side; git checkout -q -; date >> f1; git add ."
    made += "" if "commit" in command.split() else "; git stash -q"
    assert (await run(made, tmp_path, environment)).status == 0
    ended = await run(command, tmp_path, environment, timeout=10)
    assert not ended.timed_out and ("editor 'false'" in ended.text or ended.status), ended


@pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")
@pytest.mark.parametrize(
    "command",
    [
        "git difftool HEAD~1",
        "git difftool -y -g HEAD~1",
        "git difftool --dir-diff HEAD~1",
        "git mergetool",
        "git mergetool -y",
        "git mergetool -g -y",
    ],
)
async def test_git_fails_at_once_where_its_configuration_names_a_tool_with_a_window(
    tmp_path: Path, command: str
) -> None:
    (tmp_path / ".gitconfig").write_text(
        "[user]\nname = a\nemail = a@b\n[init]\ndefaultBranch = main\n[diff]\ntool = waits\nguitool = waits\n"
        "[merge]\ntool = waits\nguitool = waits\n[difftool]\nprompt = false\n[mergetool]\nprompt = false\n"
        '[difftool "waits"]\ncmd = sleep 60\n[mergetool "waits"]\ncmd = sleep 60\n'
    )
    environment = command_environment({"PATH": os.environ["PATH"], "HOME": str(tmp_path)})
    made = "git init -q; echo 1 > f; git add f; git commit -qm 1; git checkout -qb side; "
    made += "echo 2 > f; git commit -qam 2; git checkout -q main; echo 3 > f; git commit -qam 3; git merge -q side; "
    made += "git status -s"
    assert "UU f" in (await run(made, tmp_path, environment)).text
    ended = await run(command, tmp_path, environment, timeout=10)
    assert not ended.timed_out and ended.status, ended


def test_each_program_that_asks_has_its_fixed_value() -> None:
    assert {name: FIXED_VALUES[name] for name in ("GIT_EDITOR", "GIT_PAGER", "GIT_TERMINAL_PROMPT", "SSH_ASKPASS")} == {
        "GIT_EDITOR": "false", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0", "SSH_ASKPASS": "false",
    }  # fmt: skip
    given = {"GIT_EDITOR": "vim", "DEBIAN_FRONTEND": "dialog", "SSH_ASKPASS": "/usr/bin/ksshaskpass"}
    assert command_environment(given) == FIXED_VALUES
    assert command_environment(given, env=["GIT_EDITOR"])["GIT_EDITOR"] == "vim"


def test_named_variable_goes_before_the_fixed_value():
    assert command_environment({"PAGER": "less", "GIT_PAGER": "less"}, env=["PAGER"]) == {
        **FIXED_VALUES,
        "PAGER": "less",
    }


def test_start_of_names_passes_all_but_secrets():
    given = {"AWS_REGION": "x", "AWS_PROFILE": "p", "AWS_SESSION_TOKEN": "s", "AWS_DSN_OF": "db://me:hunter2@host"}
    passed = {"AWS_REGION": "x", "AWS_PROFILE": "p"}
    assert command_environment({**given, "AWSX": "x"}, env=["AWS_*"]) == {**FIXED_VALUES, **passed}
    assert command_environment(given, ["AWS_REGION"], env=["AWS_*"]) == {**FIXED_VALUES, "AWS_PROFILE": "p"}


def test_secret_passes_by_its_exact_name():
    given = {"GITHUB_TOKEN": "s", "GITLAB_TOKEN": "s"}
    assert command_environment(given, env=["GITHUB_TOKEN"]) == {**FIXED_VALUES, "GITHUB_TOKEN": "s"}
    assert command_environment(given, ["GITHUB_TOKEN"], env=["GIT*"]) == FIXED_VALUES


def test_tool_runtime_passes_what_the_configuration_names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("KUBECONFIG", "/k")
    monkeypatch.setenv("CDPATH", "/c")
    assert "KUBECONFIG" not in ToolRuntime(Config(), tmp_path).environment
    environment = ToolRuntime(Config(tools=ToolSettings(env=("KUBECONFIG",))), tmp_path).environment
    assert environment["KUBECONFIG"] == "/k" and "CDPATH" not in environment
