"""Fold what a command draws over itself: pass on the text that a terminal would show in the end.

A progress bar draws each of its frames over the one before: by a carriage return, by backspaces, or by sequences that
move the cursor. Output without any of these passes as it is, byte for byte, and a DOS line end counts as none.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable

KEPT_CHARACTERS = 16_384
"""Characters at the end of plain output that wait, because a cursor may still go up to them."""
MAX_LINES = 200
"""Lines that a cursor can go up."""
MAX_COLUMN = 10_000
"""Columns that a cursor can go to the right."""
_MOVE = re.compile(r"\r(?!\r*\n)|\x08|\x1b\[[0-9;?]{0,32}[A-HJKf]")
_CONTROL = re.compile(
    r"(\r*\n)|([\r\x08])|\x1b\[([0-9;:?]{0,32})[ -/]{0,4}([@-~])|\x1b\][^\x07\x1b]{0,1024}(?:\x07|\x1b\\)|\x1b[78=>]"
)
_PARTIAL = re.compile(r"(?:\r+|\x1b(?:\[[0-9;:?]{0,32}[ -/]{0,4})?|\x1b\][^\x07\x1b]{0,1024}\x1b?)\Z")
_RESET = re.compile(r"\x1b\[0*(?:;.*)?m")


class _DrawnLine:
    """A line as it came (`raw`), or after the cursor went back in it, its characters and the colors of each."""

    __slots__ = ("chars", "raw", "styles", "width")

    def __init__(self, raw: str = "") -> None:
        self.raw: str | None = raw
        self.chars, self.styles = list[str](), list[str]()
        self.width = len(_CONTROL.sub("", raw)) if raw else 0

    @property
    def width_now(self) -> int:
        return self.width if self.raw is not None else len(self.chars)

    def draw(self, column: int, text: str, style: str) -> None:
        self.divide()
        gap = column - len(self.chars)
        if gap > 0:
            self.chars += " " * gap
            self.styles += [""] * gap
        end = column + len(text)
        self.chars[column:end] = text
        self.styles[column:end] = [style] * len(text)

    def erase(self, column: int, how: str) -> None:
        self.divide()
        if how in ("", "0"):
            del self.chars[column:], self.styles[column:]
        elif how == "1":
            self.draw(0, " " * min(column + 1, len(self.chars)), "")
        else:
            self.chars, self.styles = [], []

    def divide(self) -> None:
        if self.raw is None:
            return
        raw, self.raw = self.raw.rstrip("\r"), None
        style, done = "", 0
        for control in _CONTROL.finditer(raw):
            self.draw(len(self.chars), raw[done : control.start()], style)
            style, done = _restyled(style, control), control.end()
        self.draw(len(self.chars), raw[done:], style)

    def text(self) -> str:
        """Return the line as it came, or as it looks now, without blanks at its end."""
        if self.raw is not None:
            return self.raw
        pieces, style = list[str](), ""
        shown = len("".join(self.chars).rstrip())
        if not any(self.styles[:shown]):
            return "".join(self.chars[:shown])
        for char, own in zip(self.chars[:shown], self.styles, strict=False):
            if own != style:
                pieces += "\x1b[m" * bool(style), own
                style = own
            pieces.append(char)
        return "".join((*pieces, "\x1b[m" * bool(style)))


class DrawnOutput:
    """A filter in front of `emit`, which gets the output as soon as no cursor can go back to it, or at `flush`."""

    def __init__(self, emit: Callable[[bytes], None]) -> None:
        self._emit = emit
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")  # bytes come out as they went in
        self._held, self._plain = "", ""
        self._lines = list[_DrawnLine]()  # what is drawn on; empty while all output is plain
        self._row = self._column = 0
        self._style = ""
        self._is_continued = False  # the beginning of the first line has been passed on

    def feed(self, data: bytes) -> None:
        """Take more of the output."""
        text = self._held + self._decoder.decode(data)
        partial = _PARTIAL.search(text, max(0, len(text) - 1100))
        self._held = partial[0] if partial else ""
        self._take(text[: len(text) - len(self._held)])

    def flush(self) -> None:
        """Pass on all output so far. What comes next begins a line if it is drawn over this."""
        if self._held == "\r" and not (self._plain or self._lines):
            return  # a frame that was passed on, and has not been drawn over yet
        self._take(self._held + self._decoder.decode(b"", final=True))
        self._held = "\r" if self._lines and self._column < self._lines[self._row].width_now else ""
        rest = self._plain + "\n".join(line.text() for line in self._lines)
        if rest:
            self._pass_on(rest)
        self._plain, self._lines, self._row, self._column = "", [], 0, 0

    def _take(self, text: str) -> None:
        move = _MOVE.search(text)
        if self._lines and not move and self._row == len(self._lines) - 1 and text.count("\n") > MAX_LINES:
            self._plain, self._lines = "\n".join(line.text() for line in self._lines), []
        if self._lines:
            self._draw(text)
            return
        self._plain += text[: move.start()] if move else text
        if len(self._plain) > 2 * KEPT_CHARACTERS:
            cut = len(self._plain) - KEPT_CHARACTERS
            cut = self._plain.find("\n", cut) + 1 or cut
            self._pass_on(self._plain[:cut])
            self._plain = self._plain[cut:]
        if move:
            self._lines = [_DrawnLine(raw) for raw in self._plain.split("\n")]
            if self._is_continued and len(self._lines) == 1:
                self._lines.insert(0, _DrawnLine())
            self._plain, self._row = "", len(self._lines) - 1
            self._column = self._lines[-1].width
            self._draw(text[move.start() :])

    def _pass_on(self, text: str) -> None:
        self._is_continued = not text.endswith("\n")
        self._emit(text.encode("utf-8", "surrogateescape"))

    def _draw(self, text: str) -> None:
        done = 0
        for control in _CONTROL.finditer(text):
            self._write(text[done : control.start()])
            done = control.end()
            line_end, back, parameters, final = control.groups()
            if line_end:
                self._end_line(line_end)
            elif back:
                self._column = 0 if back == "\r" else max(0, self._column - 1)
            elif final == "m":
                self._style = _restyled(self._style, control)
                line = self._lines[self._row]
                if line.raw is not None and self._column == line.width:
                    line.raw += control[0]
            elif final:
                self._move(parameters, final)
        self._write(text[done:])

    def _write(self, text: str) -> None:
        line = self._lines[self._row]
        if line.raw is not None and self._column == line.width and not line.raw.endswith("\r"):
            line.raw += text
            line.width += len(text)
        elif text:
            line.draw(self._column, text, self._style)
        self._column += len(text)

    def _end_line(self, end: str) -> None:
        line = self._lines[self._row]
        self._row, self._column = self._row + 1, 0
        if self._row < len(self._lines):
            return
        if line.raw is not None:
            line.raw += end[:-1]
        self._lines.append(_DrawnLine())
        if len(self._lines) > 2 * MAX_LINES:
            self._pass_on("".join(f"{line.text()}\n" for line in self._lines[:MAX_LINES]))
            del self._lines[:MAX_LINES]
            self._row -= MAX_LINES

    def _move(self, parameters: str, final: str) -> None:
        first = parameters.partition(";")[0]
        count = max(1, int(first)) if first.isdecimal() and first.isascii() else 1
        match final:
            case "A" | "F":
                self._row = max(0, self._row - count)
            case "B" | "E":
                self._row = min(len(self._lines) - 1, self._row + count)
            case "C" | "G":
                self._column = min(MAX_COLUMN, self._column + count if final == "C" else count - 1)
            case "D":
                self._column = max(0, self._column - count)
            case "K":
                self._lines[self._row].erase(self._column, parameters)
            case "J" if parameters in ("", "0"):
                self._lines[self._row].erase(self._column, "")
                del self._lines[self._row + 1 :]
            case "J" | "H" | "f":  # a screen of its own: what it showed before stays
                self._end_screen()
            case _:
                pass
        if final in "EF":
            self._column = 0

    def _end_screen(self) -> None:
        text = "\n".join(line.text() for line in self._lines).rstrip("\n")
        if text:
            self._pass_on(f"{text}\n")
        self._lines, self._row, self._column = [_DrawnLine()], 0, 0


def _restyled(style: str, control: re.Match[str]) -> str:
    """Return the colors after a sequence: those before it and it, unless it begins anew."""
    if control[4] != "m":
        return style
    if _RESET.fullmatch(control[0]):
        return "" if ";" not in control[0] else control[0]
    return (style + control[0])[-128:] if len(style) < 96 else control[0]
