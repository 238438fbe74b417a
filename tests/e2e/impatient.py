"""Run the real program with a short wait for a standard input on which nothing comes."""

import sys

from ikigai.cli import main as cli
from ikigai.headless import piped_input

if __name__ == "__main__":
    piped_input.NOTICE_SECONDS, piped_input.SILENT_SECONDS = 0.2, 0.6
    sys.exit(cli.main())
