"""Wildcards at the beginning of a word, `< FILE`, `cd`, folders compared: what passes, and that it runs harmlessly."""

from __future__ import annotations

import os
import shlex
import subprocess
import tomllib
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ikigai.tools.approval import star_rules
from ikigai.tools.approval.allowlist import Allowlist, AllowVerdict
from ikigai.tools.approval.path_policy import PathScope, protection_reason
from ikigai.tools.files.search import ripgrep
from tests import GOLDEN
from tests.support.examples import examples
from tests.tools import project
from tests.tools.approval.test_allowlist import OWN
from tests.tools.approval.test_star_rules import RULES

HOSTILE: dict[str, list[str]] = tomllib.loads((GOLDEN / "approval_hostile.toml").read_text("utf-8"))
"""Commands that no allow-list may approve beside the snares of the project, by the trick in them."""
HARMLESS: dict[str, list[str]] = tomllib.loads((GOLDEN / "approval_harmless.toml").read_text("utf-8"))
PROGRAMS = f"{Path(ripgrep.program()).parent}:/usr/bin:/bin"


@pytest.fixture(scope="module")
def snared(tmp_path_factory: pytest.TempPathFactory) -> PathScope:
    """Return the scope of a project with names like options and like code, keys, links that lead out, and a pipe."""
    root = project.made(tmp_path_factory.mktemp("snared"))
    project.snares(root)
    return PathScope(str(root), (), PROGRAMS)


def judged(command: str, place: PathScope) -> AllowVerdict:
    return Allowlist().judge(command, place, place.root)


def output_of(command: str, place: PathScope) -> str:
    """Return what bash and the programs of this machine print for a command, which must change nothing."""
    before = project.snapshot(Path(place.root).parent)
    done = subprocess.run(
        ["/bin/bash", "--noprofile", "--norc", "-c", command],
        cwd=place.root,
        env={"PATH": place.path, "LC_ALL": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=20,
        check=False,
    )
    assert project.snapshot(Path(place.root).parent) == before, command
    return (done.stdout + done.stderr).decode(errors="replace")


@pytest.mark.parametrize("group", HOSTILE)
def test_nothing_of_the_hostile_corpus_is_approved(group: str, snared: PathScope):
    for command in HOSTILE[group]:
        for own in ((), OWN):
            assert not Allowlist(own).judge(command, snared, snared.root).approved, command
        assert not star_rules.find_rule(RULES, command, snared, snared.root), command


def test_hostile_corpus_is_large_and_says_nothing_twice():
    bypass = tomllib.loads((GOLDEN / "approval_bypass.toml").read_text("utf-8"))
    commands = [command for corpus in (HOSTILE, bypass) for group in corpus.values() for command in group]
    assert len(commands) == len(set(commands)) and sum(map(len, HOSTILE.values())) >= 500


def test_daily_use_of_wildcards_and_inputs_is_approved(tmp_path: Path):
    root = project.made(tmp_path)
    for name in ("node", "npm", "python3"):
        (tmp_path / name).touch()
    place = PathScope(str(root), (), PROGRAMS)
    refused = {command: judged(command, place).why for command in HARMLESS["with_wildcards_and_inputs"]}
    refused = {command: why for command, why in refused.items() if not why.startswith("allow-list")}
    missing = {command for command, why in refused.items() if why.endswith("is not installed")}
    assert set(refused) == missing and len(missing) < 5, refused


BESIDE_SNARES = (
    *("cd odd && ls *", "cd odd && ls -la *", "cd odd && cat *", "cd odd && wc -l *", "cd odd && grep main *"),
    *("cd odd && head -n 1 *.txt", "cd odd && stat -c %n *", "cd odd && du -sh *", "cd odd && basename -a *"),
    *("cd odd && md5sum *", "cd odd && tail -n 1 ?*", "cd odd && cat a* *.txt", "cd odd && realpath *", "cat odd/*"),
    *("cd odd && paste -s *", "cd odd && echo *", "cd odd && ls ./*", "cd odd && sort ./*", "cd odd && rg main ./*"),
    *("cd dash && cat -- *", "cd dash && ls ./*", "cd dash && ls -- * -n", "cd dash && wc -l a*", "cd dash && echo *"),
    *("cd dash && grep main -- *", "cd dash && cat *a.md", "cd dashes && ls a*", "ls dash/*", "cat dash/*", "cat *.md"),
    *("wc -c < dash/--pre=run.sh", "wc -c < dash/-n", "cat < 'odd/a b.txt'", "cat < 'odd/$(touch made).txt'"),
    *(
        "cat < 'odd/a|sh.txt'",
        "cat < 'odd/`touch made`.txt'",
        "tr a b < odd/\\;touch\\ made\\;.txt",
        "cat < odd/\\>made.txt",
    ),
    *("cat < 'odd/~.txt'", "cat < odd/\\*.txt", "cat < odd/\\{a,b\\}.txt", "cat < odd/\\~.txt", "cat < 'odd/!!.txt'"),
    *(
        "sed -n '1p;5p' odd/a*",
        "sed -n '$=' 'odd/;touch made;.txt'",
        "sed -n '1p; 2,$p' dash/a.md",
        "sed -n '1=;1p' README.md",
    ),
    *(
        "cd odd && ls && cd .. && cat README.md",
        "cd dash && ls ./* || cat README.md",
        "cd src && ls ./* && cd .. && ls docs",
    ),
    *(
        "diff -r dash odd",
        "diff -r odd dash | head -50",
        "diff dash odd",
        "diff -rN odd src",
        "command -v ls",
        "hostname",
    ),
    *("grep -rn --exclude-dir=.git --exclude=.env --exclude=server.pem main . ",),
    *("grep -rn --exclude-dir=.git --exclude='.e*' --exclude-dir=keys main .", "test -a README.md && ls dash/*"),
)


def test_what_is_approved_beside_snares_runs_harmlessly(snared: PathScope):
    """Run each by bash and the programs of this machine: nothing is written, run, or read elsewhere."""
    for command in BESIDE_SNARES:
        assert judged(command, snared).approved, (command, judged(command, snared).why)
    ran = [command for command in (*BESIDE_SNARES, *chain(*HARMLESS.values())) if judged(command, snared).approved]
    assert len(ran) > 180
    for command in ran:
        told = output_of(command, snared)
        assert "canary" not in told and "root:" not in told and "invalid option" not in told, (command, told)


@pytest.mark.parametrize("name", ["-n", "--files0-from=x", "-", "-é", "a/-x", "-/x.py"])
def test_file_tools_ask_before_they_make_a_name_like_an_option(name: str):
    """So no agent can make one between the verdict on a wildcard and the run."""
    assert protection_reason(PathScope("/srv/p"), f"/srv/p/{name}")


def test_wildcard_is_judged_by_the_names_of_this_moment(tmp_path: Path):
    place = PathScope(str(tmp_path.resolve()), (), PROGRAMS)
    assert "matches nothing" in judged("cat *.txt", place).why
    (tmp_path / "a.txt").touch()
    assert judged("cat *.txt", place).approved
    (tmp_path / "-n.txt").touch()
    assert "named like an option; write ./*.txt" in judged("cat *.txt", place).why
    assert judged("cat ./*.txt", place).approved
    (tmp_path / "-n.txt").rename(tmp_path / "secret.txt")
    assert "looks like a file with keys" in judged("cat *.txt", place).why
    (tmp_path / "secret.txt").unlink()
    (tmp_path / "b.txt").symlink_to("/etc/passwd")
    assert "outside the working directory" in judged("cat *.txt", place).why


def test_program_of_the_users_rules_may_make_names(snared: PathScope):
    for command in ("npm test && ls *.md", "ls *.md; npm test"):
        why = Allowlist(OWN).judge(command, snared, snared.root).why
        assert why == "npm may make a file named like an option; write ./*.md"
    assert Allowlist(OWN).judge("npm test && ls ./*.md", snared, snared.root).approved


@pytest.mark.parametrize("kind", ["pipe", "folder", "nothing", "link out", "key", "link to a key"])
def test_input_is_a_readable_file_inside(kind: str, tmp_path: Path):
    place = PathScope(str(tmp_path.resolve()), (), PROGRAMS)
    (tmp_path / "server.pem").touch()
    (tmp_path / "a").write_text("x\n")
    assert judged("wc -c < a", place).approved
    (tmp_path / "a").unlink()
    match kind:
        case "pipe":
            os.mkfifo(tmp_path / "a")
        case "folder":
            (tmp_path / "a").mkdir()
        case "link out":
            (tmp_path / "a").symlink_to("/etc/passwd")
        case "link to a key":
            (tmp_path / "a").symlink_to("server.pem")
        case "key":
            (tmp_path / "server.pem").rename(tmp_path / "a.pem")
        case _:
            pass
    assert not judged("wc -c < a.pem" if kind == "key" else "wc -c < a", place).approved


def test_dash_that_is_a_link_is_a_path(snared: PathScope):
    """Programs that do not take - for their input, as test and stat, would follow it."""
    for command in ("test -e -", "stat -", "cat < -", "ls -l -"):
        assert not judged(command, snared).approved, command


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> PathScope:
    """Return the scope of a project in which `out` leads out of the working directory in src alone."""
    root = tmp_path_factory.mktemp("folders") / "project"
    (root / "src").mkdir(parents=True)
    (root / "docs").mkdir()
    (root.parent / "private").write_text("canary\n")
    (root / "src/out").symlink_to("../../private")
    for name in ("out", "docs/out"):
        (root / name).write_text("inside\n")
    return PathScope(os.path.realpath(root), (), PROGRAMS)


STEPS = ["cd src", "cd ..", "cd docs", "cd missing", "cd ../docs", "true", "false", "cat out", "cat out | wc -c"]
lines = st.lists(
    st.tuples(st.sampled_from([" && ", " || ", "; ", "\n"]), st.sampled_from(STEPS)), min_size=2, max_size=7
)


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines.map(lambda steps: "".join(f"{operator}{step}" for operator, step in steps).lstrip(" &|;\n")))
def test_line_with_cd_reads_in_the_folders_it_was_judged_in(folders: PathScope, line: str):
    if judged(line, folders).approved:
        assert "canary" not in output_of(line, folders), line


@pytest.mark.parametrize(
    ("line", "approved"),
    [
        ("cd src && cd .. && cat out", True),
        ("cd src && cat out", False),
        ("cd src || cat out", True),
        ("cd src; cat out", False),
        ("cd docs; cat out", True),
        ("cd src && true || cat out", False),
        ("cd src && cd .. || cat out", False),
        ("false || cd src && cat out", False),
        ("true && cd docs && ls | cat && cd .. && cat out", True),
        ("cd missing || cd docs || cat out", True),
        ("cd docs && cd .. && cd ..", False),
    ],
)
def test_folders_follow_the_operators(folders: PathScope, line: str, approved: bool):
    assert judged(line, folders).approved is approved


def test_folder_with_a_link_or_keys_is_not_compared(tmp_path: Path):
    place = PathScope(str(tmp_path.resolve()), (), PROGRAMS)
    for name in ("a/deep/x", "b/deep/x"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(f"{name}\n")
    assert judged("diff -r a b", place).approved and judged("diff a b", place).approved
    (tmp_path / "b/deep/y").symlink_to("/etc/passwd")
    assert judged("diff -r a b", place).why == "it could read 'b/deep/y', which is a link"
    (tmp_path / "b/deep/y").unlink()
    (tmp_path / "a/deep/.env").touch()
    assert "'a/deep/.env', which looks like a file with keys" in judged("diff -r a b", place).why


@pytest.mark.parametrize("name", project.SNARES_OF_NAMES)
def test_odd_name_is_read_as_it_was_judged(name: str, snared: PathScope):
    for command in (f"cat < {shlex.quote(f'odd/{name}')}", f"cat {shlex.quote(f'odd/{name}')}"):
        if judged(command, snared).approved:  # line breaks and letters beyond ASCII are refused
            assert output_of(command, snared) == "main\n", command
