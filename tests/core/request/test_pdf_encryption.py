"""An encrypted PDF is known by its trailers alone, however they are written and whatever else the file says."""

import base64
import io
import random

import pypdf
import pytest
from pypdf.generic import NameObject, TextStringObject

from ikigai.core.request import pdf_encryption
from tests.support.pdf import make_pdf


def is_encrypted(pdf: bytes) -> bool:
    return pdf_encryption.is_encrypted(base64.b64encode(pdf).decode())


def encrypted(algorithm: str, words: str = "Secret") -> bytes:
    """Return a PDF that opens without a password."""
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(make_pdf(words)))
    writer.encrypt("", owner_password="owner", algorithm=algorithm)
    writer.write(written := io.BytesIO())
    return written.getvalue()


def with_stream(pdf: bytes, entry: bytes) -> bytes:
    """Return the PDF with an object in front of a last stream of cross-references, which also has this entry."""
    place = len(pdf) + 1
    stream = b"\n99 0 obj\n<</Type/XRef/Size 100/W[1 2 1]/Root 1 0 R%b/Length 3>>stream\nabc\nendstream\nendobj" % entry
    return pdf + stream + b"\nstartxref\n%d\n%%%%EOF\n" % place


def with_update(pdf: bytes) -> bytes:
    """Return the PDF with a saved change whose trailer names only the one before."""
    newest = int(pdf.rsplit(b"startxref", 1)[1].split()[0])
    table = b"\nxref\n1 1\n0000000009 00000 n \n5 0\ntrailer\n<</Size 9/Root 1 0 R/Prev %d>>\n" % newest
    return pdf + table + b"startxref\n%d\n%%%%EOF" % (len(pdf) + 1)


@pytest.mark.parametrize("algorithm", ["RC4-40", "RC4-128"])
def test_encrypted_pdf_is_known_wherever_its_trailer_stands(algorithm: str):
    for length in range(4):
        assert is_encrypted(pdf := encrypted(algorithm, "x" * length))
        assert is_encrypted(with_update(pdf)) and is_encrypted(with_update(with_update(pdf)))


def test_encrypted_pdf_is_known_by_a_stream_of_cross_references():
    plain = make_pdf("Words")
    assert is_encrypted(with_stream(plain, b"/Encrypt 5 0 R"))
    assert is_encrypted(with_stream(plain, b"/Encrypt<</Filter/Standard>>"))
    assert not is_encrypted(with_stream(plain, b"/ID[(/Encrypt 5 0 R)(b)]"))
    assert is_encrypted(with_update(with_stream(plain, b"/Encrypt 5 0 R")))


def test_pdf_about_encryption_is_not_encrypted():
    for words in (
        "/Encrypt",
        "the key /Encrypt of a trailer",
        "/Encryption 5 0 R",
        "/Encrypt 1 0 R",
        "trailer<</Encrypt<<",
    ):
        pdf = make_pdf(words)
        assert words.encode() in pdf and not is_encrypted(pdf)
        assert not is_encrypted(with_update(pdf)) and not is_encrypted(with_stream(pdf, b""))
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(make_pdf("Words")))
    writer.root_object[NameObject("/Encrypt")] = writer.pages[0].indirect_reference
    writer.add_metadata({"/Title": TextStringObject("/Encrypt 1 0 R")})
    writer.write(written := io.BytesIO())
    assert b"/Encrypt 3 0 R" in written.getvalue() and not is_encrypted(written.getvalue())


def test_encrypted_pdf_with_a_wrong_place_of_its_trailer_is_known():
    pdf = encrypted("RC4-128")
    head, _, _ = pdf.rpartition(b"startxref")
    assert (
        is_encrypted(head + b"startxref\n7\n%%EOF") and is_encrypted(head) and is_encrypted(head + b"startxref\n%%EOF")
    )
    plain, _, _ = make_pdf("/Encrypt 1 0 R").rpartition(b"startxref")
    assert not is_encrypted(plain + b"startxref\n7\n%%EOF")


def test_what_is_no_pdf_is_not_encrypted():
    rng = random.Random(7)
    for pdf in ("", "=", "no base64: L0VuY3J5cHQ=", "ÄÖÜ" * 99, base64.b64encode(b"startxref 0").decode()):
        assert not pdf_encryption.is_encrypted(pdf)
    whole = encrypted("RC4-128")
    for _ in range(300):  # damaged anywhere, it is one or the other
        at = rng.randrange(len(whole))
        is_encrypted(whole[:at] + rng.randbytes(3) + whole[at + rng.randrange(9) :])


def test_little_of_a_large_pdf_is_decoded(monkeypatch: pytest.MonkeyPatch):
    sizes, decode = list[int](), base64.b64decode
    monkeypatch.setattr(pdf_encryption.base64, "b64decode", lambda text: sizes.append(len(text)) or decode(text))
    assert not is_encrypted(make_pdf(*["/Encrypt 1 0 R" * 1000] * 200))
    assert sum(sizes) < 300_000
    endless = b"%PDF-1.7\nxref\n" + b"0 0\n" * 100_000 + b"trailer<</Encrypt 1 0 R>>\nstartxref\n9\n%%EOF"
    sizes.clear()
    is_encrypted(endless)
    assert sum(sizes) < 1_000_000
