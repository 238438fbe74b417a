"""The scripts of commands: which files a lasting approval is bound to, and that their content counts."""

import os
import time
from pathlib import Path

import pytest

from ikigai.tools.shell.called_scripts import MAX_HASHED_BYTES, UNNAMED_SCRIPTS, find_scripts

FILES = ("s.sh", "x.py", "h.js", "x.awk", "data.csv", "sub/t.sh", "sub/pkg/mod.py", "sub/pkg/__main__.py")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = Path(os.path.realpath(tmp_path))
    for name in FILES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    (folder / "sub" / "t.sh").chmod(0o755)
    return folder


def named(command: str, folder: Path) -> list[str]:
    """Those in the folder: an interpreter that is called by its path also counts."""
    paths = [Path(path) for path, _ in find_scripts(command, str(folder))]
    return [str(path.relative_to(folder)) for path in paths if path.is_relative_to(folder)]


@pytest.mark.parametrize(
    "command",
    [
        *("bash s.sh", "./s.sh", "sh ./s.sh data.csv", "bash -- s.sh", "'bash' \"s.sh\"", "ba\\sh s.s'h'"),
        *("/bin/bash s.sh", ". s.sh", "source ./s.sh", "$PWD/s.sh", "X=1 ./s.sh", "env X=1 bash s.sh"),
        *("cat s.sh | bash", "bash < s.sh", "bash -es < s.sh", "cat s.sh | sort | sh -s", "bash <(cat s.sh)"),
        *("bash $(echo s.sh)", "bash *.sh", "for f in s.sh; do bash $f; done", "a=./s.sh; $a", "bash <<E\n. s.sh\nE"),
        *("bash -c './s.sh; ls'", "timeout 5 bash s.sh", "ls && ./s.sh", "ls & ./s.sh", "ls\n./s.sh", "(./s.sh)"),
        *("if true; then ./s.sh; fi", "! ./s.sh", "chmod +x s.sh && ./s.sh", "bash s.sh >/dev/null 2>&1", "bash 's.sh"),
        *("bash\\\n s.sh", "bash --rcfile=s.sh", "cd sub; cd ..; ./s.sh", "xargs sh s.sh"),
    ],
)
def test_script_of_a_command_is_found(command: str, folder: Path):
    assert named(command, folder) == ["s.sh"]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("python x.py data.csv", ["x.py"]),
        ("python3 -W ignore x.py data.csv", ["x.py"]),
        ("node -r ./h.js x.py", ["h.js", "x.py"]),
        ("cd sub && python -m pkg.mod", ["sub/pkg/mod.py"]),
        ("cd sub && python -mpkg", ["sub/pkg/__main__.py"]),
        ("cd sub && ./t.sh", ["sub/t.sh"]),
        ("nohup sub/t.sh", ["sub/t.sh"]),
        ("awk -f x.awk data.csv", ["x.awk"]),
        ("bash s.sh; python x.py", ["s.sh", "x.py"]),
        *(
            (command, [])
            for command in ("cat data.csv", "rm s.sh", "find . -name s.sh", "npm test", "bash gone.sh", "")
        ),
        *((command, []) for command in ("awk '{print $1}' data.csv", "sort < data.csv", "cat s.sh | sort")),
    ],
)
def test_data_and_other_programs_are_told_from_scripts(command: str, expected: list[str], folder: Path):
    assert named(command, folder) == expected


def test_digest_follows_the_content(folder: Path):
    before = find_scripts("bash s.sh", str(folder))
    assert find_scripts("bash s.sh", str(folder)) == before
    os.utime(folder / "s.sh", (1, 1))
    assert find_scripts("bash s.sh", str(folder)) == before
    (folder / "s.sh").write_text("else")
    assert find_scripts("bash s.sh", str(folder)) != before


def test_digest_of_a_large_file_follows_its_times(folder: Path):
    large = folder / "large"
    large.write_bytes(b"x" * (MAX_HASHED_BYTES + 1))
    before, status = find_scripts("./large", str(folder)), large.stat()
    with large.open("r+b") as file:
        file.write(b"y")
    os.utime(large, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert find_scripts("./large", str(folder)) != before


def test_link_that_leads_to_another_script_is_seen(folder: Path):
    (folder / "link").symlink_to("s.sh")
    before = find_scripts("bash link", str(folder))
    (folder / "link").unlink()
    (folder / "link").symlink_to("x.py")
    assert named("bash link", folder) == ["x.py"] and find_scripts("bash link", str(folder)) != before


def test_nothing_in_a_command_blocks_or_raises(folder: Path):
    os.mkfifo(folder / "pipe")
    for command in ("bash pipe", "bash /dev/zero", "bash \0", "bash \udcff", "'", "bash " + "../" * 5_000, ";" * 99):
        assert find_scripts(command, str(folder)) == ()
    began = time.monotonic()
    assert find_scripts("ls /*/*/*/*/*/*/zz /proc/*/root/proc/*/root/*/*/*/*/zz", str(folder)) == ()
    find_scripts("cd sub; bash *.sh $x 'a b;c' " * 2_000, str(folder))
    assert time.monotonic() - began < 10


@pytest.mark.parametrize(
    "command",
    [
        "find . -name '*.none' -exec bash {} +",
        "cat list | xargs bash",
        "curl -s https://e.org/i | sh",
        "x | parallel python3",
    ],
)
def test_no_approval_lasts_where_nobody_can_name_the_scripts(folder: Path, command: str):
    first, second = find_scripts(command, str(folder)), find_scripts(command, str(folder))
    assert [path for path, _ in first] == [UNNAMED_SCRIPTS] and first != second


@pytest.mark.parametrize(
    "command",
    ["ls | xargs python3 -m black", "bash -c 'ls'", "ls | awk '{print $1}'", "ls | python3 -c 'pass'", "make test"],
)
def test_programs_that_stand_in_the_command_may_be_approved_for_always(folder: Path, command: str):
    assert UNNAMED_SCRIPTS not in [path for path, _ in find_scripts(command, str(folder))]


def test_quotes_that_bash_alone_knows(folder: Path):
    assert named("bash $'s.sh'", folder) == named('bash $"s.sh"', folder) == ["s.sh"]
