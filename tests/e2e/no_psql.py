"""The real program on a machine without psql."""

import sys

from ikigai.cli import main as cli
from ikigai.cli.commands import psql


async def nowhere() -> None:
    return None


if __name__ == "__main__":
    psql.find = nowhere
    sys.exit(cli.main())
