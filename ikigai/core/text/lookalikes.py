"""Texts that look alike and differ in their code points: names from other systems, and quotes or spaces that a program
has replaced.

    visible_name          a file name on one row
    fold                  a text in which those that look alike are equal
    is_alike              such a comparison of a name with one as it was shown or typed
    describe_difference   where two texts differ, by code points
"""

import re
import unicodedata

MAX_DIFFERENCES = 3
_ALIKE = {
    **dict.fromkeys(map(ord, "\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"), " "),
    **dict.fromkeys(map(ord, "\u202f\u205f\u3000"), " "),
    **dict.fromkeys(map(ord, "‘’‚‛ʼ′"), "'"),
    **dict.fromkeys(map(ord, "“”„‟″"), '"'),
    **dict.fromkeys(map(ord, "‐‑‒–—−"), "-"),
}
_MAY_LOOK_ALIKE = re.compile(r"""[^\x00-\x7f]|[ '"\\-]""")
_UNSHOWN = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_ESCAPES = {"\n": r"\n", "\t": r"\t", "\r": r"\r"}


def visible_name(name: str) -> str:
    r"""Return a file name on one row: line breaks and other control characters, and bytes that are not UTF-8, are
    escaped as \n and \xff.
    """
    return _UNSHOWN.sub(_escape, name)


def _escape(found: re.Match[str]) -> str:
    sign, code = found[0], ord(found[0])
    if 0xDC80 <= code <= 0xDCFF:  # a byte, as os.fsdecode returns it
        return f"\\x{code - 0xDC00:02x}"
    return _ESCAPES.get(sign) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")


def fold(text: str) -> str:
    """Return the composed form (NFC) with plain spaces, quotes and dashes."""
    return text if text.isascii() else unicodedata.normalize("NFC", text).translate(_ALIKE)


def may_have_alike(name: str) -> bool:
    """Return True if there can be another name that looks like this one."""
    return _MAY_LOOK_ALIKE.search(name) is not None


def is_alike(entry: str, name: str) -> bool:
    """Return True if the name of a directory's entry is shown as `name`, or looks like it."""
    shown = visible_name(entry)
    return shown == name or (not (shown.isascii() and name.isascii()) and fold(shown) == fold(name))


def describe_difference(one: str, other: str, of_one: str, of_other: str) -> str:
    """Return where two texts differ, as a clause: "`of_one` has …, `of_other` has …"; "" if they do not."""
    import difflib

    found = list[str]()
    for kind, begin, end, other_begin, other_end in difflib.SequenceMatcher(
        None, one, other, autojunk=False
    ).get_opcodes():
        if kind != "equal":
            has, has_other = _code_points(one[begin:end]), _code_points(other[other_begin:other_end])
            found.append(f"{of_one} has {has}, {of_other} has {has_other}")
    more = ["…"] * (len(found) > MAX_DIFFERENCES)
    return "; ".join((*found[:MAX_DIFFERENCES], *more))


def _code_points(text: str) -> str:
    runs = [found[0] for found in re.finditer(r"(.)\1*", text, re.DOTALL)]
    named = [_code_point(run[0]) + f" ({len(run)} times)" * (len(run) > 1) for run in runs[:4]]
    return " ".join((*named, *["…"] * (len(runs) > 4))) or "nothing"


def _code_point(sign: str) -> str:
    return f"U+{ord(sign):04X} {unicodedata.name(sign, 'tab' if sign == chr(9) else '')}".strip()
