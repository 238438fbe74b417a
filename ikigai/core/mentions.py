"""This module reads and writes mentions in a message: an @ at the start of a word and a path or URL behind it.

text                                what may be meant
@cat.png, @src/, @~/my\\ cat.png    the file or folder of this path
@"my cat.png", @'my cat.png'        the same, and the path may hold spaces
@https://example.org/page           the page
@cat.png?, (@cat.png), @a.py,       the path without the punctuation behind it, unless there is a file with it
me@example.org, \\@name             nothing: the @ does not begin a word

Most words with an @ in prose and code are no paths (@anna, @property): `ikigai.app.attachments` looks at the disk.
"""

import re

from ikigai.core.record import Record

LONGEST_PATH = 4096
"""Characters of a path or URL; a longer word is no mention."""

_START = r"""(?:^|(?<=[\s(\[{<"'“‘«]))@"""
_MENTION = re.compile(_START + r"""(?:"([^"\n]+)"|'([^'\n]+)'|((?:\\.|[^\s\\"'])(?:\\.|[^\s\\])*))""")
_BEGUN = re.compile(_START + r"""(?:"([^"\n]*)|'([^'\n]*)|((?!["'])(?:\\.|[^\s\\])*))\Z""")
"""A mention that ends with the text. A path without quotes may hold a quote later."""
_URL = re.compile(r"https?://", re.IGNORECASE)
_CLOSING_PUNCTUATION, _MAX_CLOSING_PUNCTUATION = ".,;:!?…)]}>\"'”’»", 8
"""Punctuation that may follow a path and is rarely its end, and the most marks of it."""


class Mention(Record, frozen=True):
    """A word with an @: the URL that it names, or the readings as a path, the likeliest first.

    `is_code` says that it looks like a call, as decorators do: `@app.get("/a.json")`.
    """

    url: str = ""
    names: tuple[str, ...] = ()
    is_code: bool = False


def may_mention(text: str) -> bool:
    """Return True if `text` has words that may be mentions."""
    return _MENTION.search(text) is not None


def find_mentions(text: str) -> tuple[Mention, ...]:
    """Return the mentions in `text`, each once, in order."""
    found = {match[0]: match for match in _MENTION.finditer(text) if len(match[0]) <= LONGEST_PATH}
    return tuple(dict.fromkeys(_read(match[1] or match[2] or "", match[3] or "") for match in found.values()))


def _read(quoted: str, bare: str) -> Mention:
    if _URL.match(quoted or bare):
        return Mention(url=quoted or _without_punctuation(bare))
    if quoted:
        return Mention(names=(quoted,))
    ways = [bare, re.sub(r"\\(.)", r"\1", bare)] if "\\" in bare else [bare]
    names = [each for way in ways for each in _shorter(way)]
    return Mention(names=tuple(each for each in names if each.strip("./") or each == bare), is_code="(" in bare)


def _shorter(word: str) -> list[str]:
    """Return the word, then the word without the punctuation behind it, mark by mark."""
    words = [word]
    while word and word[-1] in _CLOSING_PUNCTUATION and len(words) <= _MAX_CLOSING_PUNCTUATION:
        word = word[:-1]
        words.append(word)
    return words


def _without_punctuation(url: str) -> str:
    """Return a URL without the punctuation of the sentence behind it; a parenthesis that opens within it stays."""
    while url[-1] in _CLOSING_PUNCTUATION and not (url[-1] == ")" and url.count("(") >= url.count(")")):
        url = url[:-1]
    return url


def begun_mention(before: str) -> tuple[str, str] | None:
    """Return the mention that `before` ends with, as written, and the path begun in it; None for none."""
    if not (match := _BEGUN.search(before)):
        return None
    return match[0], match[1] or match[2] or re.sub(r"\\(.)", r"\1", match[3] or "")


def format_mention(name: str) -> str:
    """Return the words that mention the file of this name."""
    if not re.search(r"[\s\\\"']", name) and not name.endswith(tuple(_CLOSING_PUNCTUATION)):
        return f"@{name}"
    if '"' in name and "'" in name:
        return "@" + re.sub(r"""([\s\\"'])""", r"\\\1", name)
    return f"@'{name}'" if '"' in name else f'@"{name}"'
