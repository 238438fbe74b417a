"""The real program, but moments last: for what a busy machine would otherwise be too late for."""

import sys

from ikigai.cli import main as cli
from ikigai.terminal.input import actions
from ikigai.terminal.output import conversation as showing
from ikigai.terminal.output import dialog

PAUSE = 6.0
"""Seconds without a letter after which a key answers."""

if __name__ == "__main__":
    showing.HINTED = actions.LEAVE = 60.0
    dialog.PAUSE = PAUSE
    sys.exit(cli.main())
