"""PDFs behind an @: read whole, as text, or refused with a sentence."""

import base64
import io
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pypdf
import pytest

from ikigai.app.attachments import pdf_files
from ikigai.app.attachments.attachments import MAX_DOCUMENT_BYTES, Attached, notices, read_mentions
from ikigai.core.errors import Rejected
from ikigai.core.events.messages import Document, DocumentKind
from tests.support.pdf import make_pdf


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path


def read(folder: Path, data: bytes) -> Document:
    (folder / "a.pdf").write_bytes(data)
    [found] = read_mentions("@a.pdf").parts
    assert isinstance(found, Document)
    return found


def test_pdf_is_read_with_its_text(folder: Path):
    data = make_pdf("First page", "Second page")
    found = read(folder, data)
    assert found == Document(
        "a.pdf",
        "[page 1]\nFirst page\n\n[page 2]\nSecond page",
        DocumentKind.PDF,
        data=base64.b64encode(data).decode(),
        pages=2,
    )


def test_pdf_is_known_by_its_beginning_and_not_by_its_name(folder: Path):
    (folder / "a.pdf").write_text("words")
    (folder / "b").write_bytes(make_pdf("Hi"))
    words, pdf = read_mentions("@a.pdf @./b").parts
    assert isinstance(words, Document) and words.kind is DocumentKind.FILE
    assert isinstance(pdf, Document) and pdf.kind is DocumentKind.PDF


def test_long_pdf_goes_along_as_text_that_is_cut(folder: Path):
    found = read(folder, make_pdf(*["long words " * 200] * (pdf_files.MAX_SENT_PDF_PAGES + 1)))
    assert (found.data, found.pages) == ("", 101)
    assert len(found.text.encode()) == MAX_DOCUMENT_BYTES < found.whole


def test_scanned_pdf_has_no_text(folder: Path):
    assert read(folder, make_pdf("")).text == ""


def encrypted(password: str = "password") -> bytes:
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(make_pdf("Secret")))
    writer.encrypt(password, owner_password="owner", algorithm="RC4-128")
    written = io.BytesIO()
    writer.write(written)
    return written.getvalue()


def test_pdf_that_is_locked_without_a_password_goes_along_as_text(folder: Path):
    """Its owner forbids printing, say. Anthropic refuses such a file."""
    found = read(folder, encrypted(""))
    assert (found.text, found.data, found.pages) == ("[page 1]\nSecret", "", 1)


def test_file_of_no_bytes_is_an_empty_text(folder: Path):
    found = read(folder, b"")
    assert (found.text, found.kind) == ("", DocumentKind.FILE)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (encrypted(), "a.pdf is an encrypted PDF."),
        (b"%PDF-1.7\nnothing else", "a.pdf is not a PDF that can be read."),
        (make_pdf("Hi")[:200], "a.pdf is not a PDF that can be read."),
        (bytes(range(256)), "a.pdf is not a PDF that can be read."),
        (make_pdf(), "a.pdf has no pages."),
    ],
)
def test_unreadable_pdf_is_refused(folder: Path, data: bytes, words: str):
    with pytest.raises(Rejected) as caught:
        read(folder, data)
    assert caught.value.what == words
    assert caught.value.remedy


def test_huge_pdf_is_refused_unread(folder: Path):
    with (folder / "a.pdf").open("wb") as file:
        file.write(b"%PDF-1.7\n")
        file.truncate(2_000_000_000)
    with pytest.raises(Rejected, match="a PDF of more than 100 MB"):
        read_mentions("@a.pdf")


def test_costly_pdf_is_given_up(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pdf_files, "MAX_PDF_MEMORY", 40_000_000)
    with pytest.raises(Rejected, match="too much time or memory"):
        read(folder, make_pdf("x"))


def test_compressed_bomb_ends_within_the_limits(folder: Path):
    """The 100 MB of a page are not read: it has no text, and the file goes along."""
    found = read(folder, make_pdf("x", content=zlib.compress(b"q Q " * 25_000_000, 1), filters="/FlateDecode"))
    assert (found.text, found.pages) == ("", 1)


def said(folder: Path, data: bytes, takes_pdfs: bool = True) -> list[str]:
    """Return the notices about a PDF for a model that takes such files, or does not."""
    (folder / "a.pdf").write_bytes(data)
    local = read_mentions("@a.pdf")
    attached = Attached(documents=tuple(part for part in local.parts if isinstance(part, Document)))
    services = SimpleNamespace(sees_images=lambda model: True, takes_pdfs=lambda model: takes_pdfs)
    return notices(local, attached, cast(Any, services), "m/x")


def test_notice_says_why_a_pdf_goes_along_as_text(folder: Path, monkeypatch: pytest.MonkeyPatch):
    assert said(folder, make_pdf("Hi")) == []
    assert said(folder, make_pdf("Hi"), takes_pdfs=False) == ["Only the text of a.pdf is sent: m/x takes no PDFs."]
    assert said(folder, encrypted("")) == ["Only the text of a.pdf is sent: it is encrypted."]
    monkeypatch.setattr(pdf_files, "MAX_SENT_PDF_PAGES", 1)
    assert said(folder, make_pdf("Hi", "Ho")) == ["Only the text of a.pdf is sent: it has more than 1 pages."]
    monkeypatch.setattr(pdf_files, "MAX_SENT_PDF_BYTES", 10)
    assert said(folder, make_pdf("Hi")) == ["Only the text of a.pdf is sent: it has more than 0 MB."]


def test_notice_says_that_nothing_of_a_file_can_be_read(folder: Path):
    assert said(folder, make_pdf(""), takes_pdfs=False) == [
        "a.pdf has no text, and the file itself is not sent: m/x takes no PDFs."
    ]
    assert said(folder, b"") == ["a.pdf is empty."]
