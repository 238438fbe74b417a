"""Shows in a command, a path or a diff what an eye would miss: invisible, turned and look-alike characters."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator

from ikigai.core.sanitize import clean, clean_line

LONG = 40
"""Blanks in a row, and half as many empty lines, are counted instead of shown: they push text out of sight."""
_MOST = 5  # kinds of characters named in one sentence
_TURNED = re.compile(r"[‐-―−‘-‟‹›′″⁄∕∖∣∥；：！＂＃＄％＆＇（）＊＋，－．／；＜＝＞？＠［＼］＾＿｀｛｜｝～¦ǀ]")
_CONTROLS = re.compile("[\x0d\x1b\x80-\x9f]")
_FAMILIES = ("CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU", "FULLWIDTH", "MATHEMATICAL", "GEORGIAN")


def revealed(text: str) -> str:
    """`text` in as many lines as it has, with nothing in it that does not show.

    Controls (CR too), bidirectional and zero-width characters, tags, odd spaces and private-use characters become
    `<U+XXXX>`, a tab ⇥; long runs of blanks and of empty lines are counted: `<200 blanks>`.
    """
    lines = text.replace("\t", "⇥").split("\n")
    shown = "\n".join("<U+000D>".join(clean_line(part) for part in line.split("\r")) for line in lines)
    shown = re.sub(rf"[ ⇥]{{{LONG},}}", lambda run: f"<{len(run[0])} blanks>", shown)
    return re.sub(rf"(\n[ ⇥]*){{{LONG // 2},}}", lambda run: f"\n<{run[0].count(chr(10)) - 1} empty lines>\n", shown)


def hidden(text: str) -> str:
    """What an eye would miss in `text`, as one sentence for whoever decides; empty when there is nothing.

    "Hidden characters: 2 × U+202E RIGHT-TO-LEFT OVERRIDE." or "Look-alikes: U+0430 CYRILLIC SMALL LETTER A."
    """
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return ""
    unseen = Counter(sign for sign in text if sign not in "\n\t" and clean_line(sign) != sign)
    alike = Counter(sign for sign in text if sign not in unseen and _TURNED.match(sign))
    alike.update(_foreign(text))
    said = [("Hidden characters", unseen), ("Look-alikes", alike)]
    return " ".join(f"{what}: {_named(signs)}." for what, signs in said if signs)


def brought(diff: str) -> str:
    """What the added lines of a unified diff hide that the removed ones do not, as `hidden` says it.

    Only what turns or hides text is meant: joiners that a script or an emoji needs, and line ends CR LF, are text.
    """
    added, removed = (Counter(_unseen(_side(diff, mark))) for mark in "+-")
    more = added - removed
    return f"Hidden characters: {_named(more)}." if more else ""


def _side(diff: str, mark: str) -> str:
    return "\n".join(line[1:] for line in diff.split("\n") if line.startswith(mark))


def _unseen(text: str) -> Iterator[str]:
    text = re.sub("\r(?=\n|$)", "", text)
    yield from _CONTROLS.findall(text)  # `clean` drops what they introduce instead of marking it
    for code in re.findall(r"<U\+([0-9A-F]+)>", clean(_CONTROLS.sub("", text.replace("<U+", "<")))):
        yield chr(int(code, 16))


def _foreign(text: str) -> Iterator[str]:
    """Letters of other scripts in words that have ASCII letters too, and those that are ASCII in other clothes."""
    for word in re.findall(r"\w+", text):
        mixed = re.search("[A-Za-z]", word)
        for sign in word:
            family = unicodedata.name(sign, "").split(" ")[0] if sign > "\x7f" else ""
            if family in ("FULLWIDTH", "MATHEMATICAL") or (mixed and family in _FAMILIES):
                yield sign


def _named(signs: Counter[str]) -> str:
    names = [f"{count} × {_name(sign)}" if count > 1 else _name(sign) for sign, count in signs.most_common(_MOST)]
    return ", ".join(names) + (f" and {len(signs) - _MOST} more" if len(signs) > _MOST else "")


def _name(sign: str) -> str:
    return f"U+{ord(sign):04X} {unicodedata.name(sign, '')}".strip()
