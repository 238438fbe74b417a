"""Content blocks and messages: the input and the output of a model."""

from enum import StrEnum
from typing import TypeAlias

from ikigai.core.events.record import Record


class Citation(Record, frozen=True):
    """A page that a text relies on, as a vendor's own web search found it.

    `opaque` is the JSON text that `vendor` wants back with the text, "" for none.
    """

    url: str
    title: str = ""
    opaque: str = ""
    vendor: str = ""


class Text(Record, frozen=True, tag="text"):
    """Words, and the pages that they rely on."""

    text: str
    citations: tuple[Citation, ...] = ()


class Thinking(Record, frozen=True, tag="thinking"):
    """The thinking of a model before it spoke.

    `signature` is opaque to all but its `vendor` and is sent back to that vendor byte for byte.
    """

    text: str
    signature: str = ""
    vendor: str = ""


class Image(Record, frozen=True, tag="image"):
    """A picture that the user or a tool shows.

    `data` is base64 of a PNG, JPEG or WebP that every vendor takes (see `ikigai.images`). `width` and `height` are in
    pixels, `name` is the user's name for it.
    """

    media_type: str
    data: str
    width: int
    height: int
    name: str = ""


class DocumentKind(StrEnum):
    """Source of a document; stored as spelled here."""

    FILE = "file"
    FOLDER = "folder"
    PAGE = "page"
    PDF = "pdf"
    RESOURCE = "resource"
    SKILL = "skill"


class Document(Record, frozen=True, tag="document"):
    """A text that the user attached to a message: of a file, a folder's list of entries, a page from the web, a
    resource of an MCP server, or a skill.

    `name` is the path or URL as the user wrote it. `whole` is the size of the file in bytes where `text` is only its
    beginning, else 0. `data` is a PDF of `pages` pages in base64, "" if it is too large to be sent.
    """

    name: str
    text: str
    kind: DocumentKind = DocumentKind.FILE
    whole: int = 0
    data: str = ""
    pages: int = 0

    @property
    def lines(self) -> int:
        """The number of lines of `text`."""
        return self.text.count("\n") + (self.text[-1:] not in ("", "\n"))


Attachment: TypeAlias = Image | Document
"""A part of a message of the user beside the words."""


class ToolCall(Record, frozen=True, tag="tool_call"):
    """A call of a tool by a model. `arguments` is the JSON text of an object, as the model wrote it.

    Text of the model that is not a JSON object stands in `malformed`, and `arguments` is `{}`: such a call is answered
    with an error and never runs. A `hosted` call has been run by the vendor, within the reply: it is named as the
    `vendor` of thinking is. ikigai never runs it, and its result follows in the model's message.
    """

    id: str
    name: str
    arguments: str = "{}"
    malformed: str = ""
    hosted: str = ""


class ToolResult(Record, frozen=True, tag="tool_result"):
    """The result of a tool call; block of a message and event of the log in one.

    `name` is the tool's: in a message it is always the name in the call (`build.append_event`), in the log it may be
    missing. `images` are shown to a model that sees. `diff` is the change of a file, for people and no model. `whole`
    is never stored: the bytes of all of a long text of which only the ends were read. The result of a `hosted` call has
    in `opaque` what its vendor wants back, as JSON text.
    """

    call_id: str
    content: str
    is_error: bool = False
    name: str = ""
    images: tuple[Image, ...] = ()
    diff: str = ""
    whole: int = 0
    hosted: str = ""
    opaque: str = ""


ReplyBlock: TypeAlias = Text | Thinking | ToolCall | ToolResult
"""A part of a model's reply; a ToolResult belongs to a hosted call."""
Block: TypeAlias = Text | Image | Document | Thinking | ToolCall | ToolResult


class Role(StrEnum):
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


USER, ASSISTANT, TOOL = Role.USER, Role.ASSISTANT, Role.TOOL
"""Names for hot paths: up to Python 3.11 a member takes a quarter of a microsecond to be found in its class."""


class Message(Record, frozen=True, cache_hash=True):
    """One message of a request: a user's, a model's, or the results of the calls of the model's message before it."""

    role: Role
    blocks: tuple[Block, ...]

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls that ikigai runs."""
        return tuple([block for block in self.blocks if type(block) is ToolCall and not block.hosted])

    @property
    def images(self) -> tuple[Image, ...]:
        """The images shown in the message, and those in the results of tools."""
        found: list[Image] = []
        for block in self.blocks:
            if type(block) is Image:
                found.append(block)
            elif type(block) is ToolResult and block.images:
                found += block.images
        return tuple(found)

    @property
    def pdfs(self) -> tuple[Document, ...]:
        """The PDFs in the message that can be sent themselves."""
        return tuple([block for block in self.blocks if type(block) is Document and block.data])

    @property
    def text(self) -> str:
        if len(self.blocks) == 1 and type(only := self.blocks[0]) is Text:  # as in most messages
            return only.text
        return "\n\n".join([block.text for block in self.blocks if type(block) is Text])


class StopReason(StrEnum):
    """The reason why a model stopped: said all, wants tools run, reached its output limit, or refused.

    PAUSED comes from a vendor that ran many hosted calls: the reply goes on with the next request.
    """

    END = "end"
    TOOLS = "tools"
    LENGTH = "length"
    REFUSED = "refused"
    PAUSED = "paused"


class Usage(Record, frozen=True):
    """Tokens as the provider counted them for one request."""

    input: int = 0
    """All tokens that went in."""
    output: int = 0
    """All tokens that came out."""
    cached: int = 0
    """Part of `input` that was read from the provider's cache."""
    thinking: int = 0
    """Part of `output`."""
    written: int = 0
    """Part of `input` that was put into the provider's cache."""
    cost: float | None = None
    """The charge in US dollars, where the provider names it."""
    written_1h: int = 0
    """Part of `written` that was put there for an hour."""
    reply: str = ""
    """The provider's id of the reply, by which the next request asks why its cache missed."""
    diagnosis: str = ""
    """The answer to that question, in the provider's word."""
    searches: int = 0
    """Web searches of the vendor that it charges for."""


class ToolSpec(Record, frozen=True):
    """A tool in the form that models are told of; `schema` is the JSON text of the JSON Schema of its arguments.

    `set` is the tool set that switches it on and off; the model is not told of that. A `hosted` tool is run by the
    vendor, which describes it to the model itself.
    """

    name: str
    description: str
    schema: str
    set: str = ""
    hosted: bool = False
