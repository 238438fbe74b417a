"""Tests of the report of usage by user."""

import argparse

from ikigai.app.plots.data import gather_data
from ikigai.app.usage_report import report_usage
from ikigai.config import Config
from ikigai.core import events as ev
from ikigai.store.address import this_user
from ikigai.store.database import Database
from tests.conftest import MIGRATIONS


async def by_user(database: Database, limit: int | None = None) -> list[str]:
    values = {"agent": None, "since": None, "cache": False, "by": "user", "limit": limit, "csv": True, "json": False}
    text = await report_usage(database, argparse.Namespace(**values))
    assert isinstance(text, str)
    return [",".join(line.split(",")[:2]) for line in text.splitlines()]


async def test_only_user_of_an_embedded_server_is_named_and_not_its_role(dsn: str) -> None:
    """Agents of the time before a name was configured belong to the role, others to that name."""

    async def revive() -> str:
        return dsn

    for name, requests in (("", 1), ("anna", 2)):
        database = await Database.open(dsn, MIGRATIONS, revive=revive, user=name)
        log = await database.open_agent(await database.agents.create())
        await log.append((ev.UsageReported("a/b", cost=1.0),))
        assert await by_user(database) == ["user,requests", f"{name or this_user()},{requests}"]
        assert await by_user(database, 1) == await by_user(database)
        assert [user for user, _ in (await gather_data(database, Config(), "user")).rows] == [name or this_user()]
        await database.close()


async def test_users_of_a_shared_server_have_the_names_that_they_have_there(dsn: str) -> None:
    database = await Database.open(dsn, MIGRATIONS, user="anna")
    log = await database.open_agent(await database.agents.create())
    await log.append((ev.UsageReported("a/b", cost=1.0),))
    role = database.place.user
    async with database._session.use() as cursor:
        await cursor.execute("update agents set owner_user = ''")
    assert await by_user(database) == ["user,requests", f"{role},1"]
    await database.close()
