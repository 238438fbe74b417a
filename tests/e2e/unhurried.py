"""Run the real program with an SDK that only a key loads, or a request, and no time."""

import sys

from ikigai.cli import main as cli
from ikigai.repl import repl

if __name__ == "__main__":
    repl.PRELOAD_DELAY_SECONDS = 3600.0
    sys.exit(cli.main())
