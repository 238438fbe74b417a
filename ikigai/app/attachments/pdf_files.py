"""Attach PDF files: their bytes for models that take them, and their text for all others.

A PDF is read by a process of its own (`pdf_child`), which has a limit for its time and its memory.
"""

import base64
import json
import subprocess
import sys
from pathlib import Path
from typing import BinaryIO

from ikigai.core.errors import Rejected
from ikigai.core.events.messages import Document, DocumentKind
from ikigai.core.text.sanitize import storable

PDF_START = b"%PDF-"
MAX_PDF_BYTES = 100_000_000
"""Bytes of a file that is read for its text."""
MAX_SENT_PDF_BYTES, MAX_SENT_PDF_PAGES = 10_000_000, 100
"""Bytes and pages of a file that goes along itself; a longer one goes along as text.

Anthropic takes 100 pages and 32 MB in a request, and every request has all of them.
"""
MAX_PDF_SECONDS, MAX_PDF_MEMORY = 20, 1_500_000_000
MAX_TEXT_PAGES = 2_000
"""Pages that are read for their text."""
_CHILD = Path(__file__).with_name("pdf_child.py")
_ERRORS = {
    "encrypted": ("{name} is an encrypted PDF.", "Save it without its password first. Nothing was sent."),
    "broken": ("{name} is not a PDF that can be read.", "Save it again, or remove the @. Nothing was sent."),
    "costly": ("{name} takes too much time or memory to read.", "Save it again, or remove the @. Nothing was sent."),
}


def is_pdf(file: BinaryIO) -> bool:
    """Return True if the file begins as PDFs do; it is read from its beginning afterwards."""
    start = file.read(len(PDF_START))
    file.seek(0)
    return start == PDF_START


def read_pdf(file: BinaryIO, name: str, size: int, max_text_bytes: int) -> tuple[Document, str]:
    """Return the attachment of a PDF of `size` bytes, with at most `max_text_bytes` of its text, and why the file
    itself does not go along, "" if it does; block. Raise Rejected if it cannot be read.
    """
    if size > MAX_PDF_BYTES:
        raise Rejected(f"{name} is a PDF of more than {MAX_PDF_BYTES // 1_000_000} MB.", "Attach a part of it.")
    data = file.read(MAX_PDF_BYTES + 1)
    answer = _ask_child(data, max_text_bytes)
    if error := answer.get("error"):
        raise refusal(str(error), name)
    pages, text = int(str(answer["pages"])), storable(str(answer["text"])).encode()
    if not pages:
        raise Rejected(f"{name} has no pages.", "Remove the @. Nothing was sent.")
    unsent = _problem(len(data), pages, bool(answer["locked"]))
    document = Document(
        storable(name),
        text[:max_text_bytes].decode(errors="ignore"),
        DocumentKind.PDF,
        whole=len(text) if len(text) > max_text_bytes else 0,
        data="" if unsent else base64.b64encode(data).decode(),
        pages=pages,
    )
    return document, unsent


def refusal(error: str, name: str) -> Rejected:
    """Return the refusal of a file that is no usable PDF; `error` is "encrypted", "broken" or "costly"."""
    what, remedy = _ERRORS[error]
    return Rejected(what.format(name=name), remedy)


def _problem(size: int, pages: int, is_locked: bool) -> str:
    """Return why a file of `size` bytes does not go along; "" if it does."""
    if size > MAX_SENT_PDF_BYTES:
        return f"it has more than {MAX_SENT_PDF_BYTES // 1_000_000} MB"
    if pages > MAX_SENT_PDF_PAGES:
        return f"it has more than {MAX_SENT_PDF_PAGES} pages"
    # Vendors refuse encrypted files, also those that need no password, and every further request would hold it.
    return "it is encrypted" if is_locked else ""


def _ask_child(data: bytes, max_characters: int) -> dict[str, object]:
    """Return what the child process read."""
    limits = map(str, (MAX_TEXT_PAGES, max_characters, MAX_PDF_MEMORY, MAX_PDF_SECONDS))
    try:
        ran = subprocess.run(
            [sys.executable, "-P", _CHILD, *limits],
            input=data,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=2 * MAX_PDF_SECONDS,
            check=True,
        )
        return json.loads(ran.stdout)
    except (subprocess.SubprocessError, ValueError):  # killed at a limit
        return {"error": "costly"}
