"""Tell from the environment what a terminal can do beyond drawing text, without asking the terminal.

Where the environment does not say, nothing is sent that could end up as text on the screen, and nothing is hidden
behind a sequence that may not be understood. The names are those that the terminals themselves set.
"""

from collections.abc import Mapping

Environ = Mapping[str, str]

_WITHOUT_STRINGS = ("dumb", "linux", "vt", "cons", "sun", "ansi", "eterm", "cygwin", "unknown")
"""Beginnings of TERM where an OSC string may be taken for text or something else: `linux` sets its palette by one."""
_LINKING_PROGRAMS = ("iTerm.app", "WezTerm", "ghostty", "vscode", "Hyper", "rio", "Tabby", "mintty")
_LINKING_TERMS = ("xterm-kitty", "xterm-ghostty", "foot", "alacritty", "contour", "wezterm", "rio")
_LINKING_VARIABLES = ("GNOME_TERMINAL_SCREEN", "PTYXIS_VERSION", "TILIX_ID", "WT_SESSION")
"""VTE_VERSION is left out: programs over VTE have links off by default. Users of Konsole have to switch links on."""
_NOTIFYING_PROGRAMS = ("iTerm.app", "WezTerm", "ghostty")
_NOTIFYING_TERMS = ("xterm-kitty", "xterm-ghostty", "wezterm")


def swallows_osc(environ: Environ) -> bool:
    """Return True if the terminal swallows an OSC string that it does not know."""
    return not environ.get("TERM", "").startswith(_WITHOUT_STRINGS) and bool(environ.get("TERM"))


def has_titles(environ: Environ) -> bool:
    """Return True if the terminal has a title and a stack for the old one. GNU screen has titles but no stack."""
    return swallows_osc(environ) and "STY" not in environ


def has_hyperlinks(environ: Environ) -> bool:
    """Return True if the terminal is known to make text a link (OSC 8). Behind tmux or GNU screen none is known.

    FORCE_HYPERLINK goes before that, as in other programs: 0 for no links, anything else for links.
    """
    if not swallows_osc(environ):
        return False
    if forced := environ.get("FORCE_HYPERLINK", ""):
        return forced != "0"
    if _within_another(environ):
        return False
    return (
        environ.get("TERM_PROGRAM") in _LINKING_PROGRAMS
        or environ["TERM"].startswith(_LINKING_TERMS)
        or any(environ.get(name) for name in _LINKING_VARIABLES)
    )


def notification_way(environ: Environ) -> str:
    """Return how the terminal shows a notification: "osc9", "osc777", or "bell" where that is not known.

    Return "" where the terminal can do nothing.
    """
    if not swallows_osc(environ):
        return ""
    if _within_another(environ):  # tmux may not let a notification through, but rings
        return "bell"
    if environ.get("LC_TERMINAL") == "iTerm2" or environ.get("TERM_PROGRAM") in _NOTIFYING_PROGRAMS:
        return "osc9"
    if environ["TERM"] in _NOTIFYING_TERMS:
        return "osc9"
    return "osc777" if environ["TERM"].startswith("foot") else "bell"


def tmux_passthrough(sequence: str, environ: Environ) -> str:
    """Wrap `sequence` so that tmux (where `allow-passthrough` is on) or GNU screen hands it to the outer terminal."""
    if "TMUX" in environ:
        doubled = sequence.replace("\x1b", "\x1b\x1b")
        return f"\x1bPtmux;{doubled}\x1b\\"
    return f"\x1bP{sequence}\x1b\\" if "STY" in environ else sequence


def _within_another(environ: Environ) -> bool:
    return "TMUX" in environ or "STY" in environ
