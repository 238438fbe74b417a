"""The real program with its own tools, and a place at which it kills itself: KILL_AT as in `toy`."""

import sys

from ikigai.cli import main as cli
from tests.e2e.toy import DyingLog

if __name__ == "__main__":
    import ikigai.store.database

    ikigai.store.database.AgentLog = DyingLog  # type: ignore[misc]
    sys.exit(cli.main())
