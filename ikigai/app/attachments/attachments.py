"""Attach what a message mentions with an @: files, folders, pictures and pages from the web.

the path or URL behind the @                       what happens
a text file, a folder, a picture                   its text, its list of entries, or the picture goes along
a PDF                                              it goes along, as text to models that take none
https://…                                          the page goes along, if the approval of `web_fetch` allows it
SERVER:URI                                         the resource of an MCP server goes along
a file that looks like one with keys               the user is asked first; also for a file of ikigai's own, and for
                                                   a link out of the folder
a binary file, a pipe, a device, no permission     nothing is sent: Rejected, in words
nothing that exists, and it looks like a path      nothing is sent: Rejected, in words (see `_looks_like_path`)
nothing that exists, otherwise                     it stays a word; the user is told of a name that is nearly it

`read_mentions` reads local files and blocks; `attach` does the rest. REPL and print mode use both.
"""

from __future__ import annotations

import asyncio
import codecs
import difflib
import errno
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from ikigai.app.attachments import pdf_files
from ikigai.app.attachments.pasted_pictures import find_pasted
from ikigai.core.commands.mentions import Mention, find_mentions, format_mention
from ikigai.core.errors import Rejected
from ikigai.core.events.messages import Attachment, Document, DocumentKind, Image
from ikigai.core.text.sanitize import clean_line, storable
from ikigai.core.views.questions import yes_or_no
from ikigai.images import PICTURE_ENDINGS, read_picture, unseen_notice
from ikigai.system import paths
from ikigai.tools.approval.path_policy import PathScope, is_below, reading_doubts
from ikigai.tools.files.contents import read_prefix
from ikigai.tools.files.encodings import first_binary_byte, recognize_encoding, visible_text
from ikigai.tools.files.safe_paths import AmbiguousName, NotRegularFile, open_file, resolve_path
from ikigai.tools.files.search.list_files import list_entries

if TYPE_CHECKING:
    from ikigai.app.run.services import Services
    from ikigai.core.events.events import Choices
    from ikigai.core.ports import Ask

MAX_DOCUMENT_BYTES = 100_000
"""Most bytes of a file's text or of a page that go along, about 25,000 tokens; the rest is cut off, and said so."""
MAX_DOCUMENTS_BYTES = 400_000
"""Most bytes of all documents of one message."""
MAX_ATTACHMENTS, MAX_IMAGES_BASE64 = 20, 14_000_000
"""Most attachments of one message, and most characters of the base64 of its images and PDFs.

All images in the window go with every request, and a whole request may have 20 MB with Google and 32 with Anthropic.
"""
_WEB = re.compile("https?://", re.IGNORECASE)
_NPM_PACKAGE = re.compile(r"[a-z0-9~-][a-z0-9._~-]*/[a-z0-9._~-]+")
MAX_COMPARED_NAMES, NEAR_RATIO = 2_000, 0.8
"""Entries of the folder that an unknown name is compared with, and how much of the two must be equal."""
MAX_UNKNOWN_NAMED = 3
"""Words with an @ that a notice names."""
_TEXT_ENDINGS = re.compile(
    r".+\.(md|txt|rst|adoc|log|csv|tsv|json|jsonl|ya?ml|toml|ini|cfg|conf|xml|html?|css|scss|less|svg|sql|diff|patch"
    r"|py|pyi|ipynb|js|mjs|cjs|jsx|ts|tsx|vue|svelte|c|h|cc|cpp|cxx|hh|hpp|m|mm|rs|go|java|kt|kts|scala|swift|cs|fs"
    r"|rb|php|pl|lua|r|jl|hs|ml|ex|exs|erl|clj|zig|nim|dart|sh|bash|zsh|fish|ps1|bat|tf|proto|graphql|tex|pdf|docx?"
    r"|xlsx?|zip|gz|tar|lock|env)",
    re.IGNORECASE,
)
"""Names with these endings are meant as files."""
_REMEDY = "Check the name after the @, or remove the @. Nothing was sent."


class UnknownName(NamedTuple):
    """A word with an @ that names nothing, and the name of the file or folder that it nearly is."""

    word: str
    nearest: str


class LocalMentions(NamedTuple):
    """Parts of a message that were read from this machine.

    `parts` are attachments, and the URLs and SERVER:URIs between them, in the order of the message. `doubtful` are
    sentences about files that the user is asked about. `unknown` are the words with an @ that name nothing but are
    nearly the name of something. `unsent` says by its name why a PDF itself does not go along.
    """

    parts: tuple[Attachment | str, ...] = ()
    doubtful: tuple[str, ...] = ()
    unknown: tuple[UnknownName, ...] = ()
    unsent: Mapping[str, str] = MappingProxyType({})


class Attached(NamedTuple):
    """The attachments of a message."""

    images: tuple[Image, ...] = ()
    documents: tuple[Document, ...] = ()


def read_mentions(text: str, folder: Path | None = None, servers: Collection[str] = ()) -> LocalMentions:
    """Read the files and folders that `text` mentions, each once; block.

    Relative paths begin at `folder`, by default the working directory. `servers` are the names of MCP servers. Raise
    Rejected for the first that cannot be attached.
    """
    folder = folder or Path(paths.current_directory() or "/")
    parts = dict[str, Attachment | str]()
    doubtful, unknown, unsent = dict[str, None](), list[UnknownName](), dict[str, str]()
    for mention in find_mentions(text):
        if mention.url:
            parts[mention.url] = mention.url
        elif resource := _find_resource(mention, servers):
            parts[resource] = resource
        elif found := _find(mention, folder):
            name, path = found
            if len(parts) >= MAX_ATTACHMENTS and str(path) not in parts:
                raise Rejected("A message can have at most 20 attachments.", "Send it in several messages.")
            if str(path) not in parts:
                parts[str(path)], why = _read(path, name)
                if why:
                    unsent[storable(clean_line(name))] = why
            doubtful |= dict.fromkeys(find_doubts(path, name, folder))
        elif not mention.is_code and (near := _nearest(mention.names, folder)):
            unknown.append(near)
    return LocalMentions(tuple(parts.values()), tuple(doubtful), tuple(unknown), unsent)


async def attach(
    local: LocalMentions, services: Services, settings: Choices, ask: Ask, on_wait: Callable[[str], object]
) -> Attached:
    """Return the attachments of a message, after the questions about them, with its pages fetched and keys replaced.

    `on_wait` gets the name of the awaited item, and "" at the end. Raise Rejected where the user or the policy says no,
    for a page that does not come, and for more than a message can hold.
    """
    if local.doubtful:
        lines = (*local.doubtful, "Attached, it is stored in the log and sent to the model.")
        if (await ask(yes_or_no("Attach it?", lines))).key != "y":
            raise Rejected("Nothing was attached, and nothing was sent.", "Remove the @ to send only the text.")
    parts = list[Attachment]()
    try:
        for part in local.parts:
            if isinstance(part, str):
                on_wait(part)
                part = await (_fetch if _WEB.match(part) else _read_resource)(part, services, settings, ask)
            parts.append(part)
    finally:
        on_wait("")
    images = tuple(part for part in parts if isinstance(part, Image))
    redactor = services.redaction.redactor()
    documents = tuple(_redacted(part, redactor.foreign(part.text)) for part in parts if isinstance(part, Document))
    if sum(len(part.data) for part in (*images, *documents)) > MAX_IMAGES_BASE64:
        raise Rejected("These files are too large for one message.", "Send them in several messages.")
    if sum(len(each.text.encode()) for each in documents) > MAX_DOCUMENTS_BYTES:
        what = f"The attached texts have more than {MAX_DOCUMENTS_BYTES:,} bytes together, the limit of one message."
        raise Rejected(what, "Send them in several messages.")
    return Attached(images, documents)


def _redacted(document: Document, text: str) -> Document:
    """Return the document with this text; without its file if the text has changed, since the file has the secret."""
    return replace(document, text=text, data=document.data if text == document.text else "")


def notices(local: LocalMentions, attached: Attached, services: Services, model: str) -> list[str]:
    """Return the notices about what a message brings: images that the model sees none of, PDFs that it gets as text or
    not at all, empty files, and words with an @ that name nothing.
    """
    found = [unseen_notice(model)] if attached.images and not services.sees_images(model) else []
    takes_pdfs, as_text = services.takes_pdfs(model), dict[str, list[str]]()
    for document in attached.documents:
        name = clean_line(document.name)
        if document.kind is DocumentKind.PDF and not (takes_pdfs and document.data):
            reason = local.unsent.get(document.name, "its text holds a key of yours")
            why = reason if takes_pdfs else f"{model} takes no PDFs"
            if document.text:
                as_text.setdefault(why, []).append(name)
            else:
                found.append(f"{name} has no text, and the file itself is not sent: {why}.")
        elif document.kind is DocumentKind.FILE and not document.text:
            found.append(f"{name} is empty.")
    found += [f"Only the text of {', '.join(names)} is sent: {why}." for why, names in as_text.items()]
    return [*found, *filter(None, [unknown_notice(local.unknown)])]


def unknown_notice(unknown: Sequence[UnknownName]) -> str:
    """Return the notice about words with an @ that name nothing; "" for none."""
    if not unknown:
        return ""
    names = ", ".join(clean_line(f"@{each.word}") for each in unknown[:MAX_UNKNOWN_NAMED])
    more = ", …" * (len(unknown) > MAX_UNKNOWN_NAMED)
    meant = " or ".join(dict.fromkeys(clean_line(format_mention(each.nearest)) for each in unknown[:MAX_UNKNOWN_NAMED]))
    return f"There is no file or folder {names}{more}: sent as plain text. Did you mean {meant}?"


# ── local files ──


def _find(mention: Mention, folder: Path) -> tuple[str, Path] | None:
    """Return the name and the resolved path of the mentioned file, or None for plain words. Raise Rejected if it is
    missing.
    """
    for alike in (False, True):
        for name in mention.names:
            if path := _existing(name, folder, alike=alike) or find_pasted(name):
                return name, path
    missing = next((name for name in mention.names if _looks_like_path(name, folder)), "")
    if missing and not mention.is_code:
        raise Rejected(f"There is no file or folder {clean_line(missing)}.", _REMEDY)
    return None


def _existing(name: str, folder: Path, *, alike: bool = False) -> Path | None:
    """Return the resolved path if there is something, or if its folder may not be searched. Raise Rejected if several
    names look like it.
    """
    try:
        path = resolve_path(name, folder, alike=alike)
    except AmbiguousName as error:
        raise Rejected(clean_line(str(error)), _REMEDY) from None
    except (OSError, ValueError):
        return None
    try:
        path.lstat()
    except OSError as error:
        return path if error.errno == errno.EACCES else None
    return path


def _looks_like_path(name: str, folder: Path) -> bool:
    """Return True if a user who writes this name of nothing means a file: by its ending or its beginning, or because
    the folder exists that it should be in.
    """
    if name.lower().endswith(PICTURE_ENDINGS) or _TEXT_ENDINGS.fullmatch(name):
        return True
    if name.startswith(("~/", "./", "../")) or name.endswith("/"):
        return True
    if _NPM_PACKAGE.fullmatch(name) and os.path.lexists(folder / "package.json"):
        return False
    above = name.rpartition("/")[0]
    return bool(above) and _existing(above, folder) is not None


def _nearest(names: Sequence[str], folder: Path) -> UnknownName | None:
    """Return the last of these names of nothing with the entry of the folder that it nearly is; None for none."""
    word = names[-1]
    if "/" in word:
        return None  # its folder does not exist, or it is a package
    try:
        entries = os.listdir(folder)[:MAX_COMPARED_NAMES]  # noqa: PTH208
    except OSError:
        return None
    nearest = [entry for entry in entries if entry.rpartition(".")[0] == word]
    nearest = nearest or difflib.get_close_matches(word, entries, 1, NEAR_RATIO)
    return UnknownName(word, nearest[0]) if nearest else None


def find_doubts(path: Path, name: str, folder: Path) -> tuple[str, ...]:
    """Return why the user is asked about a file at this resolved path, in sentences; () for an ordinary one."""
    if find_pasted(path.name) == path:
        return ()
    scope = PathScope(os.path.realpath(folder), tuple(os.path.realpath(each) for each in paths.own_folders()))
    given = os.path.normpath(folder / os.path.expanduser(name))  # noqa: PTH111
    if is_below(str(folder), given):
        given = scope.root + given[len(str(folder)) :]  # the folder may itself be reached through a link
    return tuple(f"{clean_line(name)} {why}." for why in reading_doubts(scope, str(path), given))


def _read(path: Path, name: str) -> tuple[Attachment, str]:
    """Return what goes along, and of a PDF why the file itself does not. Raise Rejected."""
    shown = clean_line(name)
    try:
        if path.is_dir():
            entries, count = list_entries(path)
            text = "".join(f"{entry}\n" for entry in entries)
            whole = count if count > len(entries) else 0
            return Document(storable(name), storable(text), DocumentKind.FOLDER, whole), ""
        with open_file(path) as file:
            if pdf_files.is_pdf(file):
                return pdf_files.read_pdf(file, shown, os.fstat(file.fileno()).st_size, MAX_DOCUMENT_BYTES)
            if image := read_picture(file, shown):
                return image, ""
            data, size = read_prefix(file, MAX_DOCUMENT_BYTES + 1), os.fstat(file.fileno()).st_size
    except NotRegularFile as error:
        if path.is_symlink():
            raise Rejected(f"{shown} is a loop of links.", _REMEDY) from None
        raise Rejected(f"{shown} is {error}, not a file.", "Copy its contents into a file first.") from None
    except OSError as error:
        why = error.strerror or "it changed meanwhile"
        raise Rejected(f"{shown} cannot be read: {why}.", _REMEDY) from None
    if name.lower().endswith(PICTURE_ENDINGS):
        what = f"{shown} is not a PNG, JPEG, WebP or GIF."
        raise Rejected(what, "Convert it to one of them, or remove the @.")
    text = _decode(data)
    if text is None:
        if name.lower().endswith(".pdf"):
            raise pdf_files.refusal("broken", shown)
        bad = first_binary_byte(data)
        what = f"{shown} is a binary file: byte 0x{data[bad]:02x} at offset {bad:,} of {max(size, len(data)):,} bytes."
        raise Rejected(what, "Text files, folders, pictures (PNG, JPEG, WebP, GIF) and PDFs can be attached.")
    return Document(storable(name), text, whole=max(size, len(data)) if len(data) > MAX_DOCUMENT_BYTES else 0), ""


def _decode(data: bytes) -> str | None:
    """Return the text of a file, cut to MAX_DOCUMENT_BYTES at a line end if there is one; None for a binary file."""
    is_whole = len(data) <= MAX_DOCUMENT_BYTES
    encoding = recognize_encoding(data, whole=is_whole)
    if encoding is None:
        return None
    errors = "surrogateescape" if encoding.name == "utf-8" else "replace"
    decoder = codecs.getincrementaldecoder(encoding.name)(errors)
    text = decoder.decode(data[len(encoding.mark) :][:MAX_DOCUMENT_BYTES], final=is_whole)
    if not is_whole:
        text = text[: text.rfind("\n") + 1] or text
    return storable(visible_text(text))


# ── resources of MCP servers ──


def _find_resource(mention: Mention, servers: Collection[str]) -> str:
    """Return the SERVER:URI that is mentioned, without punctuation behind it; "" for none."""
    named = [name for name in mention.names if name.partition(":")[0] in servers and name.partition(":")[2]]
    return named[-1] if named else ""


async def _read_resource(mentioned: str, services: Services, settings: Choices, ask: Ask) -> Attachment:
    """Read a resource of an MCP server. Raise Rejected."""
    server, _, uri = mentioned.partition(":")
    output = await services.tool_runtime.read_resource(server, uri)
    if output.images:
        return output.images[0]
    if output.failed or not output.text:
        why = clean_line(output.text.partition("\n")[0])
        raise Rejected(f"@{clean_line(mentioned)} cannot be attached. {why}".strip(), _REMEDY)
    data = output.text.encode()
    text = await asyncio.to_thread(_decode, data[: MAX_DOCUMENT_BYTES + 1])
    whole = len(data) if len(data) > MAX_DOCUMENT_BYTES else 0
    return Document(storable(mentioned), text or "", DocumentKind.RESOURCE, whole)


# ── pages ──


async def _fetch(url: str, services: Services, settings: Choices, ask: Ask) -> Attachment:
    """Fetch a page by the tool `web_fetch`, after its approval. Raise Rejected."""
    shown = clean_line(url)
    try:
        output = await services.tool_runtime.fetch_page(url, settings, ask)
    except (OSError, ValueError) as error:
        raise Rejected(f"{shown} cannot be attached: {error}", _REMEDY) from None
    if output.images:
        return output.images[0]
    if output.failed:
        raise Rejected(f"{shown} cannot be attached: {output.text.partition(chr(10))[0]}.", _REMEDY)
    data = storable(output.text).encode()
    text = await asyncio.to_thread(_decode, data[: MAX_DOCUMENT_BYTES + 1])
    return Document(storable(url), text or "", DocumentKind.PAGE, len(data) if len(data) > MAX_DOCUMENT_BYTES else 0)
