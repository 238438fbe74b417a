"""Read the fenced blocks of the README and of the pages that people write."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests import ROOT
from tests.docs.generated import DOCS, GENERATED

PAGES = [ROOT / "README.md", *(page for page in sorted(DOCS.rglob("*.md")) if page not in GENERATED)]
BLOCK = re.compile(r"^(`{3,})([^\n]*)\n(.*?)^\1$", re.MULTILINE | re.DOTALL)


class Block(NamedTuple):
    """A fenced block: its page and line, its language, the tag behind that, and its text."""

    page: Path
    line: int
    language: str
    tag: str
    text: str

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(*languages: str) -> Iterator[Block]:
    """Yield the blocks of all pages in these languages, or of all."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for found in BLOCK.finditer(text):
            language, _, tag = found[2].strip().partition(" ")
            if not languages or language in languages:
                yield Block(page, text.count("\n", 0, found.start()) + 1, language, tag.strip(), found[3])


def lines(block: Block) -> list[str]:
    """Return the commands of a block; lines that end with a backslash are joined, comments left out."""
    joined = re.sub(r"\\\n\s*", "", block.text)
    return [line for line in joined.splitlines() if line.strip() and not line.startswith("#")]
