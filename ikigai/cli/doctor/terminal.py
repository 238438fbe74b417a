"""Check the terminal: its kind, size, colors and modes, and the programs in between."""

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

TERMINAL_TIMEOUT = 1.0
"""Seconds to wait for the terminal's answer.

A terminal behind a slow line answers in that time; only one that never answers takes it.
"""
MIN_COLUMNS, MIN_ROWS = 40, 10
"""Columns and rows below which the interface is cramped."""
SLOWEST_ESCAPE = 50
"""Milliseconds that tmux may hold an Esc back; ikigai itself waits up to 100."""
PASTE_MODE, SYNCHRONIZED_OUTPUT_MODE = 2004, 2026
"""Modes that DECRQM asks about: bracketed paste and synchronized output."""
ANSWERS = re.compile(rb"\x1b\[\?[\d;]*(?:\$y|c)|\x1b\]11;[^\x07\x1b]*(?:\x07|\x1b\\\\)")
"""The answers of a terminal to DECRQM, DA1 and OSC 11; everything else that it sends are keys."""
MODE_STATES = {0: "no", 1: "yes", 2: "yes", 3: "yes", 4: "no"}
"""Answers to DECRQM: not known, on, off, always on, always off."""


def check_terminal(keys_fd: int | None = None) -> list[Finding]:
    """Check the terminal. Keys that are typed while it is asked are written to the descriptor `keys_fd`, if it is
    given.
    """
    findings = [_encoding()]
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return [*findings, Finding("terminal", OK, "none, so only print mode was checked (ikigai -p)")]
    return [*findings, _kind(), _size(), _colors(), *_modes(keys_fd), *_programs_between()]


def _encoding() -> Finding:
    name = (sys.stdout.encoding or "").lower().replace("-", "")
    if name == "utf8":
        return Finding("encoding", OK, "UTF-8")
    return Finding(
        "encoding", WARN, f"{name or 'none'}: signs are drawn as ?", "Set LANG=C.UTF-8 or another UTF-8 locale."
    )


def _kind() -> Finding:
    term = os.environ.get("TERM", "")
    if term in ("", "dumb"):
        text = f"TERM is {term or 'not set'}: drawn plainly, without colours or a status line"
        return Finding("terminal", WARN, text, "Set TERM to the type of the terminal, for example xterm-256color.")
    return Finding("terminal", OK, term)


def _size() -> Finding:
    columns, rows = shutil.get_terminal_size((0, 0))
    if not columns or not rows:
        return Finding("size", WARN, "not known; 80×24 is assumed", "Run: stty columns 80 rows 24")
    if columns < MIN_COLUMNS or rows < MIN_ROWS:
        return Finding("size", WARN, f"{columns}×{rows} is small", f"Make it {MIN_COLUMNS}×{MIN_ROWS} or larger.")
    return Finding("size", OK, f"{columns}×{rows}")


def _colors() -> Finding:
    from ikigai.terminal.render.theme import color_depth, output_theme

    theme = output_theme(os.environ, is_terminal=True)
    if not theme.color:
        why = "NO_COLOR is set" if os.environ.get("NO_COLOR") else "a variable says so"
        return Finding("colours", OK, f"off, because {why}" if os.environ.get("TERM") not in ("", "dumb") else "none")
    known = {16: "the sixteen that the terminal defines", 256: "256"}
    return Finding("colours", OK, known.get(color_depth(os.environ), "16.7 million"))


def _modes(keys_fd: int | None) -> list[Finding]:
    """Return findings from the modes that the terminal reports; older terminals do not answer."""
    if os.environ.get("TERM", "") in ("", "dumb"):
        return []
    from ikigai.terminal.render.colors import background_kind

    answer = _query_modes((PASTE_MODE, SYNCHRONIZED_OUTPUT_MODE), keys_fd)
    states = {int(mode): int(state) for mode, state in re.findall(rb"\x1b\[\?(\d+);(\d)\$y", answer)}
    reported = re.search(rb"\x1b\]11;[^\x07\x1b]*", answer)
    background = background_kind(reported[0].decode("ascii", "replace")) if reported else ""
    unknown = "not reported: its own sixteen colours are used, or [terminal] theme"
    findings = [Finding("background", OK, background or unknown)]
    match MODE_STATES.get(states.get(PASTE_MODE, -1)):
        case "yes":
            findings.append(Finding("pastes", OK, "marked by the terminal (bracketed paste)"))
        case "no":
            remedy = "Use a terminal that marks them, or /editor for several lines."
            findings.append(Finding("pastes", WARN, "not marked: each line of a paste is sent by itself", remedy))
        case _:
            findings.append(Finding("pastes", OK, "probably marked; not reported"))
    synchronized = MODE_STATES.get(states.get(SYNCHRONIZED_OUTPUT_MODE, -1)) == "yes"
    findings.append(Finding("updates", OK, "drawn at once (mode 2026)" if synchronized else "drawn in parts"))
    return findings


def _query_modes(modes: tuple[int, ...], keys_fd: int | None) -> bytes:
    """Return the terminal's answers to DECRQM for each mode, to OSC 11 and to DA1; between them may be keys.

    OSC 11 asks for the background. Every terminal answers DA1, so a missing answer to the others is not waited for.
    """
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    answer = b""
    try:
        tty.setcbreak(descriptor, termios.TCSANOW)
        os.write(sys.stdout.fileno(), b"".join(b"\x1b[?%d$p" % mode for mode in modes) + b"\x1b]11;?\x1b\\\x1b[c")
        until = time.monotonic() + TERMINAL_TIMEOUT
        while not re.search(rb"\x1b\[\?[\d;]*c", answer) and (left := until - time.monotonic()) > 0:
            if select.select([descriptor], [], [], left)[0]:
                answer += os.read(descriptor, 1024)
    except OSError:
        return b""
    finally:
        # An answer that comes too late must not be typed into the shell. The REPL knows one when it reads it.
        termios.tcsetattr(descriptor, termios.TCSAFLUSH if keys_fd is None else termios.TCSANOW, before)
    if keys_fd is not None:
        os.write(keys_fd, ANSWERS.sub(b"", answer))
    return answer


def _programs_between() -> list[Finding]:
    """Return findings about programs between ikigai and the terminal."""
    findings: list[Finding] = []
    if os.environ.get("TMUX"):
        findings.append(_tmux())
    elif os.environ.get("STY"):
        findings.append(
            Finding("screen", OK, "inside GNU screen: Shift+Enter does not arrive; /keys lists other keys for it")
        )
    if os.environ.get("SSH_CONNECTION"):
        findings.append(
            Finding("ssh", OK, "over ssh; tmux on this side keeps ikigai running when the connection breaks")
        )
    return findings


def _tmux() -> Finding:
    """Return the finding about the settings of tmux that decide which keys arrive, when, and if it reports its
    focus.
    """
    waits, extended = _tmux_option("escape-time"), _tmux_option("extended-keys")
    if waits.isdecimal() and int(waits) > SLOWEST_ESCAPE:
        remedy = "Put into ~/.tmux.conf: set -sg escape-time 20"
        return Finding("tmux", WARN, f"delays Esc by {waits} ms", remedy)
    if extended == "off":
        remedy = "Put into ~/.tmux.conf: set -s extended-keys on    (/keys lists other keys for it)"
        return Finding("tmux", WARN, "Shift+Enter arrives as Enter", remedy)
    calls = (
        ""
        if _tmux_option("focus-events") == "on"
        else "; for notifications at the end of a turn: set -g focus-events on"
    )
    return Finding("tmux", OK, f"inside tmux; Esc and Shift+Enter arrive{calls}")


def _tmux_option(name: str) -> str:
    try:
        done = subprocess.run(["tmux", "show-options", "-sv", name], capture_output=True, text=True, timeout=2)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
