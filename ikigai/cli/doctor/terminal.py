"""What the terminal is, and what it says it can do."""

from __future__ import annotations

import os
import re
import select
import shutil
import subprocess
import sys
import termios
import time
import tty

from ikigai.cli.doctor.check import OK, WARN, Finding

ANSWERS_WITHIN = 1.0
"""Seconds: a terminal behind a slow line answers in that time, and only one that never answers takes it."""
COLUMNS, ROWS = 40, 10
"""Below that the interface is cramped."""
SLOWEST_ESCAPE = 50
"""Milliseconds that tmux may hold an Esc back; ikigai itself waits up to 100."""
PASTE, SYNCHRONISED = 2004, 2026
"""Modes that DECRQM asks about."""
SET = {0: "no", 1: "yes", 2: "yes", 3: "yes", 4: "no"}
"""What it answers: not known, on, off, always on, always off."""


def findings() -> list[Finding]:
    found = [_encoding()]
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return [*found, Finding("terminal", OK, "none here, so only print mode was looked at (ikigai -p)")]
    return [*found, _kind(), _size(), _colours(), *_modes(), *_between()]


def _encoding() -> Finding:
    name = (sys.stdout.encoding or "").lower().replace("-", "")
    if name == "utf8":
        return Finding("encoding", OK, "UTF-8")
    return Finding("encoding", WARN, f"{name or 'none'}: signs are drawn as ?", "Set LANG=C.UTF-8 or another of UTF-8.")


def _kind() -> Finding:
    term = os.environ.get("TERM", "")
    if term in ("", "dumb"):
        said = f"TERM is {term or 'not set'}: drawn plainly, without colours or a status line"
        return Finding("terminal", WARN, said, "Set TERM to what the terminal is, for example xterm-256color.")
    return Finding("terminal", OK, term)


def _size() -> Finding:
    columns, rows = shutil.get_terminal_size((0, 0))
    if not columns or not rows:
        return Finding("size", WARN, "not known; 80×24 is assumed", "Run: stty columns 80 rows 24")
    if columns < COLUMNS or rows < ROWS:
        return Finding("size", WARN, f"{columns}×{rows} is small", f"Make it {COLUMNS}×{ROWS} or larger.")
    return Finding("size", OK, f"{columns}×{rows}")


def _colours() -> Finding:
    from ikigai.terminal.render.theme import depth, output

    made = output(os.environ, is_terminal=True)
    if not made.color:
        why = "NO_COLOR is set" if os.environ.get("NO_COLOR") else "variables say so"
        return Finding("colours", OK, f"off, because {why}" if os.environ.get("TERM") not in ("", "dumb") else "none")
    known = {16: "the sixteen that the terminal defines", 256: "256"}
    return Finding("colours", OK, known.get(depth(os.environ), "16.7 million"))


def _modes() -> list[Finding]:
    """What the terminal answers when it is asked whether it knows a mode; older ones do not answer."""
    if os.environ.get("TERM", "") in ("", "dumb"):
        return []
    from ikigai.terminal.render.colors import kind

    answer = _asked((PASTE, SYNCHRONISED))
    said = {int(mode): int(state) for mode, state in re.findall(rb"\x1b\[\?(\d+);(\d)\$y", answer)}
    reported = re.search(rb"\x1b\]11;[^\x07\x1b]*", answer)
    background = kind(reported[0].decode("ascii", "replace")) if reported else ""
    unknown = "the terminal does not say, so its own sixteen colours are used, or [terminal] theme"
    found = [Finding("background", OK, background or unknown)]
    match SET.get(said.get(PASTE, -1)):
        case "yes":
            found.append(Finding("pastes", OK, "marked as such (bracketed paste)"))
        case "no":
            remedy = "Use a terminal that marks them, or the editor (Ctrl+G) for several lines."
            found.append(Finding("pastes", WARN, "not marked: each line of a paste is sent by itself", remedy))
        case _:
            found.append(Finding("pastes", OK, "probably marked; the terminal does not say"))
    synchronised = SET.get(said.get(SYNCHRONISED, -1)) == "yes"
    found.append(Finding("updates", OK, "drawn at once (mode 2026)" if synchronised else "drawn as they come"))
    return found


def _asked(modes: tuple[int, ...]) -> bytes:
    """What is answered to DECRQM for each of them, to OSC 11, which asks for the background, and to DA1, which every
    terminal answers, so that nobody waits for the others.
    """
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    answer = b""
    try:
        tty.setcbreak(descriptor, termios.TCSANOW)
        os.write(sys.stdout.fileno(), b"".join(b"\x1b[?%d$p" % mode for mode in modes) + b"\x1b]11;?\x1b\\\x1b[c")
        until = time.monotonic() + ANSWERS_WITHIN
        while not re.search(rb"\x1b\[\?[\d;]*c", answer) and (left := until - time.monotonic()) > 0:
            if select.select([descriptor], [], [], left)[0]:
                answer += os.read(descriptor, 1024)
    except OSError:
        return b""
    finally:
        termios.tcsetattr(descriptor, termios.TCSAFLUSH, before)  # what came too late is not typed into the shell
    return answer


def _between() -> list[Finding]:
    """What stands between ikigai and the terminal."""
    found: list[Finding] = []
    if os.environ.get("TMUX"):
        found.append(_tmux())
    elif os.environ.get("STY"):
        found.append(Finding("screen", OK, "inside GNU screen: Shift+Enter does not arrive; Ctrl+J does"))
    if os.environ.get("SSH_CONNECTION"):
        found.append(Finding("ssh", OK, "over ssh; tmux on this side keeps ikigai running when the line breaks"))
    return found


def _tmux() -> Finding:
    """The settings of tmux that change which keys arrive, and when, and whether it says that it is in front."""
    waits, extended = _tmux_option("escape-time"), _tmux_option("extended-keys")
    if waits.isdecimal() and int(waits) > SLOWEST_ESCAPE:
        remedy = "Put into ~/.tmux.conf: set -sg escape-time 20"
        return Finding("tmux", WARN, f"holds Esc back for {waits} ms", remedy)
    if extended == "off":
        remedy = "Put into ~/.tmux.conf: set -s extended-keys on    (or use Ctrl+J)"
        return Finding("tmux", WARN, "Shift+Enter arrives as Enter", remedy)
    calls = "" if _tmux_option("focus-events") == "on" else "; to be called when a turn ends: set -g focus-events on"
    return Finding("tmux", OK, f"inside tmux; Esc and Shift+Enter arrive{calls}")


def _tmux_option(name: str) -> str:
    try:
        done = subprocess.run(["tmux", "show-options", "-sv", name], capture_output=True, text=True, timeout=2)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
