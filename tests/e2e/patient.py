"""Run the real program with long moments, which a busy machine does not miss."""

import sys

from ikigai.cli import main as cli
from ikigai.terminal.input import input_actions
from ikigai.terminal.output import conversation as showing
from ikigai.terminal.output import dialog

PAUSE = 6.0
"""Seconds without a letter after which a question takes a key."""

if __name__ == "__main__":
    showing.HINT_SECONDS = input_actions.LEAVE_SECONDS = 60.0
    dialog.TYPING_GUARD = PAUSE
    sys.exit(cli.main())
