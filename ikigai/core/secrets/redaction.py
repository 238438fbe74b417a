"""Replace secrets in texts by markers: ikigai's own keys, and tokens of well-known formats.

A `Redactor` has the keys and passwords that ikigai itself uses. `own` replaces those alone; `foreign`, for text from
tools and files, also replaces tokens of other programs. A `StreamRedactor` does the work of `own` for a text that
arrives in pieces. Secrets are found in what a terminal would show, since colors, overstriking and characters without
width may divide one, and then in the text as it is, since an address that a terminal does not show may hold one.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, cast

from ikigai.core.text.shown_text import ShownText, find_partial_hidden, has_hidden

REDACTION_MARKER = "[redacted: {}]"
"""The text that stands where a secret was, with its name."""
MIN_OWN_SECRET = 12
"""Characters of the shortest value that is taken for a secret: shorter ones may stand in any text."""

_MARKED = re.compile(r"\[redacted: ([^\[\]\n]{1,100})\]")
_OWN_NAME = re.compile(r"[A-Z][A-Z0-9_]{2,}|[\w .-]+ (?:key|password|sslpassword)")  # as the program names its secrets
_NOT_IN_NAMES = re.compile(r"[^\w .-]")
_UNRESERVED = re.compile(r"[\w.~-]", re.ASCII)


def redaction_marker(name: str) -> str:
    """Return the text that stands in place of the secret of this name."""
    return REDACTION_MARKER.format(_NOT_IN_NAMES.sub("", name))


def find_markers(text: str) -> set[str]:
    """Return the different markers in `text`; words in such brackets that name no secret are none."""
    if "[redacted: " not in text:
        return set()
    from ikigai.core.secrets.token_formats import TOKEN_NAMES

    return {found[0] for found in _MARKED.finditer(text) if found[1] in TOKEN_NAMES or _OWN_NAME.fullmatch(found[1])}


def looks_like_key(text: str) -> str | None:
    """Return the name of the first token of a well-known format in `text`, or None."""
    from ikigai.core.secrets.token_search import find_tokens

    found = find_tokens(ShownText(text).text)
    return found[0].name if found else None


class _Secret(NamedTuple):
    """A place of a secret in a text, and what replaces it."""

    start: int
    end: int
    marker: str


class Redactor:
    """A replacer of ikigai's own secrets, by name of variable or setting, and with `formats` of tokens of known
    formats.

    Both methods return the very object they were given if there is nothing to replace.
    """

    __slots__ = ("_formats", "_names", "_pattern")

    def __init__(self, own: Mapping[str, str], formats: bool) -> None:
        self._formats = formats
        self._names: dict[str, str] = {}
        for name, value in own.items():
            if len(value) >= MIN_OWN_SECRET:
                for spelling in _spellings(value):
                    self._names.setdefault(spelling, name)
        # Where one is the beginning of another, the longer one goes first.
        longest_first = sorted(self._names, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    @property
    def spellings(self) -> tuple[str, ...]:
        """Every text that `own` replaces."""
        return tuple(self._names)

    def own(self, text: str) -> str:
        """Return `text` without ikigai's own secrets."""
        return _replaced(text, self._own_secrets) if self._pattern is not None else text

    def own_json(self, text: str) -> str:
        """Return the JSON text without ikigai's own secrets, however its strings are escaped: JSON as before."""
        if self._pattern is None or "\\" not in text:
            return self.own(text)
        import json

        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return self.own(text)
        redacted = _mapped(value, self.own)
        return text if redacted == value else json.dumps(redacted, ensure_ascii=False)

    def foreign(self, text: str) -> str:
        """Return `text` without ikigai's own secrets and, with `formats`, without tokens of known formats."""
        text = self.own(text)
        return _replaced(text, _tokens) if self._formats else text

    def key_in(self, text: str) -> str:
        """Return the name of a secret in `text`, of ikigai's own or of a known format, or ""."""
        if self._pattern is not None and (found := self._pattern.search(ShownText(text).text)):
            return self._names[found[0]]
        return looks_like_key(text) or ""

    def own_matches(self, text: str) -> Iterator[_Secret]:
        """Yield ikigai's own secrets in `text`, escape sequences included."""
        if self._pattern is not None:
            for match in self._pattern.finditer(text):
                yield _Secret(*match.span(), redaction_marker(self._names[match[0]]))

    def _own_secrets(self, text: str) -> Iterable[_Secret]:
        # The pattern reads a text ten times as slowly as the search for each of a few spellings.
        return self.own_matches(text) if any(spelling in text for spelling in self._names) else ()


class StreamRedactor:
    """The work of `Redactor.own` for a text that arrives in pieces, however it is split.

    It holds back only a possible beginning of a secret: the longest end of the text so far that one begins with. Behind
    an escape sequence it looks twice, as `Redactor` does: at what a terminal would show, and at the text that is left.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._spellings = redactor.spellings
        self._held = ""
        self._has_hidden = False
        self._held_left = ""  # of the text that is left

    def feed(self, delta: str) -> str:
        """Take the next piece of the text and return the text that can be shown by now."""
        if not self._spellings:
            return delta
        raw = self._held + delta
        whole = find_partial_hidden(raw)
        shown = ShownText(raw[:whole])
        secrets, open_from = self._find(shown.text)
        if secrets and secrets[-1].end == len(shown.text):  # its last character may yet be struck over
            open_from = secrets.pop().start
        end = shown.raw_start(open_from) if open_from < len(shown.text) else whole
        self._held = raw[end:]
        left = shown.replace(secrets, end)
        self._has_hidden = self._has_hidden or has_hidden(raw)
        if not self._has_hidden:
            return left
        left = self._held_left + left
        secrets, open_from = self._find(left)
        self._held_left = left[open_from:]
        return _replaced(left[:open_from], lambda _: secrets, is_shown=True)

    def finish(self, stopped: bool = False) -> str:
        """Return the rest, when the text has ended; where it was `stopped`, most of a secret counts as the whole."""
        held, self._held = self._held, ""
        shown = ShownText(held).text
        if stopped and len(shown) >= MIN_OWN_SECRET:
            held = next((each for each in self._spellings if each.startswith(shown)), held)
        ended = ShownText(held)
        left = self._held_left + ended.replace(self._redactor.own_matches(ended.text), len(held))
        self._held_left = ""
        return _replaced(left, self._redactor.own_matches, is_shown=True)

    def _find(self, text: str) -> tuple[list[_Secret], int]:
        """Return the secrets in the text, and the place behind them from which on one may begin."""
        secrets, open_from = list[_Secret](), self._open_from(text, 0)
        for secret in self._redactor.own_matches(text):
            if secret.start >= open_from:
                break
            secrets.append(secret)
            open_from = self._open_from(text, secret.end)
        return secrets, open_from

    def _open_from(self, text: str, done: int) -> int:
        """Return the start of the longest end of text[done:] that is the beginning of a secret, and not all of it."""
        open_from = len(text)
        for spelling in self._spellings:
            start = text.find(spelling[0], max(done, len(text) - len(spelling) + 1))
            while 0 <= start < open_from:
                if spelling.startswith(text[start:]):
                    open_from = start
                start = text.find(spelling[0], start + 1)
        return open_from


def _tokens(text: str) -> Iterator[_Secret]:
    from ikigai.core.secrets.token_search import find_tokens

    return (_Secret(token.start, token.end, redaction_marker(token.name)) for token in find_tokens(text))


def _replaced(text: str, find: Callable[[str], Iterable[_Secret]], is_shown: bool = False) -> str:
    """Return `text` without what `find` finds in what a terminal shows of it (unless that `is_shown`), and in it."""
    if has_hidden(text) and not is_shown:
        shown = ShownText(text)
        text = shown.replace(find(shown.text), len(text))
    pieces: list[str] = []
    done = 0
    for start, end, marker in find(text):
        pieces += text[done:start], marker
        done = end
    return "".join((*pieces, text[done:])) if pieces else text


def spellings_in_json(value: str) -> tuple[str, ...]:
    """Return `value` as it is, and in the two forms of a JSON string: with letters of other alphabets, and without."""
    import json  # the first prompt does without it

    return tuple(dict.fromkeys((value, json.dumps(value, ensure_ascii=False)[1:-1], json.dumps(value)[1:-1])))


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    """Return a JSON value with `change` applied to all its strings, keys included."""
    match value:
        case str():
            return change(value)
        case list():
            return [_mapped(item, change) for item in cast("list[Any]", value)]
        case dict():
            return {change(key): _mapped(item, change) for key, item in cast("dict[str, Any]", value).items()}
        case _:
            return value


def _spellings(value: str) -> tuple[str, ...]:
    """Return `value` as it is, as JSON writes it and as it stands in an address."""
    if all(map(_UNRESERVED.match, value)):
        return (value,)
    written = spellings_in_json(value)
    slashed = [each.replace("/", "\\/") for each in written]
    hexed = [_hexed(each, characters) for each in written for characters in ("&<>", "&<>+'`=")]
    percent = [_percent(value, safe) for safe in ("", "/", "!$&'()*+,;=", "/!$&'()*+,;=")]
    spellings = (*written, *slashed, *hexed, *percent)
    lower = [re.sub(r"%..|\\u....", lambda found: found[0].lower(), each) for each in (*hexed, *percent)]
    return tuple(dict.fromkeys((*spellings, *lower)))


def _hexed(text: str, characters: str) -> str:
    """Return the text with these characters as \\uXXXX, as Go and .NET write them in JSON."""
    return "".join(f"\\u{ord(each):04X}" if each in characters else each for each in text)


def _percent(value: str, safe: str) -> str:
    """Return the value as in an address, these characters as they are: programs differ in what they encode."""
    return "".join(
        each
        if _UNRESERVED.match(each) or each in safe
        else "".join(f"%{byte:02X}" for byte in each.encode("utf-8", "replace"))
        for each in value
    )
