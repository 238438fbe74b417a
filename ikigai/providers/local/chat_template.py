"""Find out if the chat template of a GGUF file takes tools: from the file, before its server has started."""

import mmap
import re
from functools import cache
from pathlib import Path

TEMPLATE_KEYS = (b"tokenizer.chat_template", b"tokenizer.chat_template.tool_use")
"""Keys of the metadata: the template, and one that llama.cpp uses instead when tools are offered."""
STRING_TYPE = (8).to_bytes(4, "little")
"""The type of a value that is text."""
MAX_METADATA_BYTES = 64 << 20
"""Bytes at the beginning of the file in which keys are searched: the vocabulary before them takes 2 to 16 MB."""

_TEXT = r"""'(?:\\.|[^'\\])*(?:'|\Z)|"(?:\\.|[^"\\])*(?:"|\Z)"""
JINJA_STATEMENT = re.compile(rf"\{{#.*?(?:#\}}|\Z)|\{{[{{%](?:{_TEXT}|[^'\"])*?(?:[%}}]\}}|\Z)", re.DOTALL)
"""A Jinja comment, or a statement with the texts in it; unfinished ones go to the end."""
TOOLS_VARIABLE = re.compile(rf"{_TEXT}|(?<![\w.])tools\b", re.DOTALL)
"""Matches the variable in which llama.cpp passes a template the tools; or a text, which may hold the word."""


@cache
def takes_tools(model: Path) -> bool:
    """Return True if the model of this GGUF file gets tools; llama.cpp drops them if its template has no place for
    them.

    A file without a template has none. An unreadable file counts as True: its server will report the defect. The result
    is kept for the life of the process.
    """
    try:
        with model.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return any(mentions_tools(_text(content, key)) for key in TEMPLATE_KEYS)
    except (OSError, ValueError):  # ValueError: an empty file
        return True


def mentions_tools(template: str) -> bool:
    """Return True if a Jinja template uses the tools of the request."""
    statements = (match for match in JINJA_STATEMENT.findall(template) if not match.startswith("{#"))
    return any("tools" in TOOLS_VARIABLE.findall(statement) for statement in statements)


def _text(content: mmap.mmap, key: bytes) -> str:
    """Return the text under this key; "" for none.

    It is searched for with its length and type: parsing the metadata before it takes a hundred times as long.
    """
    place = content.find(len(key).to_bytes(8, "little") + key + STRING_TYPE, 0, MAX_METADATA_BYTES)
    if place < 0:
        return ""
    start = place + 8 + len(key) + len(STRING_TYPE)
    length = int.from_bytes(content[start : start + 8], "little")
    return content[start + 8 : start + 8 + min(length, MAX_METADATA_BYTES)].decode(errors="replace")
