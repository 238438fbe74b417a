"""The place of a local model as typed: what is downloaded from where, and what is refused."""

from pathlib import Path

import pytest

from ikigai.core.errors import IkigaiError, Rejected
from ikigai.providers.local import suggestions
from ikigai.providers.local.model_source import ModelDownload, check_file, check_gguf, check_name, read_source

MODELS = Path("/data/models")


def downloads(text: str, **environ: str) -> list[tuple[str, str, str]]:
    """Return address, token and place of each file."""
    source = read_source(text, MODELS, environ)
    assert isinstance(source, ModelDownload)
    return [(remote.url, remote.token, str(place)) for remote, place in source.remotes]


def test_hugging_face_and_its_variables():
    name = "hf:owner/repo-GGUF/Q4/m-1.5.gguf"
    path, place = "owner/repo-GGUF/resolve/main/Q4/m-1.5.gguf", "/data/models/owner/repo-GGUF/Q4/m-1.5.gguf"
    assert downloads(name) == [(f"https://huggingface.co/{path}", "", place)]
    assert downloads(name, HF_ENDPOINT="https://mirror.example/hub/", HF_TOKEN=" hf_1 ") == [
        (f"https://mirror.example/hub/{path}", "hf_1", place)
    ]
    with pytest.raises(Rejected, match="HF_TOKEN is not a token"):
        downloads(name, HF_TOKEN="two words")


def test_address_keeps_its_query():
    assert downloads("https://me:pw@host:8443/a%20b/m%20x.gguf?sig=1&x=2#top") == [
        ("https://me:pw@host:8443/a%20b/m%20x.gguf?sig=1&x=2", "", "/data/models/m x.gguf")
    ]


def test_address_of_a_page_on_hugging_face_is_that_of_its_file():
    assert downloads("https://huggingface.co/owner/repo/blob/main/Q4/blob/m.gguf") == [
        ("https://huggingface.co/owner/repo/resolve/main/Q4/blob/m.gguf", "", "/data/models/m.gguf")
    ]
    assert downloads("https://host/owner/repo/blob/m.gguf")[0][0] == "https://host/owner/repo/blob/m.gguf"


def test_split_model_is_all_its_files():
    places = downloads("hf:owner/repo/big-00002-of-00003.gguf")
    assert [place.rpartition("/")[2] for _, _, place in places] == [f"big-0000{n}-of-00003.gguf" for n in (1, 2, 3)]
    assert len(downloads("http://host/big-00001-of-00002.gguf?s=1")) == 2
    assert len(downloads("http://host/big-00001-of-99999.gguf")) == 1


def test_file_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "m.gguf").touch()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert read_source("~/m.gguf", MODELS, {}) == read_source("m.gguf", MODELS, {}) == tmp_path / "m.gguf"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("nowhere.gguf", "does not exist"),
        ("~nobody-of-this-name/x.gguf", "does not exist"),
        ("/", "is not a file"),
        ("x" * 5_000, "cannot be read: File name too long"),
        ("hf:owner/file.gguf", "does not name a GGUF file"),
        ("hf:../../etc/passwd.gguf", "does not name a GGUF file"),
        ("hf:a/b/../../c.gguf", "does not name a GGUF file"),
        ("hf:a/b/c.gguf?x", "does not name a GGUF file"),
        ("https://host/model.bin", "does not end with the name of a GGUF file"),
        ("https://host/..%2f..%2fx.gguf", "does not end with the name of a GGUF file"),
        ("https:///x.gguf", "does not end with the name of a GGUF file"),
        ("https://host:port/x.gguf", "not a web address"),
        ("https://[host/x.gguf", "not a web address"),
        ("ftp://host/x.gguf", "ftp:// is not an address"),
    ],
)
def test_places_that_are_no_model(text: str, what: str):
    with pytest.raises(Rejected, match=what) as raised:
        read_source(text, MODELS, {})
    assert raised.value.remedy


def test_beginning_of_a_file_tells_if_it_can_be_a_model():
    check_gguf(b"GGUF\3\0\0\0")
    for head, what in ((b"GGUF\1\0\0\0", "version 1"), (b"\n<html>", "but a web page"), (b"", "not a GGUF file")):
        with pytest.raises(IkigaiError, match=what):
            check_gguf(head)


def test_file_that_is_no_model_is_named(tmp_path: Path):
    (tmp_path / "notes.gguf").write_text("Not a model.")
    for file, what in ((tmp_path / "notes.gguf", r"notes\.gguf is not a GGUF file"), (tmp_path, "Is a directory")):
        with pytest.raises(IkigaiError, match=what) as raised:
            check_file(file)
        assert "address of the file itself" not in raised.value.remedy


def test_name_is_one_that_can_be_typed():
    assert check_name(Path("/x/Tiny-1.5-Q4_K_M.gguf")) == "local/Tiny-1.5-Q4_K_M"
    with pytest.raises(Rejected, match="has a space in it"):
        check_name(Path("/x/my model.gguf"))


def test_suggestions_are_places_with_sizes_and_sources():
    rows = suggestions.read_suggestions()
    assert len(rows) >= 3 and [row.megabytes for row in rows] == sorted(row.megabytes for row in rows)
    for row in rows:
        assert len(downloads(row.model)) == 1 and row.source.startswith("https://")
    assert suggestions.fits(rows[0], 16_000) and not suggestions.fits(rows[-1], 1_000)
    assert suggestions.memory_megabytes() > 100
