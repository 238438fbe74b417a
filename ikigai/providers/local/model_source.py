"""Read the place of a local model as typed: a GGUF file here, a web address, or a file of Hugging Face."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from ikigai.core.errors import IkigaiError, Rejected
from ikigai.core.events.record import Record
from ikigai.providers.local.download import Remote

DEFAULT_ENDPOINT = "https://huggingface.co"
ENDPOINT_VARIABLE, TOKEN_VARIABLE = "HF_ENDPOINT", "HF_TOKEN"
"""Variables of Hugging Face's own tools: a mirror of its server, and the token of an account there."""
GGUF_SUFFIX = ".gguf"
SHARD = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf", re.IGNORECASE)
"""The name of one file of a model that is split into several; llama.cpp loads the first one and finds the others."""
MAX_SHARDS = 200
USAGE = "Write a GGUF file, its web address, or hf:OWNER/REPO/FILE.gguf. `ikigai setup --model` lists some."
OTHER_ADDRESS = "Use the address of the file itself, not of a page about it."
PAGE_FOLDER = re.compile(r"^(/[^/]+/[^/]+)/blob/")
"""The beginning of the path of a page about a file on Hugging Face."""
_NAME = r"[A-Za-z0-9][\w.-]*"
_HF = re.compile(rf"hf:(?P<repo>{_NAME}/{_NAME})/(?P<file>(?:[\w.+-]+/)*[\w.+-]+\.gguf)", re.ASCII | re.IGNORECASE)


class ModelDownload(Record, frozen=True):
    """The files of one model, each with its place in the folder of models; the first is the one to load."""

    remotes: tuple[tuple[Remote, Path], ...]


def read_source(text: str, models: Path, environ: Mapping[str, str]) -> ModelDownload | Path:
    """Return the file here that `text` names, or what to download into the folder `models`. Raise Rejected."""
    if text.lower().startswith("hf:"):
        found = _HF.fullmatch(text)
        if not found or ".." in text:
            raise Rejected(f"{text[:200]!r} does not name a GGUF file.", "Write hf:OWNER/REPO/FILE.gguf.")
        address = environ.get(ENDPOINT_VARIABLE, "").strip().rstrip("/") or DEFAULT_ENDPOINT
        token = environ.get(TOKEN_VARIABLE, "").strip()
        if not token.isprintable() or not token.isascii() or " " in token:
            raise Rejected(f"{TOKEN_VARIABLE} is not a token.", "Copy it again, without the text around it.")
        base = f"{address}/{found['repo']}/resolve/main"
        folder = models / found["repo"]
        return ModelDownload(
            tuple(
                (Remote(f"{base}/{quote(name)}", token, plain_etag=True), folder / name)
                for name in _all_shards(found["file"])
            )
        )
    if re.match(r"https?://", text, re.IGNORECASE):
        return _from_address(text, models)
    if re.match(r"[a-z][a-z0-9+.-]+://", text, re.IGNORECASE):
        raise Rejected(f"{text.partition('://')[0]}:// is not an address that ikigai can download from.", USAGE)
    file = Path(os.path.expanduser(text)).absolute()  # noqa: PTH111 - pathlib's raises for an unknown user
    try:
        is_file, exists = file.is_file(), file.exists()
    except OSError as error:  # a folder that may not be searched, or a name that is too long
        raise Rejected(f"{text[:200]} cannot be read: {error.strerror}.", USAGE) from None
    if not is_file:
        what = "is not a file" if exists else "does not exist"
        raise Rejected(f"{text[:200]} {what}.", USAGE)
    return file


def check_file(file: Path) -> None:
    """Raise IkigaiError if a file cannot be read, or is not a GGUF file that llama.cpp can read."""
    try:
        with file.open("rb") as opened:
            head = opened.read(8)
    except OSError as error:
        raise Rejected(f"{file} cannot be read: {error.strerror}.", "Check its permissions.") from None
    check_gguf(head, str(file), USAGE)


def check_gguf(head: bytes, name: str = "This", remedy: str = OTHER_ADDRESS) -> None:
    """Raise IkigaiError if a file that begins so is not a GGUF file that llama.cpp can read."""
    if head[:4] != b"GGUF":
        is_page = head.lstrip()[:1] == b"<"
        raise IkigaiError(f"{name} is not a GGUF file{', but a web page' if is_page else ''}.", remedy)
    version = int.from_bytes(head[4:8], "little")
    if version not in (2, 3):
        raise IkigaiError(f"{name} is a GGUF file of version {version}, which llama.cpp cannot read.", USAGE)


def check_name(file: Path) -> str:
    """Return the name of the model in this file. Raise Rejected if it cannot be typed as local/NAME."""
    if any(character.isspace() or not character.isprintable() for character in file.stem):
        raise Rejected(
            f"The name of {file.name!r} has a space in it, and the model is called by that name.", "Rename the file."
        )
    return f"local/{file.stem}"


def _from_address(text: str, models: Path) -> ModelDownload:
    try:
        url = urlsplit(text)
        name = unquote(url.path.rpartition("/")[2])
        _ = url.port
    except ValueError:
        raise Rejected("This is not a web address.", USAGE) from None
    if not name.lower().endswith(GGUF_SUFFIX) or "/" in name or not name.isprintable() or not url.hostname:
        raise Rejected("The address does not end with the name of a GGUF file.", USAGE)
    folder = url.path.rpartition("/")[0]
    if url.hostname == urlsplit(DEFAULT_ENDPOINT).hostname:  # copied from the page about the file
        folder = PAGE_FOLDER.sub(r"\1/resolve/", folder, count=1)
    return ModelDownload(
        tuple(
            (Remote(url._replace(path=f"{folder}/{quote(shard)}", fragment="").geturl()), models / shard)
            for shard in _all_shards(name)
        )
    )


def _all_shards(name: str) -> list[str]:
    """Return the names of all files of a model, the first one first."""
    found = SHARD.fullmatch(name)
    count = int(found["count"]) if found else 0
    if not found or not 1 < count <= MAX_SHARDS:
        return [name]
    return [f"{found['stem']}-{number:05}-of-{count:05}{GGUF_SUFFIX}" for number in range(1, count + 1)]
