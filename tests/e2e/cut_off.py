"""Run the real program with a database that is away for a moment, just when the conversation is open."""

import sys

from ikigai.cli import main as cli
from ikigai.core.errors import Unavailable
from ikigai.store.agents.agents import Agents
from ikigai.store.database import Database


async def fail(*_: object) -> None:
    raise Unavailable("The database cannot be reached.")


if __name__ == "__main__":
    Database.prompts = Agents.names = fail  # type: ignore[assignment]
    sys.exit(cli.main())
