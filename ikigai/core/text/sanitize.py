"""Make foreign text safe: `clean` for a terminal to draw, `storable` for PostgreSQL to hold.

A terminal would obey or hide these characters; each gets the replacement on the right:

    complete escape sequence (CSI, OSC, DCS, APC, PM, SOS, two-character; 7-bit and 8-bit)   dropped
    CR LF, CR alone                                                                          line break
    other controls, surrogates, noncharacters, line and paragraph separators, bidirectional
      and other format characters, tags                                                      `<U+XXXX>`
    joiners and variation selectors                                  kept where a script or an emoji
                                                                     needs them, else `<U+XXXX>`

Nothing here knows about colors or layout. Widths change: clean first, then measure.
"""

import re
from functools import cache

_PLAIN = bytes(range(0x20, 0x7F)) + b"\n\t"

# A string sequence (OSC, DCS …) longer than this is not believed: its introducer is marked, its payload is text. A
# `Cleaner` never holds back more than this bound.
_PAYLOAD = 4096

_SELECTORS = "\ufe00-\ufe0f\U000e0100-\U000e01ef"
_JOINERS = "\u200c\u200d" + _SELECTORS
_MARKED = (
    "\0-\x08\x0b-\x1f\x7f-\x9f"  # Cc without \t and \n
    # Cf, without the joiners; tests compare the list with unicodedata
    "\u00ad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\ufeff\ufff0-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e00ff\U000e01f0-\U000e0fff"  # tags, and all else that is ignorable by default
    "\ud800-\udfff\ufdd0-\ufdef"
    + "".join(f"{chr(plane + 0xFFFE)}{chr(plane + 0xFFFF)}" for plane in range(0, 0x110000, 0x10000))
)
# Default_Ignorable_Code_Point of Unicode's DerivedCoreProperties.txt, the same from version 14.0 (Python 3.11's
# unicodedata) to 16.0; unassigned code points are in it. Tests derive it again from unicodedata.
_IGNORABLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
# Blank in the code charts without that property: braille pattern blank, Tifinagh consonant joiner, Khitan
# filler, Brahmi number joiner, hieroglyph mirror and blanks, null notehead.
_BLANK = "\u2800\u2d7f\U00016fe4\U0001107f\U00013440-\U00013442\U0001d159"
_SPACES = "\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000"  # Zs without U+0020
_PRIVATE = "\ue000-\uf8ff\U000f0000-\U0010fffd"
# Where a decision is made nothing may look like nothing, or like a space.
_STRICT = _MARKED + _IGNORABLE + _BLANK + _SPACES + _PRIVATE

_SYMBOL = "\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
_IDEOGRAPH = "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003fffd"
_JOINING = "\u0590-\u1cff\ua800-\uabff\ufb1d-\ufdff\ufe70-\ufefc\U00010a00-\U00011fff\U0001e900-\U0001e95f"


def clean(text: str) -> str:
    """Return `text` as a terminal may draw it, with its line breaks.

    Idempotent. It keeps \\n, \\t, every letter and every printable character; see the table above for the rest.
    """
    return text if _plain(text) else _scrub(text, "", held=False)[0]


def clean_line(text: str) -> str:
    """Return `text` on one line, for names, titles and approvals: hide nothing.

    Escape sequences are shown instead of dropped. Joiners, fillers, other characters that draw nothing, odd spaces and
    private-use characters are marked. A line break becomes ⏎ and a tab a space.
    """
    if not (text.isascii() and _plain(text)):  # other text can be printable for Python and blank on screen
        text = _strict().sub(lambda found: "\n" if found[0][0] == "\r" else _mark(found[0]), text)
    return text.replace("\n", "⏎").replace("\t", " ")


class Cleaner:
    """`clean` for a stream: the joined outputs of any split of a text are equal to `clean` of the whole."""

    def __init__(self) -> None:
        self._held = ""  # the start of a sequence, or a character that needs its successor
        self._before = ""  # the last character put out

    def feed(self, text: str) -> str:
        """Return the text that can be drawn now. At most some 4,000 characters are held back, and only of an open
        sequence.
        """
        if not self._held and _plain(text):
            self._before = text[-1:] or self._before
            return text
        done, self._held, self._before = _scrub(self._held + text, self._before, held=True)
        return done

    def flush(self) -> str:
        """Return the held back characters, as the end of the text leaves them; the cleaner can be used again."""
        done, self._held, self._before = _scrub(self._held, self._before, held=False)[0], "", ""
        return done


def storable(text: str) -> str:
    """Return `text` as PostgreSQL can hold it: U+0000 and lone surrogates become U+FFFD."""
    text = text.replace("\0", "\ufffd")
    try:
        text.encode()  # the fastest check there is
    except UnicodeEncodeError:
        return re.sub("[\ud800-\udfff]", "\ufffd", text)
    return text


def _plain(text: str) -> bool:
    """Return True if a glance at machine speed finds nothing to do; a plain text may get False."""
    if text.isascii():
        return not text.encode("ascii").translate(None, _PLAIN)
    return text.replace("\n", " ").replace("\t", " ").isprintable() and not _selectors().search(text)


def find_fillers(text: str) -> list[str]:
    """Return the characters of `text` that `clean` keeps although they draw nothing, where no script needs them.

    Scripts need blanks beside braille, fillers beside Hangul jamo, variation selectors behind Mongolian letters, and
    joiners and fillers behind letters of Tifinagh, Brahmi and Khitan.
    """
    return [] if text.isascii() else [char for found in _fillers().findall(text) for char in found]


def _mark(char: str) -> str:
    return f"<U+{ord(char):04X}>"


def _scrub(text: str, before: str, *, held: bool) -> tuple[str, str, str]:
    """Return the clean text, its open end (only if `held`), and the last character put out; `before` is the previous
    one.

    A joiner is judged by the character put out before it, not by the one read: a dropped sequence gives no context, and
    a character that was kept once is kept again.
    """
    pieces: list[str] = []
    done = 0
    for found in _pattern(held, text.isascii()).finditer(text):
        start, end = found.span()
        if start > done:
            pieces.append(text[done:start])
            before = text[start - 1]
        match found.lastgroup:
            case "held":
                return "".join(pieces), text[start:], before
            case "sequence":
                piece = ""
            case "newline":
                piece = "\n"
            case "joiner" if _joins(before, found[0], text[end : end + 1]):
                piece = found[0]
            case _:
                piece = _mark(found[0])
        pieces.append(piece)
        before = piece[-1:] or before
        done = end
    pieces.append(text[done:])
    return "".join(pieces), "", text[-1] if done < len(text) else before


def _joins(before: str, joiner: str, after: str) -> bool:
    """Return True if `joiner` has work to do between these two characters."""
    symbol, ideograph, script = _contexts()
    if joiner == "\u200d" and (symbol.match(before) or before == "\ufe0f"):
        return bool(symbol.match(after))
    if joiner < "\ufe00":
        return bool(script.match(before))
    if joiner > "\uffff":
        return bool(ideograph.match(before))
    if before and before in "0123456789#*":
        return after == "\u20e3"
    return bool(symbol.match(before) or ideograph.match(before) or script.match(before))


@cache
def _contexts() -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    return re.compile(f"[{_SYMBOL}]"), re.compile(f"[{_IDEOGRAPH}]"), re.compile(f"[{_JOINING}]")


@cache
def _selectors() -> re.Pattern[str]:
    return re.compile(f"[{_SELECTORS}]")


@cache
def _strict() -> re.Pattern[str]:
    return re.compile(f"\r\n?|[{_STRICT}]")


@cache
def _fillers() -> re.Pattern[str]:
    braille, jamo = "\u2800-\u28ff", "\u1100-\u11ff\ua960-\ua97c\ud7b0-\ud7fb"
    alone = "\u034f\u17b4\u17b5\u3164\uffa0\U00013440-\U00013442\U0001d159"
    return re.compile(
        rf"[{alone}]|(?<![\u1820-\u18aa])[\u180b-\u180d\u180f]|(?<![{braille}])\u2800++(?![{braille}])"
        rf"|(?<![{jamo}])[\u115f\u1160]++(?![{jamo}])"
        "|(?<![\u2d30-\u2d7f])\u2d7f|(?<![\U00011000-\U0001107f])\U0001107f|(?<![\U00018b00-\U00018cff])\U00016fe4"
    )


@cache
def _pattern(held: bool, ascii: bool) -> re.Pattern[str]:
    """Return the pattern of all that `_scrub` must look at, in this order; with `held`, also of an end that may still
    go on.

    Possessive quantifiers keep it linear: a payload cannot hold another introducer, and nothing is read back.
    """
    csi = r"(?:\x1b\[|\x9b)[0-?]{0,256}+[ -/]{0,16}+"
    osc = rf"(?:\x1b\]|\x9d)[^\x07\x18\x1a\x1b\x80-\x9f]{{0,{_PAYLOAD}}}+"
    string = rf"(?:\x1b[PX^_]|[\x90\x98\x9e\x9f])[^\x18\x1a\x1b\x80-\x9f]{{0,{_PAYLOAD}}}+"
    short = r"\x1b[ -/]{0,16}+"
    sequences = (
        rf"{csi}[@-~]",
        rf"{osc}(?:\x07|\x1b\\|\x9c)",
        rf"{string}(?:\x1b\\|\x9c)",
        rf"{short}(?:(?<!\x1b)[0-~]|(?<=\x1b)[0-OQ-WYZ\\`-~])",  # P X [ ] ^ _ right after ESC introduce the others
    )
    waiting = rf"(?P<held>(?:{csi}|(?:{osc}|{string})\x1b?|{short}|\r|[{_JOINERS}])\Z)|" if held else ""
    suspect = r"\0-\x08\x0b-\x1f\x7f" if ascii else _MARKED + _JOINERS
    return re.compile(
        rf"(?=[{suspect}])"  # one set is looked up faster than so many alternatives are tried
        rf"(?:{waiting}(?P<sequence>{'|'.join(sequences)})|(?P<newline>\r\n?)|(?P<joiner>[{_JOINERS}])|.)",
        re.DOTALL,
    )
