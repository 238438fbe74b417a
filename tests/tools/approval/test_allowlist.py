"""The allow-list refuses the bypass corpus and approves daily use; approved commands run as they were judged."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from hypothesis import HealthCheck, event, example, given, settings
from hypothesis import strategies as st

from ikigai.core.errors import ConfigError
from ikigai.tools.approval import allow_rules as rules
from ikigai.tools.approval import allowlist
from ikigai.tools.approval import shell_parser as shell_words
from ikigai.tools.approval.allowlist import Allowlist
from ikigai.tools.approval.path_policy import PathScope
from tests import GOLDEN
from tests.support.examples import examples
from tests.tools import project

BYPASS: dict[str, list[str]] = tomllib.loads((GOLDEN / "approval_bypass.toml").read_text("utf-8"))
"""Commands that no allow-list may approve, by the trick in them."""
HARMLESS: list[str] = tomllib.loads((GOLDEN / "approval_harmless.toml").read_text("utf-8"))["commands"]

OWN = rules.parse_rules(
    ["npm test", "make *", {"command": "pytest", "options": ["-q", "-x", "-k=", "--maxfail=", "-v"]}], "test"
)
ALLOWED = tomllib.loads(allowlist.SHIPPED_RULES.read_text("utf-8"))["allow"]
SHIPPED = {rule["command"] for rule in ALLOWED if " " not in rule["command"]}
DANGEROUS = {
    *(
        "rm",
        "mv",
        "cp",
        "touch",
        "tee",
        "chmod",
        "kill",
        "curl",
        "ssh",
        "nc",
        "make",
        "npm",
        "pytest",
        "run.sh",
        "vim",
        "less",
    ),
    *("sh", "bash", "dash", "zsh", "busybox", "python", "python3", "perl", "node", "awk", "git"),
    *("env", "xargs", "sudo", "nice", "timeout", "command", "eval", "exec"),
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[PathScope, Path]:
    """Return the scope of a project whose commands find only recorders, and the folder of their records."""
    folder = tmp_path_factory.mktemp("world")
    programs, calls = project.recorders(folder, SHIPPED | DANGEROUS)
    return project.place(project.made(folder), programs), calls


def judged(
    command: str, place: PathScope, own: tuple[rules.AllowRule | rules.ExactRule, ...] = ()
) -> allowlist.AllowVerdict:
    return Allowlist(own).judge(command, place, place.root)


def ran(command: str, place: PathScope, calls: Path) -> list[list[str]]:
    """Return the calls that bash makes of a command in the project, which it must leave unchanged."""
    before = project.snapshot(Path(place.root))
    subprocess.run(
        ["/bin/bash", "--noprofile", "--norc", "-c", command],
        cwd=place.root,
        env={"PATH": place.path, "HOME": f"{Path(place.root).parent}/home", "LC_ALL": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=20,
        check=False,
    )
    assert project.snapshot(Path(place.root)) == before, command
    return project.calls_in(calls)


@pytest.mark.parametrize("group", BYPASS)
def test_nothing_of_the_bypass_corpus_is_approved(group: str, world: tuple[PathScope, Path]):
    for command in BYPASS[group]:
        for own in ((), OWN):
            judgement = judged(command, world[0], own)
            assert not judgement.approved and judgement.why, (command, judgement)


def test_corpus_is_large_and_says_nothing_twice():
    commands = [command for group in BYPASS.values() for command in group]
    assert len(commands) >= 300
    assert [command for command, count in Counter(commands).items() if count > 1] == []
    assert len(HARMLESS) == len(set(HARMLESS)) == 100


def test_daily_use_is_approved(world: tuple[PathScope, Path], tmp_path: Path):
    """98 of the 100 run unasked; the two others match a link that leads out, and run where it does not exist."""
    refused = {command: judged(command, world[0]).why for command in HARMLESS if not judged(command, world[0]).approved}
    assert refused == {
        "ls -d */": "'linked/' is outside the working directory",
        "du -sh *": "'linked' is outside the working directory",
    }
    root = project.made(tmp_path)
    for link in ("link.txt", "linked", "inner"):
        (root / link).unlink()
    assert all(judged(command, PathScope(str(root), (), world[0].path)).approved for command in HARMLESS)


def test_approved_command_runs_only_approved_programs(world: tuple[PathScope, Path]):
    place, calls = world
    seen = 0
    for command in HARMLESS:
        if (judgement := judged(command, place)).approved:
            names = {call[0] for call in ran(command, place, calls)}
            assert names <= set(judgement.programs), command
            seen += len(names)
    assert seen > 100


def test_programs_themselves_change_nothing(world: tuple[PathScope, Path]):
    """Run these commands with the programs that this machine has."""
    root, own, _ = world[0].root, world[0].own, world[0].path
    place = PathScope(root, own, "/usr/bin:/bin")
    approved = [command for command in HARMLESS if judged(command, place).approved]
    assert len(approved) > 60
    for command in approved:
        ran(command, place, world[1])


# Pieces that meet at every seam: harmless words, and what turns them into something else.
PIECES = [
    *(
        "ls",
        "cat",
        "grep",
        "find",
        "sort",
        "echo",
        "rg",
        "head",
        "test",
        "[",
        "]",
        "uniq",
        "cd",
        "tr",
        "rm",
        "sh",
        "env",
    ),
    *(
        "README.md",
        "src",
        "src/app.py",
        ".",
        "..",
        "main",
        "/etc/passwd",
        "-n",
        "-l",
        "-r",
        "-o",
        "-name",
        "-exec",
        "x",
    ),
    *(
        " ",
        " ",
        " ",
        " ",
        "\t",
        "\n",
        ";",
        "&&",
        "||",
        "|",
        "&",
        ">",
        "<",
        "2>&1",
        "2>/dev/null",
        ">/dev/null",
        "#",
        "!",
    ),
    *(
        "'",
        '"',
        "\\",
        "$",
        "`",
        "$(",
        ")",
        "(",
        "{",
        "}",
        ",",
        "*",
        "?",
        "~",
        "=",
        "--",
        "-",
        "$'",
        "\\\n",
        "<<E",
        "1",
        "a",
    ),
]
noise = st.lists(st.sampled_from(PIECES), min_size=1, max_size=12).map("".join)
spliced = st.tuples(st.sampled_from(HARMLESS), st.integers(0, 80), st.integers(0, 3), noise).map(
    lambda parts: parts[0][: parts[1]] + parts[3] + parts[0][parts[1] + parts[2] :]
)
argument = st.one_of(
    st.sampled_from(["README.md", "src", "-n", "main", "*.md", "src/*", "'a b'", '"a$"', "a\\|b", "-l", "1", "2>&1"]),
    st.text(st.sampled_from("ab.'\"\\*?$|;& -/!#=()~"), max_size=6),
)
typed = st.tuples(
    st.sampled_from(["ls", "cat", "grep main", "find .", "sort", "echo", "head", "wc", "tr a b", "test"]),
    st.lists(argument, max_size=4).map(" ".join),
    st.sampled_from(["", " | head", "; ls", " && cat README.md", "\nls", " # x"]),
).map(lambda parts: f"{parts[0]} {parts[1]}{parts[2]}")


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.one_of(noise, spliced, typed))
@example("echo \"a$|b\" \\; \\| '&' | head")
@example("ls src/* *.md")
@example("grep main --include=*.md -r .")
@example("find . \\( -name '*.md' -o -name x \\) ! -name y")
def test_bash_runs_what_was_judged_and_nothing_else(world: tuple[PathScope, Path], command: str):
    """Of an approved command bash makes only calls whose words were judged, or that a wildcard stands for."""
    place, calls = world
    if not judged(command, place).approved:
        event("refused")
        return
    event("approved")
    words = [each.words for each in shell_words.parse_commands(command)]
    for call in ran(command, place, calls):
        assert any(_is(call, each) for each in words), (command, call)


def _is(call: list[str], words: tuple[shell_words.Word, ...]) -> bool:
    """Return True if a program was called with these words; wildcards stand for one or more names that fit."""
    if not words or not call:
        return not words and not call
    if not words[0].wildcards:
        return call[0] == words[0].text and _is(call[1:], words[1:])
    return fnmatchcase(call[0], words[0].text) and (_is(call[1:], words[1:]) or _is(call[1:], words))


def test_text_that_both_parsers_must_agree_on():
    """A text that only one of them accepts is refused, as one of the two is wrong."""
    for command in ("ls 2>&1 x", "ls 2>/dev/null x", "echo 10#", "ls 2>&1 -l"):
        with pytest.raises(shell_words.NotPlain):
            shell_words.parse_commands(command)
    plain = 'grep "a\\.b\\"\\$" \'c d\' e\\ f *.py 2>/dev/null | head -5 # x\n[ ! -f x ] && ls'
    assert [[word.text for word in each.words] for each in shell_words.parse_commands(plain)] == [
        ["grep", 'a\\.b"$', "c d", "e f", "*.py"],
        ["head", "-5"],
        ["[", "!", "-f", "x", "]"],
        ["ls"],
    ]
    assert [each.piped for each in shell_words.parse_commands(plain)] == [True, True, False, False]


def test_size_is_bounded():
    with pytest.raises(shell_words.NotPlain, match="4,000"):
        shell_words.parse_commands("ls " + "a" * 4_000)
    assert len(shell_words.parse_commands("ls;" * 20)) == 20
    with pytest.raises(shell_words.NotPlain, match="20 programs"):
        shell_words.parse_commands("ls;" * 21)
    with pytest.raises(shell_words.NotPlain):
        shell_words.parse_commands("(" * 2_000)


def test_users_rules(world: tuple[PathScope, Path]):
    place, _ = world
    for command in (
        "npm test",
        "npm 'test'",
        "npm test 2>&1 | tail -20",
        "cd src && npm test",
        "make all",
        "make",
        "make all src/app.py",
        "pytest",
        "pytest -qx tests",
        "pytest -k main --maxfail=1 tests/app/test_services.py",
        "pytest --maxfail 1 -kmain",
    ):
        assert not judged(command, place).approved
        assert judged(command, place, OWN).approved, (command, judged(command, place, OWN))


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("", "is not a plain command"),
        ("npm test; rm x", "is not a plain command"),
        ("make $x", "it has something that the shell expands"),
        ("ls > x", "it has a redirection"),
        ("*", "is not a plain command"),
        ("make*", "is not a plain command"),
        ("make * x", "is not a plain command"),
        ("X=1 make", "is not a plain command"),
        ("time ls", "is not a plain command"),
        ({}, "missing required field `command`"),
        ({"command": "ls", "option": ["-l"]}, "unknown field `option`"),
        ({"command": "ls", "options": "-l"}, "Expected `array`"),
        ({"command": "ls", "options": ["-la"]}, "'-la' is not an option of this style"),
        ({"command": "ls", "options": ["l"]}, "'l' is not an option of this style"),
        ({"command": "ls", "options": ["-n=number"]}, "is not an option"),
        ({"command": "ls", "operands": "paths"}, "operands cannot be 'paths'"),
        ({"command": "ls", "style": "gnu"}, "Invalid enum value 'gnu'"),
        ({"command": "ls | sh"}, "is not a plain command"),
        ({"command": "grep", "first_given_by": ["-e"]}, "'-e' is not among its options"),
    ],
)
def test_invalid_rule_is_reported(rule: str | dict[str, object], words: str):
    with pytest.raises(ConfigError) as caught:
        rules.parse_rules(["ls", rule], "config.toml:3: tools.allow")
    assert words in caught.value.what and caught.value.remedy
    assert caught.value.what.startswith("config.toml:3: tools.allow: rule 2")


def test_program_of_the_project_is_none_of_ours(world: tuple[PathScope, Path], tmp_path: Path):
    root = project.made(tmp_path)
    bin_folder = root / "node_modules" / ".bin"
    bin_folder.mkdir(parents=True)
    (bin_folder / "ls").write_text("#!/bin/sh\n")
    (bin_folder / "ls").chmod(0o755)
    place = PathScope(str(root), (), f"{bin_folder}:{world[0].path}")
    assert "is a program in the working directory" in judged("ls", place).why
    assert judged("cat README.md; echo x", place).approved
    assert "depends on the folder" in judged("cat README.md", PathScope(str(root), (), f"{world[0].path}:.")).why
    assert "is not installed" in judged("cat README.md", PathScope(str(root), (), str(tmp_path))).why


def test_folder_that_holds_ikigais_own_is_too_wide(world: tuple[PathScope, Path]):
    home = Path(world[0].root).parent
    wide = PathScope(str(home), world[0].own, "/usr/bin:/bin")
    assert "a file of ikigai itself" in judged("grep -r --include=*.md key .", wide).why
    assert judged("grep -r --include=*.md key .", PathScope(str(home), (), "/usr/bin:/bin")).approved
    assert not Allowlist().judge("ls", world[0], str(home)).approved  # where the shell is now lies outside


def test_file_called_like_an_option_is_none(world: tuple[PathScope, Path]):
    """There is one in src."""
    place = world[0]
    for command, approved in (
        ("rg main *", False),
        ("sort *.py", False),
        ("sort ./*.py", True),
        ("rg main -- *", True),
        ("rg main ./*", True),
        ("ls *", False),
        ("ls -- *", True),
        ("du -- *", True),
        ("ls ./*", True),
        ("echo *", True),
        ("echo -e ?.md *", True),
        ("rg -*", False),
    ):
        assert Allowlist().judge(command, place, f"{place.root}/src").approved is approved, command


MAY_LEAD = {rule["command"] for rule in ALLOWED if rule.get("leading_wildcards")}
"""Programs whose operands may begin with a wildcard: no option of theirs writes or runs."""


@pytest.mark.parametrize("program", sorted(SHIPPED - {"echo"}))
def test_leading_wildcard_asks_unless_the_rule_allows_it_and_no_name_is_like_an_option(program: str, tmp_path: Path):
    root = project.made(tmp_path)
    place = PathScope(str(root), (), "/usr/bin:/bin:/usr/local/bin")
    for wildcard in ("*.md", "?EADME.md"):
        for command in (f"{program} {wildcard}", f"{program} README.md {wildcard}"):
            (root / "-c.md").unlink(missing_ok=True)
            (root / "-EADME.md").unlink(missing_ok=True)
            approved = program in MAY_LEAD and (program != "grep" or "README.md " in command)
            assert judged(command, place).approved is approved, (command, judged(command, place).why)
            (root / "-c.md").touch()
            (root / "-EADME.md").touch()
            assert not judged(command, place).approved
            assert judged(f"{program} {wildcard}", place).approved is False
    for wildcard in ("*", "*/x", "*/proc/self/environ", "*.absent"):  # * matches a link that leads out
        assert not judged(f"{program} {wildcard}", place).approved


def test_echo_of_a_leading_wildcard_prints_names_alone(tmp_path: Path):
    """No file is read or written and no program runs, whatever option a name is."""
    for name in ("-e", "-n", "--files0-from=private", "\\0041$(touch made)`touch made`", "a>made"):
        (tmp_path / name).write_text("content")
    place = PathScope(str(tmp_path), (), "/usr/bin:/bin")
    assert judged("echo *", place).approved
    before = project.snapshot(tmp_path)
    command = ["/bin/bash", "--noprofile", "--norc", "-c", "echo *"]
    done = subprocess.run(command, cwd=tmp_path, env={"PATH": place.path}, capture_output=True, text=True, check=True)
    assert "a>made" in done.stdout and "content" not in done.stdout and project.snapshot(tmp_path) == before


def test_leading_wildcard_asks_for_the_users_rules(world: tuple[PathScope, Path]):
    own = rules.parse_rules(["make *", {"command": "pytest", "options": ["-q", "--"]}], "test")
    asks = [
        command for command in ("make *", "make ?x", "pytest *", "pytest -q *") if judged(command, world[0], own)[0]
    ]
    assert not asks
    for command in ("make ./*.md", "make src/*", "pytest ./*.md", "pytest -q -- *.md"):
        assert judged(command, world[0], own).approved, command


HOSTILE = ("--files0-from=private", "--help", "--version", "-c", "-f", "-x", "+1", "-1", "a.txt")
"""Names of files that some program here would take for an option."""


@pytest.mark.parametrize("program", sorted(SHIPPED - {"echo"}))  # which has no such option
def test_operands_after_a_double_dash_are_never_options(program: str, tmp_path: Path):
    """A wildcard behind -- passes where a rule has --; the program of this machine then takes all names for files.

    Each file holds its own name alone, so an option that works would show: a usage, a version, or one file less.
    """
    words = {"grep": "grep -h .", "rg": "rg -IN ."}.get(program, program)
    root = tmp_path / "project"
    root.mkdir()
    for name in HOSTILE:
        (root / name).write_text(f"in {name}\n")
    place = PathScope(str(root), (), "/usr/bin:/bin")
    if not judged(f"{words} -- *", place).approved:
        assert program not in ("cat", "ls", "wc", "du", "grep", "sort", "head", "tail", "md5sum", "stat")
        return

    def output(operands: str) -> str:
        done = subprocess.run(
            ["/bin/bash", "--noprofile", "--norc", "-c", f"{words} {operands}"],
            cwd=root,
            env={"PATH": place.path, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
        told = (done.stdout + done.stderr).replace("./", "")
        return re.sub("[0-9]+ *", "", told) if program == "df" else told  # the space on the disk changes meanwhile

    assert output("-- *") == output("./*")


def test_files_of_a_wildcard_are_checked(
    tmp_path: Path, world: tuple[PathScope, Path], monkeypatch: pytest.MonkeyPatch
):
    root = project.made(tmp_path)
    place = PathScope(str(root), (), world[0].path)
    assert judged("cat src/*", place).approved
    (root / "src" / "z.txt").symlink_to("/etc/passwd")
    assert "'src/z.txt' is outside" in judged("cat src/*", place).why
    assert "'./src/z.txt' is outside" in judged("cat ./*/z.t?t", place).why
    (root / "src" / "z.txt").unlink()
    (root / "src" / "server.pem").write_text("")
    assert "looks like a file with keys" in judged("cat src/*", place).why
    monkeypatch.setattr(allowlist, "MAX_WILDCARD_FILES", 50)
    for number in range(51):
        (root / "docs" / str(number)).touch()
    assert "matches too many files" in judged("ls docs/*", place).why


def test_nothing_is_loaded_before_a_command_is_judged():
    code = "import sys, ikigai.tools.approval.policy; print([name for name in sys.modules if 'tree_sitter' in name])"
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
