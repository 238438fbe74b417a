"""Find modes that a program has set in a terminal and not reset, in the bytes that it wrote."""

import re

_USUAL = {"?7": "h", "?25": "h"}
"""The modes at the start: wrapping, and a visible cursor; all others are off."""
_SEQUENCE = re.compile(
    rb"\x1b\[(?P<csi>[0-?]*[ -/]*[@-~])|\x1b\](?P<osc>[^\x07\x1b]*)(?:\x07|\x1b\\)|\x1b(?P<short>[ -/]*[0-Zc-~=>])"
)


ENTER = "\x1b[13u"
"""Enter as a terminal may report it: always a key, where \\r before other text may be a line of a paste."""
ATTRIBUTES_QUERY, ATTRIBUTES = b"\x1b[c", b"\x1b[?62;22c"
"""The query for the attributes of a terminal (DA1), and the answer of one that knows no query for its colors."""
MAX_FRAME_SECONDS = 5.0
"""Seconds after which the rest of a frame is not waited for: the program was stopped in the middle of it, say."""
FRAME_BEGINS, FRAME_ENDS = b"\x1b[?2026h", b"\x1b[?2026l"
MAX_FRAME_BYTES = 1 << 17


def is_halfway(raw: bytes) -> bool:
    """Return True if these bytes end in the middle of an update that terminals show as a whole."""
    begun = raw.rfind(FRAME_BEGINS, max(0, len(raw) - MAX_FRAME_BYTES))
    return begun >= 0 and FRAME_ENDS not in raw[begun:]


def left_on(raw: bytes) -> dict[str, str]:
    """Return the modes left on, by name, with their last value.

    They are private and other modes, keypad, shape of the cursor, scroll region, titles and keyboards pushed and not
    popped, a title set outside of that, colors, character set, style, a link.
    """
    left: dict[str, str] = {}
    depth = {"title stack": 0, "keyboard stack": 0}
    for found in _SEQUENCE.finditer(raw):
        if found["csi"] is not None:
            _csi(found["csi"].decode(), left, depth)
        elif found["osc"] is not None:
            _osc(found["osc"].decode("utf-8", "replace"), left, depth)
        elif (short := found["short"].decode()) == "c":
            left.clear()
            depth = dict.fromkeys(depth, 0)
        elif short in "=>":
            _put(left, "keypad", "application" * (short == "="))
        elif short[0] in "()*+":
            _put(left, f"character set {short[0]}", short[1:] * (short[1:] != "B"))
    return left | {name: str(number) for name, number in depth.items() if number}


def _put(left: dict[str, str], name: str, value: str) -> None:
    if value:
        left[name] = value
    else:
        left.pop(name, None)


def _csi(text: str, left: dict[str, str], depth: dict[str, int]) -> None:
    numbers, end = text[:-1], text[-1]
    if end in "hl":
        private = "?" * numbers.startswith("?")
        for number in numbers.removeprefix("?").split(";"):
            _put(left, name := f"{private}{number}", end * (end != _USUAL.get(name, "l")))
    elif text.endswith(" q"):
        _put(left, "cursor shape", numbers.strip() * (numbers.strip() not in ("", "0")))
    elif end == "r" and not numbers.startswith("?"):
        _put(left, "scroll region", numbers)
    elif end == "t" and numbers.split(";")[0] in ("22", "23"):
        depth["title stack"] = max(0, depth["title stack"] + (1 if numbers.startswith("22") else -1))
        if not depth["title stack"]:
            left.pop("title", None)
    elif end == "u" and numbers[:1] in ("<", ">"):
        depth["keyboard stack"] += 1 if numbers[0] == ">" else -max(1, int(numbers[1:] or 1))
    elif end == "m" and numbers.startswith(">4"):
        _put(left, "modifyOtherKeys", numbers[3:].strip("0"))
    elif end == "m" and not numbers.startswith((">", "<", "?")):
        _put(left, "style", numbers.rpartition(";")[2].strip("0") and numbers)


def _osc(text: str, left: dict[str, str], depth: dict[str, int]) -> None:
    number, _, value = text.partition(";")
    if number in ("0", "1", "2"):
        _put(left, "title", value)
    elif number == "8":
        _put(left, "link", value.partition(";")[2])
    elif number in ("4", "10", "11", "12") and not value.endswith("?"):
        left[f"colour {number}"] = value
    elif number in ("104", "110", "111", "112"):
        left.pop(f"colour {number.removeprefix('1').removeprefix('0')}", None)
