"""Folder trust holds for one real path alone, is kept in a private file, can be revoked, and is never assumed."""

import json
import os
import stat
from pathlib import Path

import pytest

from ikigai.config.project import trusted_folders as trust
from ikigai.core.errors import ConfigError, IkigaiError, Rejected


def is_trusted(file: Path, folder: Path) -> bool:
    return trust.trusted_digests(file, folder) is not None


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir(mode=0o700)
    return tmp_path / "data" / trust.TRUSTED_FILE


def test_folder_is_trusted_until_it_is_not(file: Path, tmp_path: Path):
    assert not is_trusted(file, tmp_path)
    assert trust.trust(file, tmp_path, 12.5) == str(tmp_path.resolve())
    assert is_trusted(file, tmp_path) and trust.list_trusted(file) == {str(tmp_path.resolve()): 12.5}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and list(file.parent.iterdir()) == [file]
    assert trust.revoke(file, tmp_path) and not trust.revoke(file, tmp_path)
    assert not is_trusted(file, tmp_path) and trust.list_trusted(file) == {}


def test_neither_what_is_in_it_nor_what_holds_it(file: Path, tmp_path: Path):
    folder = tmp_path / "a"
    (folder / "vendor").mkdir(parents=True)
    (tmp_path / "ab").mkdir()
    trust.trust(file, folder, 0)
    assert is_trusted(file, folder / "vendor" / "..")
    for other in (folder / "vendor", tmp_path, tmp_path / "ab", Path("/")):
        assert not is_trusted(file, other)


def test_it_is_the_real_path_that_counts(file: Path, tmp_path: Path):
    (tmp_path / "real").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert trust.trust(file, tmp_path / "link", 0) == str(tmp_path.resolve() / "real")
    assert is_trusted(file, tmp_path / "real") and is_trusted(file, tmp_path / "link")
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to("other")
    assert not is_trusted(file, tmp_path / "link")


def test_what_cannot_be_trusted(file: Path, tmp_path: Path):
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    odd.mkdir()
    for folder in (tmp_path / "file", tmp_path / "none", tmp_path / "loop", odd, Path("a\0b")):
        with pytest.raises(Rejected):
            trust.trust(file, folder, 0)
        assert not is_trusted(file, folder) and not trust.revoke(file, folder)
    assert not file.exists()


def test_folder_that_is_gone_can_be_revoked(file: Path, tmp_path: Path):
    (tmp_path / "gone").mkdir()
    trust.trust(file, tmp_path / "gone", 0)
    (tmp_path / "gone").rmdir()
    assert trust.revoke(file, tmp_path / "gone") and trust.list_trusted(file) == {}


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"/": "yes"}', b'{"/": true}', b"\xff", b'{"/": null}'])
def test_damaged_file_trusts_nothing_and_is_kept(file: Path, tmp_path: Path, content: bytes):
    file.write_bytes(content)
    for act in (
        lambda: is_trusted(file, Path("/")),
        lambda: trust.trust(file, tmp_path, 0),
        lambda: trust.list_trusted(file),
        lambda: trust.revoke(file, tmp_path),
    ):
        with pytest.raises(ConfigError) as caught:
            act()
        assert str(file) in caught.value.what and "Delete it" in caught.value.remedy
    assert file.read_bytes() == content


def test_where_nothing_can_be_written(tmp_path: Path):
    with pytest.raises(IkigaiError, match="cannot be written: No such file or directory"):
        trust.trust(tmp_path / "none" / trust.TRUSTED_FILE, tmp_path, 0)


def test_another_folder_at_the_same_path_is_not_trusted(file: Path, tmp_path: Path):
    folder = tmp_path / "a"
    folder.mkdir()
    trust.trust(file, folder, 0, {"AGENTS.md": "-1"})
    assert trust.trusted_digests(file, folder) == {"AGENTS.md": "-1"}
    folder.rename(tmp_path / "before")
    folder.mkdir()
    assert not is_trusted(file, folder) and trust.is_listed(file, folder)
    assert not is_trusted(file, tmp_path / "before")


def test_entry_that_is_only_a_time_is_asked_about_once_more(file: Path, tmp_path: Path):
    file.write_text(json.dumps({str(tmp_path.resolve()): 12.5}))
    assert not is_trusted(file, tmp_path) and trust.is_listed(file, tmp_path)
    trust.trust(file, tmp_path, 13.5)
    assert is_trusted(file, tmp_path) and trust.list_trusted(file) == {str(tmp_path.resolve()): 13.5}
