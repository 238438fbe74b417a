"""Run the real program with its own tools; it kills itself at a place: KILL_AT as in `toy`."""

import sys

from ikigai.cli import main as cli
from tests.e2e.toy import DyingLog

if __name__ == "__main__":
    import ikigai.store.log.write_access

    ikigai.store.log.write_access.AgentLog = DyingLog  # type: ignore[misc]
    sys.exit(cli.main())
