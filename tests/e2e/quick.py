"""Run the real program with questions that a key answers almost at once, for tests that are not about that moment."""

import sys

from ikigai.cli import main as cli
from ikigai.terminal.output import dialog

SEEN_SECONDS = 0.05

if __name__ == "__main__":
    dialog.MIN_SEEN_SECONDS = SEEN_SECONDS
    sys.exit(cli.main())
