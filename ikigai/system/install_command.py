"""Name the command that installs a distribution into the running installation of ikigai."""

import importlib.util
import shlex
import sys
from pathlib import Path

DISTRIBUTION = "ikigai-chat"
"""The name in package indexes, where `ikigai` is another project."""


def install_command(requirement: str) -> str:
    """Return the shell command that installs `requirement`, such as "ikigai-chat[local]", for the running Python.

    An installation by pipx is changed by pipx, so that it stays known there; one without pip (made by uv) by uv.
    """
    requirement = shlex.quote(requirement)
    if Path(sys.prefix).parts[-3:] == ("pipx", "venvs", DISTRIBUTION):
        return f"pipx runpip {DISTRIBUTION} install {requirement}"
    python = shlex.quote(sys.executable or "python3")
    if importlib.util.find_spec("pip") is None:
        return f"uv pip install --python {python} {requirement}"
    return f"{python} -m pip install {requirement}"


def extra_command(extra: str) -> str:
    """Return the shell command that adds an extra of ikigai: "local", "mcp", "sandbox"."""
    return install_command(f"{DISTRIBUTION}[{extra}]")
