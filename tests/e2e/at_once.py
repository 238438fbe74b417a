"""Run the real program with a progress line from the first moment on, however fast the machine is."""

import sys

from ikigai.cli import main as cli
from ikigai.system import progress

if __name__ == "__main__":
    progress.QUIET_SECONDS = 0.0
    sys.exit(cli.main())
