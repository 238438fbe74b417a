"""The file of what list endpoints said."""

import json
import os
import stat
from pathlib import Path

import pytest

from ikigai.providers.models import model_list_cache as listing
from ikigai.providers.models.model_list_cache import ModelListing
from ikigai.providers.models.models import ListedModel, ModelCatalog

CLAUDE = ListedModel("claude-next", 2_000_000, 128_000, ("low", "high"), True, "adaptive", "between_tools")
PLAIN = ListedModel("qwen3:8b")


def test_what_is_saved_is_loaded(tmp_path: Path):
    path = tmp_path / "cache" / "models.json"
    assert listing.save(path, "anthropic", [CLAUDE, PLAIN], 12.5)
    assert listing.save(path, "ollama", [], 13.0)
    assert listing.load(path) == {"anthropic": ModelListing(12.5, (CLAUDE, PLAIN)), "ollama": ModelListing(13.0, ())}
    assert listing.save(path, "anthropic", [PLAIN], 14.0)
    assert listing.load(path) == {"anthropic": ModelListing(14.0, (PLAIN,)), "ollama": ModelListing(13.0, ())}
    assert [file.name for file in path.parent.iterdir()] == ["models.json"], "nothing temporary is left"


def test_only_its_owner_reads_it(tmp_path: Path):
    path = tmp_path / "models.json"
    path.write_text("{}")
    path.chmod(0o644)
    listing.save(path, "openai", [PLAIN], 1.0)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_it_feeds_what_is_known(tmp_path: Path):
    path = tmp_path / "models.json"
    listing.save(path, "anthropic", [CLAUDE], 1.0)
    known = ModelCatalog({provider: found.models for provider, found in listing.load(path).items()})
    assert known.limits("anthropic/claude-next").context == 2_000_000
    assert known.traits("anthropic/claude-next").off == "between_tools"
    assert "claude-next" in known.names("anthropic")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe\x00",
        b'{"version": 1}',
        b'{"version": 2, "providers": {}}',
        b'{"version": 1, "providers": {"x": {"at": "then", "models": []}}}',
        b'{"version": 1, "providers": {"x": {"at": 1, "models": [{"context": 5}]}}}',
        b'{"version": 1, "providers": {"x": {"at": 1, "models": [{"id": "a", "levels": [1]}]}}}',
        b'{"version": 1, "providers": {"x": {"at": 1, "models": [{"id": "\\ud800"}]}}}',
        b"[" * 100_000,
    ],
)
def test_broken_file_is_ignored_and_replaced(tmp_path: Path, content: bytes):
    path = tmp_path / "models.json"
    path.write_bytes(content)
    assert listing.load(path) == {}
    assert listing.save(path, "x", [PLAIN], 2.0)
    assert listing.load(path) == {"x": ModelListing(2.0, (PLAIN,))}


def test_what_a_later_version_adds_is_passed_over(tmp_path: Path):
    path = tmp_path / "models.json"
    listing.save(path, "x", [PLAIN], 2.0)
    data = json.loads(path.read_text())
    data["providers"]["x"]["models"][0]["more"] = {"than": "known"}
    path.write_text(json.dumps(data))
    assert listing.load(path) == {"x": ModelListing(2.0, (PLAIN,))}


def test_no_file_no_listings(tmp_path: Path):
    assert listing.load(tmp_path / "none.json") == {}
    assert listing.load(tmp_path) == {}, "a folder"


def test_place_that_cannot_be_written_is_let_be(tmp_path: Path):
    (tmp_path / "file").write_text("")
    assert not listing.save(tmp_path / "file" / "models.json", "x", [PLAIN], 1.0)
    (tmp_path / "models.json").mkdir()
    assert not listing.save(tmp_path / "models.json", "x", [PLAIN], 1.0)
    assert sorted(os.listdir(tmp_path)) == ["file", "models.json"], "nothing temporary is left"


def test_half_a_character_is_not_saved(tmp_path: Path):
    path = tmp_path / "models.json"
    listing.save(path, "x", [PLAIN], 1.0)
    assert not listing.save(path, "y", [ListedModel("\ud800")], 2.0)
    assert listing.load(path) == {"x": ModelListing(1.0, (PLAIN,))}
