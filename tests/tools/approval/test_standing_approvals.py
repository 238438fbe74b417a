"""Standing approvals: kept by fingerprint in a private file, listed, taken back, by several programs at once."""

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from ikigai.core.errors import ConfigError, Rejected
from ikigai.tools.approval import standing_approvals as standing
from ikigai.tools.approval.standing_approvals import StandingApproval


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / standing.APPROVED_FILE


def print_of(number: int) -> str:
    return f"{number:064x}"


def test_approval_is_listed_until_it_is_revoked(file: Path):
    assert standing.list_approvals(file) == {}
    second, first = (
        StandingApproval("shell", "npm test", "/srv", 2.0),
        StandingApproval("write_file", "/srv/a", "/srv", 1.0),
    )
    standing.approve(file, print_of(2), second)
    standing.approve(file, print_of(1), first)
    assert list(standing.list_approvals(file).items()) == [(print_of(1), first), (print_of(2), second)]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert standing.revoke(file, print_of(2)) and not standing.revoke(file, print_of(2))
    assert standing.list_approvals(file) == {print_of(1): first}


def test_any_text_can_be_stored_as_shown(file: Path):
    standing.approve(file, print_of(1), StandingApproval("shell", "x" * 9_000, "/\udcff\0", 1.0))
    kept = standing.list_approvals(file)[print_of(1)]
    assert (
        len(kept.shown) == standing.MAX_SHOWN_CHARACTERS
        and kept.shown.endswith("…")
        and kept.directory == "/\ufffd\ufffd"
    )
    with pytest.raises(ValueError, match="no fingerprint"):
        standing.approve(file, "*", StandingApproval("shell", "x", "/", 1.0))


def test_there_is_an_end_to_it(file: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(standing, "MAX_STANDING_APPROVALS", 2)
    for number in (1, 2, 2):
        standing.approve(file, print_of(number), StandingApproval("shell", "x", "/", 1.0))
    with pytest.raises(Rejected, match="which is the limit"):
        standing.approve(file, print_of(3), StandingApproval("shell", "x", "/", 1.0))
    assert len(standing.list_approvals(file)) == 2


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"a": 1}', b'{"a": {"tool": "shell"}}', b"\xff"])
def test_damaged_file_approves_nothing_and_is_kept(file: Path, content: bytes):
    file.write_bytes(content)
    for act in (
        lambda: standing.list_approvals(file),
        lambda: standing.approve(file, print_of(1), StandingApproval("shell", "x", "/", 1.0)),
        lambda: standing.revoke(file, print_of(1)),
    ):
        with pytest.raises(ConfigError, match="is damaged"):
            act()
    assert file.read_bytes() == content


def test_programs_do_not_take_each_others_away(file: Path):
    code = (
        "import sys; from pathlib import Path; from ikigai.tools.approval import standing_approvals as standing\n"
        "for n in range(20): standing.approve(Path(sys.argv[1]), f'{int(sys.argv[2]) * 100 + n:064x}',"
        " standing.StandingApproval('shell', 'x', '/', float(n)))"
    )
    running = [subprocess.Popen([sys.executable, "-c", code, str(file), str(number)]) for number in range(4)]
    assert [each.wait(60) for each in running] == [0, 0, 0, 0]
    assert len(standing.list_approvals(file)) == 80 and list(file.parent.iterdir()) == [file]
