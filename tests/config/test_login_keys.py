"""The file of `ikigai login` stores and returns keys, is private, and another file in its place is refused."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikigai.config import login_keys as keys
from ikigai.core.errors import ConfigError, IkigaiError, Rejected

SECRET = "sk-canary-0123456789"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "keys.json"


def test_keys_go_in_and_out(file: Path):
    assert keys.providers_with_key(file) == [] and keys.find(file, "openai") == ""
    keys.store(file, "openai", SECRET)
    keys.store(file, "groq", "gsk-1")
    assert keys.providers_with_key(file) == ["openai", "groq"]
    keys.store(file, "openai", "sk-2")
    assert (keys.find(file, "openai"), keys.find(file, "groq"), keys.find(file, "google")) == ("sk-2", "gsk-1", "")
    assert keys.remove(file, "openai") and not keys.remove(file, "openai")
    assert keys.providers_with_key(file) == ["groq"]


def test_nobody_else_reads_it_and_nothing_is_left_beside_it(file: Path):
    before = os.umask(0)
    try:
        keys.store(file, "openai", SECRET)
        keys.store(file, "google", SECRET)
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.parametrize("exists", [True, False])
def test_link_into_a_folder_of_dotfiles_stays_one(file: Path, exists: bool):
    (store := file.parent / "dotfiles").mkdir()
    if exists:
        keys.store(store / "keys.json", "groq", "gsk-1")
    file.symlink_to("dotfiles/keys.json")
    keys.store(file, "openai", SECRET)
    keys.store(file, "google", SECRET)
    keys.remove(file, "google")
    assert file.is_symlink() and os.listdir(store) == ["keys.json"]
    assert keys.providers_with_key(store / "keys.json") == ["groq", "openai"][not exists :]


def test_file_that_others_could_read_is_closed_to_them(file: Path):
    file.write_text(json.dumps({"openai": SECRET}))
    file.chmod(0o644)
    assert keys.find(file, "openai") == SECRET
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"openai": 5}', b"\xff\xfe", b'"sk-canary"', b'{"openai": "' + b"x" * 2_000_000]
)
def test_damaged_file_is_said_without_what_is_in_it(file: Path, content: bytes):
    file.write_bytes(content)
    for act in (
        lambda: keys.providers_with_key(file),
        lambda: keys.store(file, "openai", SECRET),
        lambda: keys.remove(file, "openai"),
    ):
        with pytest.raises(ConfigError) as caught:
            act()
        assert str(file) in caught.value.what and "log in again" in caught.value.remedy
        assert "canary" not in str(caught.value)
    assert file.read_bytes() == content


def test_place_that_is_no_folder_or_no_file(tmp_path: Path):
    (tmp_path / "file").touch()
    below = tmp_path / "file" / "keys.json"
    with pytest.raises(ConfigError, match="Not a directory"):
        keys.providers_with_key(below)
    with pytest.raises(IkigaiError, match="cannot be written: Not a directory"):
        keys.store(below, "openai", SECRET)
    with pytest.raises(ConfigError, match="Is a directory"):
        keys.providers_with_key(tmp_path)


def test_write_that_fails_leaves_the_old_keys(small: Path):
    """On a file system with no room left."""
    file = small / "keys.json"
    keys.store(file, "openai", SECRET)
    with (small / "filler").open("wb", buffering=0) as filler, pytest.raises(OSError, match="No space"):
        while True:
            filler.write(bytes(1 << 12))
    with pytest.raises(IkigaiError, match="cannot be written: No space left on device") as caught:
        keys.store(file, "google", "x" * 8_000)
    assert SECRET not in str(caught.value)
    (small / "filler").unlink()
    assert keys.providers_with_key(file) == ["openai"] and keys.find(file, "openai") == SECRET
    assert list(small.iterdir()) == [file]


@pytest.fixture
def small(tmp_path: Path):
    """A folder on a file system of 64 kB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", folder], capture_output=True)
    if mounted.returncode:
        pytest.skip("only root mounts file systems")
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_programs_that_store_at_once_lose_nothing(file: Path):
    code = "import sys; from pathlib import Path; from ikigai.config import login_keys as keys; "
    code += "keys.store(Path(sys.argv[1]), *sys.argv[2:])"
    running = [subprocess.Popen([sys.executable, "-c", code, file, f"p{n}", f"k{n}"]) for n in range(6)]
    assert [process.wait(60) for process in running] == [0] * 6
    assert {name: keys.find(file, name) for name in keys.providers_with_key(file)} == {
        f"p{n}": f"k{n}" for n in range(6)
    }


@pytest.mark.parametrize("text", [SECRET, f"  {SECRET}\n", f"\t{SECRET}\r\n", "\n" + SECRET])
def test_key_without_what_stands_around_it(text: str):
    assert keys.check_key(text) == SECRET


@pytest.mark.parametrize(
    "text", ["", " \n", "sk a", "sk\na", "sk\0a", "sk-é", "sk\x1b[A", "\ufeffsk", "sk\u200b", "k" * 8_193]
)
def test_what_is_no_key_is_refused_and_not_repeated(text: str):
    with pytest.raises(Rejected) as caught:
        keys.check_key(text)
    assert "Nothing was stored" in caught.value.remedy
    assert len(text.strip()) < 2 or text.strip() not in str(caught.value)


@given(st.text(max_size=40))
def test_key_that_is_taken_can_stand_in_a_header(text: str):
    try:
        key = keys.check_key(text)
    except Rejected:
        return
    assert key and key in text and key.isascii() and key.isprintable() and " " not in key
