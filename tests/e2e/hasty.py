"""Run the real program with short waits, so that it soon gives up."""

import sys

from ikigai.cli import main as cli
from ikigai.headless import print_mode as oneshot
from ikigai.providers import retry
from ikigai.store.connection import connection

if __name__ == "__main__":
    retry.FIRST_DELAY = retry.MAX_DELAY = 0.01
    oneshot.DATABASE_TIMEOUT = connection.REFUSAL_RETRY_DELAY = 0.5
    sys.exit(cli.main())
