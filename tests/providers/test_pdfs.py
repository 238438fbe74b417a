"""A PDF of the user: in each vendor's own form, counted by its rule, and as text for models that take none."""

import base64
import io
import json
from typing import Any

import msgspec
import pypdf
import pytest

from ikigai.core.events import codec
from ikigai.core.events.events import UserMessage
from ikigai.core.events.messages import Document, DocumentKind, Message, Role, Text
from ikigai.core.request.build import Request, append_event
from ikigai.core.request.cross_model import document_text
from ikigai.core.text.tokens import BYTES_PER_TOKEN
from ikigai.providers.anthropic.messages_api import MessagesEncoder
from ikigai.providers.encoding import BodyEncoder
from ikigai.providers.google.generate_content_api import ContentsEncoder
from ikigai.providers.models.models import ModelTraits
from ikigai.providers.openai.chat_api import ChatEncoder
from ikigai.providers.openai.provider import OpenAIProvider
from ikigai.providers.openai.responses_api import ResponsesEncoder
from tests.providers.bodies import messages_validated
from tests.support.pdf import make_pdf

DATA = "JVBERi0xLjcK" * 50
PDF = Document("papers/a.pdf", "[page 1]\nWords é", DocumentKind.PDF, data=DATA, pages=3)
TEXT_TOKENS = -(-len(PDF.text.encode()) // BYTES_PER_TOKEN)
QUESTION = Message(Role.USER, (Text("Sum up."), PDF))
REQUEST = Request("m", (QUESTION,))
URL = f"data:application/pdf;base64,{DATA}"

TAKING: dict[str, tuple[BodyEncoder, Any, int]] = {
    "messages": (
        MessagesEncoder("claude-sonnet-5-5"),
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": DATA},
            "title": "papers/a.pdf",
        },
        3 * 1_600 + TEXT_TOKENS,
    ),
    "responses": (
        ResponsesEncoder("openai/gpt-6.1-sol", ModelTraits(), official=True),
        {"type": "input_file", "filename": "a.pdf", "file_data": URL},
        3 * 2_489 + TEXT_TOKENS,
    ),
    "chat": (
        ChatEncoder(official=True, pdfs=True),
        {"type": "file", "file": {"filename": "a.pdf", "file_data": URL}},
        3 * 2_489 + TEXT_TOKENS,
    ),
    "gemini 2.5": (
        ContentsEncoder("gemini-2.5-flash", ModelTraits("budget")),
        {"inlineData": {"mimeType": "application/pdf", "data": DATA}},
        3 * 258 + TEXT_TOKENS,
    ),
    "gemini 3": (
        ContentsEncoder("gemini-3.8-flash", ModelTraits("level")),
        {"inlineData": {"mimeType": "application/pdf", "data": DATA}},
        3 * 560,
    ),
}
REFUSING: dict[str, BodyEncoder] = {
    "another model behind Messages": MessagesEncoder("some-model"),
    "a blind Claude": MessagesEncoder("claude-2", ModelTraits(images=False)),
    "another server with Responses": ResponsesEncoder("x/m", ModelTraits()),
    "another server with Chat": ChatEncoder(),
    "a blind Gemma": ContentsEncoder("gemma-3-27b-it", ModelTraits(images=False)),
}


def parts(encoder: BodyEncoder) -> list[Any]:
    body = json.loads(encoder.body(REQUEST))
    [message] = body[encoder.array]
    return message.get("content") or message["parts"]


@pytest.mark.parametrize("name", TAKING)
def test_pdf_goes_along_in_the_form_of_the_vendor(name: str):
    encoder, form, _ = TAKING[name]
    assert form in parts(encoder)


@pytest.mark.parametrize("name", TAKING)
def test_pdf_counts_by_the_rule_of_the_vendor(name: str):
    encoder, _, tokens = TAKING[name]
    assert encoder.pdf_tokens(PDF) == tokens
    sent = encoder.envelope(REQUEST) + encoder.message(QUESTION)
    assert sent - BYTES_PER_TOKEN * tokens + len(DATA) == len(encoder.body(REQUEST))


@pytest.mark.parametrize("name", REFUSING)
def test_pdf_goes_as_text_to_a_model_that_takes_none(name: str):
    encoder = REFUSING[name]
    body = encoder.body(REQUEST)
    assert DATA.encode() not in body
    assert "Words é" in json.dumps(json.loads(body), ensure_ascii=False)
    assert encoder.envelope(REQUEST) + encoder.message(QUESTION) == len(body)


def test_pdf_without_text_is_named():
    scanned = Document("s.pdf", "", DocumentKind.PDF, data=DATA, pages=3)
    one = msgspec.structs.replace(scanned, pages=1)
    assert document_text(one) == '<pdf name="s.pdf">\n[1 page without text]\n</pdf>'
    assert document_text(scanned) == '<pdf name="s.pdf">\n[3 pages without text]\n</pdf>'


def test_document_block_is_of_the_type_of_the_sdk():
    messages_validated(json.loads(MessagesEncoder("claude-sonnet-5-5").body(REQUEST)))


def test_only_the_own_address_of_openai_takes_pdfs_over_chat():
    for address, takes in (("https://api.openai.com/v1", True), ("https://x.openai.azure.com/openai/v1", False)):
        provider = OpenAIProvider("openai", address, "k", api="chat")
        assert (DATA.encode() in provider.encoder("gpt-5").body(REQUEST)) is takes


def test_pdf_survives_the_log():
    event = UserMessage("Sum up.", documents=(PDF,))
    row = codec.encode(event)
    assert codec.decode(*row) == event
    [message] = append_event((), event)
    assert message.pdfs == (PDF,)


def encrypted(algorithm: str, words: str = "Secret") -> str:
    """A PDF that opens without a password, in base64."""
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(make_pdf(words)))
    writer.encrypt("", owner_password="owner", algorithm=algorithm)
    writer.write(written := io.BytesIO())
    return base64.b64encode(written.getvalue()).decode()


@pytest.mark.parametrize("name", TAKING)
def test_encrypted_pdf_that_is_in_the_log_goes_as_text(name: str):
    """Earlier versions stored such files whole. Anthropic refuses each request that holds one."""
    encoder, form, _ = TAKING[name]
    stored = Document("papers/a.pdf", PDF.text, DocumentKind.PDF, data=encrypted("RC4-128"), pages=3)
    event = codec.decode(*codec.encode(UserMessage("Sum up.", documents=(stored, PDF))))
    request = Request("m", append_event((), event))
    body = encoder.body(request)
    assert stored.data.encode() not in body and b"Words \xc3\xa9" in body
    hidden = len(DATA) - BYTES_PER_TOKEN * encoder.pdf_tokens(PDF)
    assert encoder.envelope(request) + sum(map(encoder.message, request.messages)) + hidden == len(body)
    [message] = json.loads(body)[encoder.array]
    assert form in (message.get("content") or message["parts"]), "the other PDF goes along itself"
