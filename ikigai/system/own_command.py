"""Word the command that starts the program again."""

import shutil
import sys
from pathlib import Path

NAME = "ikigai"


def own_command() -> str:
    """Return `ikigai` where the PATH leads to this program, else the path by which it was started.

    In an environment that is not active the name alone starts nothing, or another installation.
    """
    started = Path(sys.argv[0])
    if started.name != NAME or not started.is_file():
        return NAME  # as a module: `python -m ikigai`
    found = shutil.which(NAME)
    return NAME if found and Path(found).samefile(started) else str(started)
