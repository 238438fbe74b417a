"""Reveal characters of a command, a path or a diff that an eye would miss."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping

from ikigai.core.text.sanitize import clean, clean_line, find_fillers

MAX_BLANKS = 40
"""So many blanks in a row, and half as many empty lines, are counted instead of shown: they push text out of sight."""
_MAX_NAMED = 5  # kinds of characters named in one sentence
_LOOK_ALIKE_SIGNS = re.compile(
    r"[‐-―−‘-‟‹›′″⁄∕∖∣∥；：！＂＃＄％＆＇（）＊＋，－．／；＜＝＞？＠［＼］＾＿｀｛｜｝～¦ǀ]"
)
_CONTROLS = re.compile("[\x0d\x1b\x80-\x9f]")
_LOOK_ALIKE_LETTERS = re.compile("[авсеһіјкӏмнорѕтухуԁԛԝьгАВСЕНІЈКМОРЅТХУαγικνορτυχΑΒΕΖΗΙΚΜΝΟΡΤΥΧ]+")
_SCRIPTS = ("CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU", "GEORGIAN")
_STYLED_LETTERS = ("FULLWIDTH", "MATHEMATICAL")


def reveal(text: str) -> str:
    """Return `text` in as many lines, with all its characters visible.

    Controls (CR too), bidirectional and zero-width characters, fillers, tags, odd spaces and private-use characters
    become `<U+XXXX>`, a tab ⇥; long runs of blanks and of empty lines are counted: `<200 blanks>`.
    """
    lines = text.replace("\t", "⇥").split("\n")
    shown = "\n".join("<U+000D>".join(clean_line(part) for part in line.split("\r")) for line in lines)
    shown = re.sub(rf"[ ⇥]{{{MAX_BLANKS},}}", lambda run: f"<{len(run[0])} blanks>", shown)
    return re.sub(
        rf"(\n[ ⇥]*){{{MAX_BLANKS // 2},}}", lambda run: f"\n<{run[0].count(chr(10)) - 1} empty lines>\n", shown
    )


def describe_hidden(text: str) -> str:
    """Return the characters of `text` that an eye would miss, as sentences for the user, or "".

    "Hidden characters: 2 × U+202E RIGHT-TO-LEFT OVERRIDE." or 'Look-alikes: U+0443 CYRILLIC SMALL LETTER U in
    "pуthon".' A letter is named with the first word that has it.
    """
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return ""
    unseen = Counter(sign for sign in text if sign not in "\n\t" and clean_line(sign) != sign)
    words = _find_foreign_letters(text)
    alike = Counter(sign for sign in text if sign not in unseen and (sign in words or _LOOK_ALIKE_SIGNS.match(sign)))
    parts = [("Hidden characters", _name_characters(unseen, {})), ("Look-alikes", _name_characters(alike, words))]
    return " ".join(f"{what}: {names}." for what, names in parts if names)


def hidden_in_diff(diff: str) -> str:
    """Return the characters hidden in the added lines of a unified diff, less the characters of the removed ones, as a
    sentence.

    Only characters that turn or hide text count. Joiners and fillers that a script or an emoji needs, odd spaces and
    line ends CR LF are text.
    """
    added, removed = (Counter(_find_hidden(_lines_with_mark(diff, mark))) for mark in "+-")
    more = added - removed
    return f"Hidden characters: {_name_characters(more, {})}." if more else ""


def _lines_with_mark(diff: str, mark: str) -> str:
    return "\n".join(line[1:] for line in diff.split("\n") if line.startswith(mark))


def _find_hidden(text: str) -> Iterator[str]:
    text = re.sub("\r(?=\n|$)", "", text)
    yield from _CONTROLS.findall(text)  # `clean` drops what they introduce instead of marking it
    for code in re.findall(r"<U\+([0-9A-F]+)>", clean(_CONTROLS.sub("", text.replace("<U+", "<")))):
        yield chr(int(code, 16))
    yield from find_fillers(text)


def _find_foreign_letters(text: str) -> dict[str, str]:
    """Return the letters that pass for ASCII ones, each with the first word that has it.

    They are styled ASCII letters, and letters of other scripts in a word that has ASCII letters too. Between
    underscores and digits a part wholly of another script counts only if every letter of it looks like an ASCII one.
    """
    letters = dict[str, str]()
    for word in re.findall(r"\w+", text):
        mixed = re.search("[A-Za-z]", word)
        for part in re.findall(r"[^\W\d_]+", word) if mixed else ():
            if re.search("[A-Za-z]", part) or _LOOK_ALIKE_LETTERS.fullmatch(part):
                letters.update((sign, word) for sign in part if _script(sign) in _SCRIPTS and sign not in letters)
        letters.update((sign, word) for sign in word if _script(sign) in _STYLED_LETTERS and sign not in letters)
    return letters


def _script(sign: str) -> str:
    return unicodedata.name(sign, "").split(" ")[0] if sign > "\x7f" else ""


def _name_characters(signs: Counter[str], words: Mapping[str, str]) -> str:
    names = [
        (f"{count} × " if count > 1 else "") + _name(sign) + _within(words.get(sign))
        for sign, count in signs.most_common(_MAX_NAMED)
    ]
    return ", ".join(names) + (f" and {len(signs) - _MAX_NAMED} more" if len(signs) > _MAX_NAMED else "")


def _within(word: str | None) -> str:
    return f' in "{clean_line(word if len(word) <= MAX_BLANKS else word[:MAX_BLANKS] + "…")}"' if word else ""


def _name(sign: str) -> str:
    return f"U+{ord(sign):04X} {unicodedata.name(sign, '')}".strip()
