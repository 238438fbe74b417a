"""Shows in a command, a path or a diff what an eye would miss: invisible, turned and look-alike characters."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping

from ikigai.core.sanitize import clean, clean_line, fillers

LONG = 40
"""Blanks in a row, and half as many empty lines, are counted instead of shown: they push text out of sight."""
_MOST = 5  # kinds of characters named in one sentence
_TURNED = re.compile(r"[‐-―−‘-‟‹›′″⁄∕∖∣∥；：！＂＃＄％＆＇（）＊＋，－．／；＜＝＞？＠［＼］＾＿｀｛｜｝～¦ǀ]")
_CONTROLS = re.compile("[\x0d\x1b\x80-\x9f]")
_ALIKE = re.compile("[авсеһіјкӏмнорѕтухуԁԛԝьгАВСЕНІЈКМОРЅТХУαγικνορτυχΑΒΕΖΗΙΚΜΝΟΡΤΥΧ]+")
_FAMILIES = ("CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU", "GEORGIAN")
_DRESSED = ("FULLWIDTH", "MATHEMATICAL")


def revealed(text: str) -> str:
    """`text` in as many lines as it has, with nothing in it that does not show.

    Controls (CR too), bidirectional and zero-width characters, fillers, tags, odd spaces and private-use characters
    become `<U+XXXX>`, a tab ⇥; long runs of blanks and of empty lines are counted: `<200 blanks>`.
    """
    lines = text.replace("\t", "⇥").split("\n")
    shown = "\n".join("<U+000D>".join(clean_line(part) for part in line.split("\r")) for line in lines)
    shown = re.sub(rf"[ ⇥]{{{LONG},}}", lambda run: f"<{len(run[0])} blanks>", shown)
    return re.sub(rf"(\n[ ⇥]*){{{LONG // 2},}}", lambda run: f"\n<{run[0].count(chr(10)) - 1} empty lines>\n", shown)


def hidden(text: str) -> str:
    """What an eye would miss in `text`, as one sentence for whoever decides; empty when there is nothing.

    "Hidden characters: 2 × U+202E RIGHT-TO-LEFT OVERRIDE." or 'Look-alikes: U+0443 CYRILLIC SMALL LETTER U in
    "pуthon".' A letter is named with the first word that has it.
    """
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return ""
    unseen = Counter(sign for sign in text if sign not in "\n\t" and clean_line(sign) != sign)
    words = _foreign(text)
    alike = Counter(sign for sign in text if sign not in unseen and (sign in words or _TURNED.match(sign)))
    said = [("Hidden characters", _named(unseen, {})), ("Look-alikes", _named(alike, words))]
    return " ".join(f"{what}: {names}." for what, names in said if names)


def brought(diff: str) -> str:
    """What the added lines of a unified diff hide that the removed ones do not, as `hidden` says it.

    Only what turns or hides text is meant. Joiners and fillers that a script or an emoji needs, odd spaces and line
    ends CR LF are text.
    """
    added, removed = (Counter(_unseen(_side(diff, mark))) for mark in "+-")
    more = added - removed
    return f"Hidden characters: {_named(more, {})}." if more else ""


def _side(diff: str, mark: str) -> str:
    return "\n".join(line[1:] for line in diff.split("\n") if line.startswith(mark))


def _unseen(text: str) -> Iterator[str]:
    text = re.sub("\r(?=\n|$)", "", text)
    yield from _CONTROLS.findall(text)  # `clean` drops what they introduce instead of marking it
    for code in re.findall(r"<U\+([0-9A-F]+)>", clean(_CONTROLS.sub("", text.replace("<U+", "<")))):
        yield chr(int(code, 16))
    yield from fillers(text)


def _foreign(text: str) -> dict[str, str]:
    """Letters that pass for ASCII ones, each with the first word that has it.

    They are ASCII letters in other clothes, and those of other scripts in a word that has ASCII letters too. Between
    underscores and digits a part wholly of another script counts only if every letter of it looks like an ASCII one.
    """
    found = dict[str, str]()
    for word in re.findall(r"\w+", text):
        mixed = re.search("[A-Za-z]", word)
        for part in re.findall(r"[^\W\d_]+", word) if mixed else ():
            if re.search("[A-Za-z]", part) or _ALIKE.fullmatch(part):
                found.update((sign, word) for sign in part if _family(sign) in _FAMILIES and sign not in found)
        found.update((sign, word) for sign in word if _family(sign) in _DRESSED and sign not in found)
    return found


def _family(sign: str) -> str:
    return unicodedata.name(sign, "").split(" ")[0] if sign > "\x7f" else ""


def _named(signs: Counter[str], words: Mapping[str, str]) -> str:
    names = [
        (f"{count} × " if count > 1 else "") + _name(sign) + _within(words.get(sign))
        for sign, count in signs.most_common(_MOST)
    ]
    return ", ".join(names) + (f" and {len(signs) - _MOST} more" if len(signs) > _MOST else "")


def _within(word: str | None) -> str:
    return f' in "{clean_line(word if len(word) <= LONG else word[:LONG] + "…")}"' if word else ""


def _name(sign: str) -> str:
    return f"U+{ord(sign):04X} {unicodedata.name(sign, '')}".strip()
