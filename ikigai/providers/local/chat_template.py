"""What the chat template of a GGUF file has a place for: read from the file, so known before its server has started."""

import mmap
import re
from functools import cache
from pathlib import Path

KEYS = (b"tokenizer.chat_template", b"tokenizer.chat_template.tool_use")
"""Keys of the metadata: the template, and one that llama.cpp takes in its place where tools are offered."""
STRING = (8).to_bytes(4, "little")
"""The type of a value that is text."""
MAX_METADATA_BYTES = 64 << 20
"""As far into the file as keys are looked for: the vocabulary before them takes 2 to 16 MB."""

_TEXT = r"""'(?:\\.|[^'\\])*(?:'|\Z)|"(?:\\.|[^"\\])*(?:"|\Z)"""
STATEMENT = re.compile(rf"\{{#.*?(?:#\}}|\Z)|\{{[{{%](?:{_TEXT}|[^'\"])*?(?:[%}}]\}}|\Z)", re.DOTALL)
"""A Jinja comment, or a statement with the texts in it; unfinished ones go to the end."""
TOOLS = re.compile(rf"{_TEXT}|(?<![\w.])tools\b", re.DOTALL)
"""The variable in which llama.cpp gives a template the tools of a request; or a text, which may hold the word."""


@cache
def takes_tools(model: Path) -> bool:
    """Whether the model of this GGUF file is told of tools; llama.cpp drops them where its template has no place.

    A file without a template has no place for them. One that cannot be read is taken to have one: its server will say
    what is wrong with it. What was found holds for the life of the process, whatever becomes of the file.
    """
    try:
        with model.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return any(names_tools(_text(content, key)) for key in KEYS)
    except (OSError, ValueError):  # ValueError: an empty file
        return True


def names_tools(template: str) -> bool:
    """Whether a Jinja template looks at the tools of the request."""
    statements = (found for found in STATEMENT.findall(template) if not found.startswith("{#"))
    return any("tools" in TOOLS.findall(statement) for statement in statements)


def _text(content: mmap.mmap, key: bytes) -> str:
    """The text under this key; "" for none.

    It is searched for with its length and type: to parse what stands before it takes a hundred times as long.
    """
    place = content.find(len(key).to_bytes(8, "little") + key + STRING, 0, MAX_METADATA_BYTES)
    if place < 0:
        return ""
    start = place + 8 + len(key) + len(STRING)
    length = int.from_bytes(content[start : start + 8], "little")
    return content[start + 8 : start + 8 + min(length, MAX_METADATA_BYTES)].decode(errors="replace")
