"""What a terminal can be asked beyond drawing text, told by its environment: no terminal is asked, none has to answer.

Where nobody knows, nothing is sent that could end up as text on the screen, and nothing is hidden behind what may not
be understood. The names are those that the terminals themselves set.
"""

from collections.abc import Mapping

Environ = Mapping[str, str]

_WITHOUT_STRINGS = ("dumb", "linux", "vt", "cons", "sun", "ansi", "eterm", "cygwin", "unknown")
"""How TERM begins where an OSC string may be taken for text, or for something else: `linux` sets its palette by one."""
_LINKING_PROGRAMS = ("iTerm.app", "WezTerm", "ghostty", "vscode", "Hyper", "rio", "Tabby", "mintty")
_LINKING_TERMS = ("xterm-kitty", "xterm-ghostty", "foot", "alacritty", "contour", "wezterm", "rio")
_LINKING_VARIABLES = ("GNOME_TERMINAL_SCREEN", "PTYXIS_VERSION", "TILIX_ID", "WT_SESSION")
"""Not VTE_VERSION: programs over VTE have links switched off unless they say otherwise. Konsole's users have to."""
_NOTIFYING_PROGRAMS = ("iTerm.app", "WezTerm", "ghostty")
_NOTIFYING_TERMS = ("xterm-kitty", "xterm-ghostty", "wezterm")


def strings(environ: Environ) -> bool:
    """Whether the terminal swallows an OSC string that it does not know."""
    return not environ.get("TERM", "").startswith(_WITHOUT_STRINGS) and bool(environ.get("TERM"))


def titles(environ: Environ) -> bool:
    """Whether it has a title, and a stack for the old one. GNU screen has titles of its own, and no stack."""
    return strings(environ) and "STY" not in environ


def hyperlinks(environ: Environ) -> bool:
    """Whether it is known to make text a link (OSC 8). What stands behind tmux or GNU screen is not known."""
    if not strings(environ) or _within_another(environ):
        return False
    return (
        environ.get("TERM_PROGRAM") in _LINKING_PROGRAMS
        or environ["TERM"].startswith(_LINKING_TERMS)
        or any(environ.get(name) for name in _LINKING_VARIABLES)
    )


def notices(environ: Environ) -> str:
    """How it shows a notification: "osc9", "osc777", or "bell" where that is not known; "" where it can do nothing."""
    if not strings(environ):
        return ""
    if _within_another(environ):  # tmux may not let a notification through, but rings
        return "bell"
    if environ.get("LC_TERMINAL") == "iTerm2" or environ.get("TERM_PROGRAM") in _NOTIFYING_PROGRAMS:
        return "osc9"
    if environ["TERM"] in _NOTIFYING_TERMS:
        return "osc9"
    return "osc777" if environ["TERM"].startswith("foot") else "bell"


def passed(sequence: str, environ: Environ) -> str:
    """The sequence so that tmux (where `allow-passthrough` is on) or GNU screen hands it on to what is behind it."""
    if "TMUX" in environ:
        doubled = sequence.replace("\x1b", "\x1b\x1b")
        return f"\x1bPtmux;{doubled}\x1b\\"
    return f"\x1bP{sequence}\x1b\\" if "STY" in environ else sequence


def _within_another(environ: Environ) -> bool:
    return "TMUX" in environ or "STY" in environ
