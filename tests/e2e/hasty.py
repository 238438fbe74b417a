"""The real program, but it waits for nothing longer than a moment: for what would take minutes to be given up."""

import sys

from ikigai.cli import main as cli
from ikigai.headless import run as oneshot
from ikigai.providers import retry
from ikigai.store import connection

if __name__ == "__main__":
    retry.FIRST = retry.CEILING = 0.01
    oneshot.PATIENCE = connection.REFUSED_AGAIN = 0.5
    sys.exit(cli.main())
