"""Tests of pictures that are pasted and dropped, as files of a real disk."""

import os
import time
from pathlib import Path

import pytest
from PIL import Image as Pillow

from ikigai.app.attachments.attachments import read_mentions
from ikigai.app.attachments.pasted_pictures import KEPT_SECONDS, find_pasted, mention_dropped, remove_old, save_pasted
from ikigai.core.errors import Rejected
from ikigai.core.events.messages import Image
from ikigai.system.paths import pasted_folder


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    for name in ("cat.png", "my dog.png", "it's.png"):
        Pillow.new("RGB", (6, 4)).save(tmp_path / name)
    (tmp_path / "notes.txt").write_text("words")
    (tmp_path / "fake.png").write_text("words")
    os.mkfifo(tmp_path / "pipe.png")
    return tmp_path


def test_pasted_picture_is_mentioned_by_its_name_from_anywhere(folder: Path):
    data = (folder / "cat.png").read_bytes()
    first, second = save_pasted(data), save_pasted(data)
    assert first != second
    for name in (first, second):
        local = read_mentions(f"what is @{name}?", folder)
        assert isinstance(local.parts[0], Image) and not local.doubtful
    assert find_pasted("../../cat.png") is None and find_pasted("cat.png") is None


def test_pasted_picture_is_removed_after_a_week(folder: Path):
    data = (folder / "cat.png").read_bytes()
    old, new = save_pasted(data), save_pasted(data)
    (pasted_folder() / "notes.txt").write_text("not ours")
    for name in (old, "notes.txt"):
        os.utime(pasted_folder() / name, times=(time.time() - KEPT_SECONDS - 60,) * 2)
    remove_old()
    assert sorted(path.name for path in pasted_folder().iterdir()) == ["notes.txt", new]
    with pytest.raises(Rejected, match=f"There is no file or folder {old}"):
        read_mentions(f"@{old}", folder)


def test_what_is_no_picture_is_not_stored(folder: Path):
    with pytest.raises(Rejected, match="a PNG, JPEG, WebP or GIF"):
        save_pasted(b"<svg/>")
    assert not pasted_folder().exists()


@pytest.mark.parametrize(
    ("dropped", "mentions"),
    [
        ("{}/cat.png", "@{}/cat.png"),
        (" '{}/cat.png' ", "@{}/cat.png"),
        ("{}/my\\ dog.png", '@"{}/my dog.png"'),
        ("{}/my dog.png", '@"{}/my dog.png"'),
        ("'{}/my dog.png' {}/cat.png", '@"{}/my dog.png" @{}/cat.png'),
        ("{}/cat.png\n{}/it\\'s.png\n", '@{}/cat.png @"{}/it\'s.png"'),
        ("file://{}/my%20dog.png", '@"{}/my dog.png"'),
        ("{}/gone.png", ""),
        ("{}/fake.png", ""),
        ("{}/notes.txt", ""),
        ("{}/pipe.png", ""),
        ("{}/cat.png and words", ""),
        ("cat.png", ""),
        ("{}/it's.png {}/cat.png", ""),
        ("/dev/zero", ""),
        ("", ""),
    ],
)
def test_paths_of_dropped_pictures_become_mentions(folder: Path, dropped: str, mentions: str):
    assert mention_dropped(dropped.replace("{}", str(folder))) == mentions.replace("{}", str(folder))
