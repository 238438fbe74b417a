"""A rule for later is offered for safe commands alone, and nothing but operands follows it."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from ikigai.tools.approval import star_rules
from ikigai.tools.approval.path_policy import PathScope
from tests import GOLDEN
from tests.tools import project

OFFERED = {
    "git status": "git status *",
    "git status src README.md": "git status *",
    "git status -s --porcelain=v2 src": "git status -s --porcelain=v2 *",
    "git log --oneline -5 main": "git log --oneline -5 *",
    "git ls-files src": "git ls-files *",
    "ls -la src": "ls -la *",
    "cat README.md src/app.py": "cat *",
    "head -5 README.md": "head -5 *",
    "grep -n main src/app.py": "grep -n *",
    "sed -n 1,3p README.md": "sed -n *",
    "wc -l README.md": "wc -l *",
}
NEVER_OFFERED = (
    *("git", "git push", "git diff", "git show", "git blame README.md", "git add x", "git commit", "git grep x"),
    *("git -c core.pager=id log", "git -C . status", "git --exec-path=. status", "git log -p", "git log --output=x"),
    *("git log --ext-diff", "git status -v", "git log -L1,2:README.md", "git branch x", "git config x", "git stash"),
    *("rm x", "touch x", "mv a b", "tee x", "curl x", "npm test", "make x", "pytest tests", "cargo test", "go test"),
    *("python x.py", "bash x", "env ls", "xargs ls", "nice ls", "time ls", "sudo ls", "find . -exec rm x", "./run.sh"),
    *("head -n 5 README.md", "grep -e main README.md", "sort -k 2 data.csv", "ls src -la", "cat -- README.md"),
    *("cat .env", "cat .git/config", "cat ../outside/private.txt", "cat link.txt", "ls linked", "cat /etc/passwd"),
    *("cat *.md", "cat README.m?", "ls -la *", "git status '*'", "git status src | cat", "git status > x"),
    *("git status 2>&1", "git status >/dev/null", "git status # x", "git status; git log", "git status && ls"),
    *("git status &", "git status $HOME", "git status $(id)", "git status `id`", "git status ~", "A=1 git status"),
    *("git status {a,b}", "git status <x", "(git status)", "! git status", "git status\ngit log", "git status \\\nx"),
    *("pwd", "whoami", "cd src", "", "   ", "git status 'a b'", "git status ''", "ls -I '*.py' src", "rg -g x main"),
)
"""No safe rule: other programs, options with a word of their own behind, and everything that is more than operands."""
NEVER_FOLLOWS = {
    "git status *": (
        *("git status -s", "git status --ignored", "git status --", "git status -- x", "git status src -s", "git log"),
        *(
            "git statusx",
            "git  -c a=b status",
            "git stat",
            "gitstatus",
            "git status x=y",
            "git status a:b",
            "git status @x",
        ),
        *("git status :/", "git status +x", "git status *", "git status x*", "git status '?'", "git status ../outside"),
        *(
            "git status /etc",
            "git status .env",
            "git status .git",
            "git status linked/private.txt",
            "git status link.txt",
        ),
        *("git status inner/../../outside", "git status x\u00a0y", "git status х", "git status\t-s", 'git status "-s"'),
        *(
            "git status $'-s'",
            "git status \\-s",
            "git status -\\s",
            "git 'status' -s",
            "echo git status",
            "git status|sh",
        ),
        *(
            "git status\nrm x",
            "git status;rm x",
            "git status&rm x",
            "git status>x",
            "git status <<E\nE",
            "git status\r-s",
        ),
    ),
    "cat *": ("cat -n README.md", "cat .env", "cat src/--pre=run.sh -A", "cat ./-x -n", "cats README.md"),
    "sed -n *": ("sed -n w", "sed -n wout README.md", "sed -n e README.md", "sed -n 1,2p -i README.md", "sed -i 1p x"),
    "head -5 *": ("head -50 README.md", "head -n 5 README.md", "head -5 -c 1 README.md"),
    "uniq *": ("uniq README.md data.csv",),
    "sort *": ("sort -o README.md data.csv", "sort --compress-program=sh data.csv", "sort -T src data.csv"),
    "find *": ("find . -delete", "find src -exec rm x", "find . -fprint x", "find ( src )"),
    "rm *": ("rm README.md", "rm x"),
    "npm test *": ("npm test", "npm test x"),
    "git diff --output *": ("git diff --output README.md",),
    "head -n *": ("head -n README.md", "head -n 5 README.md"),
    "git status": ("git status", "git status src"),
    "git * *": ("git status src", "git * src"),
    "*": ("ls", "rm README.md", "*"),
    "": ("ls", ""),
}
"""Commands that break a rule. Rules that are never offered, as another program may store them, hold for nothing."""
BYPASS = [
    command
    for commands in tomllib.loads((GOLDEN / "approval_bypass.toml").read_text("utf-8")).values()
    for command in commands
    if command not in ("git status", "git log")
]
RULES = ("git status *", "git log *", "ls *", "ls -la *", "cat *", "grep *", "rg *", "find *", "sed -n *", "echo *")


@pytest.fixture(scope="module")
def scope(tmp_path_factory: pytest.TempPathFactory) -> PathScope:
    folder = tmp_path_factory.mktemp("rules")
    names = {command.split()[0] for command in OFFERED} | {"find", "uniq", "sort", "rg", "rm", "npm", "echo"}
    programs, _ = project.recorders(folder, names)
    return project.place(project.made(folder), programs)


@pytest.mark.parametrize("command", OFFERED)
def test_rule_is_offered_and_takes_other_operands(scope: PathScope, command: str):
    rule = star_rules.offer_rule(command, scope, scope.root)
    assert rule == OFFERED[command]
    assert star_rules.follows_rule(rule, command, scope, scope.root)
    operands = "2p data.csv" if rule.startswith("sed") else "data.csv"
    assert star_rules.follows_rule(rule, f"{rule[:-1]}{operands}", scope, scope.root)
    assert not star_rules.follows_rule(rule, command, scope, str(Path(scope.root).parent))


@pytest.mark.parametrize("command", NEVER_OFFERED)
def test_no_rule_is_offered_where_none_is_safe(scope: PathScope, command: str):
    assert star_rules.offer_rule(command, scope, scope.root) == ""


@pytest.mark.parametrize(
    ("rule", "command"), [(rule, each) for rule, commands in NEVER_FOLLOWS.items() for each in commands]
)
def test_command_that_is_more_than_operands_does_not_follow(scope: PathScope, rule: str, command: str):
    assert not star_rules.follows_rule(rule, command, scope, scope.root)


def test_no_command_of_the_bypass_corpus_follows_a_rule(scope: PathScope):
    assert not [each for each in BYPASS if star_rules.find_rule(RULES, each, scope, scope.root)]


def test_program_of_the_project_has_no_rule(scope: PathScope):
    own = Path(scope.root) / "bin"
    own.mkdir()
    (own / "git").write_text("#!/bin/sh\n")
    (own / "git").chmod(0o755)
    for path in (f"{own}:{scope.path}", f"bin:{scope.path}", "/nowhere"):
        assert star_rules.offer_rule("git status", PathScope(scope.root, scope.own, path), scope.root) == ""
