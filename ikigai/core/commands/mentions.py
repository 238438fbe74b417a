"""Read and write mentions in a message: an @ at the start of a word and a path or URL behind it.

text                                what may be meant
@cat.png, @src/, @~/my\\ cat.png    the file or folder of this path
@"my cat.png", @'my cat.png'        the same, and the path may hold spaces
@https://example.org/page           the page
@cat.png?, `@cat.png`, @a.py,       the path without the punctuation behind it, unless there is a file with it
看@a.py的内容, @a.py。               the path that ends where a script without spaces begins again
@a.py:3, @a.py:3-9, @a.py#L3        the file, unless there is one with the whole name
me@example.org, \\@name             nothing: the @ does not begin a word

Most words with an @ in prose and code are no paths (@anna, @property): `ikigai.app.attachments.attachments` looks at
the disk.
"""

import re

from ikigai.core.events.record import Record

LONGEST_PATH = 4096
"""Characters of a path or URL; a longer word is not a mention."""

_UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\uff66-\uff9f\U00020000-\U0003ffff"
)
"""Letters of scripts that put no space between a word and an @, as ranges."""
_WIDE_PUNCTUATION = "\u3000-\u303f\u30fb\ufe30-\ufe4f\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65"
_GLUED = f"`*,{_UNSPACED}{_WIDE_PUNCTUATION}"
"""Characters that may stand right before a mention, also one that follows on another."""
_START = rf"""(?:^|(?<=[\s(\[{{<"'“‘«|{_GLUED}]))@"""
_NEXT = rf"(?!(?<=[{_GLUED}])@)"
_MENTION = re.compile(_START + rf"""(?:"([^"\n]+)"|'([^'\n]+)'|((?:\\.|[^\s\\"'])(?:\\.|{_NEXT}[^\s\\])*))""")
_BEGUN = re.compile(_START + rf"""(?:"([^"\n]*)|'([^'\n]*)|((?!["'])(?:\\.|{_NEXT}[^\s\\])*))\Z""")
"""A mention that ends with the text. A path without quotes may hold a quote later."""
_URL = re.compile(r"https?://", re.IGNORECASE)
_NEEDS_QUOTES = re.compile(rf"""[\s\\"']|[{_GLUED}]@|[.,;:!?…)\]}}>”’»`*|{_WIDE_PUNCTUATION}]\Z""")
_CLOSING_PUNCTUATION, _MAX_CLOSING_PUNCTUATION = ".,;:!?…)]}>\"'”’»`*|", 8
"""Punctuation that may follow a path and is rarely its end, and the most marks of it."""
_MAX_CUTS = 8
_CUT = re.compile(rf"[{_WIDE_PUNCTUATION}—–…]|['’](?=s\b)|\](?=\()|(?<![{_UNSPACED}])(?=[{_UNSPACED}])")
"""Places where the text behind a path may begin without a space."""
_LINES = re.compile(r"(.+?)(?:#L\d+(?:C\d+)?(?:-L?\d+(?:C\d+)?)?|:\d+(?:[-:]\d+)?)", re.DOTALL)
"""A path with the lines that are meant in it."""


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
    names = list(dict.fromkeys(each for way in ways for cut in _cuts(way) for each in _shorter(cut)))
    names += [found[1] for each in names if (found := _LINES.fullmatch(each))]
    return Mention(names=tuple(each for each in names if each.strip("./") or each == bare), is_code="(" in bare)


def _cuts(word: str) -> list[str]:
    """Return the word, then the word up to each place where other text may begin, the longest first."""
    places = [found.start() for found in _CUT.finditer(word) if found.start()]
    return [word, *(word[:place] for place in reversed(places[:_MAX_CUTS]))]


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
    if not _NEEDS_QUOTES.search(name):
        return f"@{name}"
    if '"' in name and "'" in name:
        return "@" + re.sub(r"""([\s\\"'])""", r"\\\1", name)
    return f"@'{name}'" if '"' in name else f'@"{name}"'
