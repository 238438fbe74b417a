"""With `durability = "replicated"` nothing counts as stored before a standby has it."""

import asyncio
from typing import LiteralString

import pytest

from ikigai.core.errors import Misconfigured, Unavailable
from ikigai.core.events import events as ev
from ikigai.store.database import Database
from tests.conftest import LEAVE, MIGRATIONS
from tests.support.cluster import Cluster, running_cluster, wait_until


def set_standbys(cluster: Cluster, names: LiteralString) -> None:
    """Set the standbys for which the primary waits, and wait until new connections know it."""
    with cluster.connect(0) as admin:
        admin.execute(f"alter system set synchronous_standby_names = '{names}'")
        admin.execute("select pg_reload_conf()")

    def is_set() -> bool:
        with cluster.connect(0) as other:
            return other.execute("show synchronous_standby_names").fetchall() == [(names,)]

    wait_until(is_set)


async def test_commits_wait_for_the_standby_and_count_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with running_cluster(2) as cluster:
        with pytest.raises(Misconfigured, match=r"has no synchronous standby, which .* durability asks for"):
            await Database.open(cluster.dsn, MIGRATIONS, replicated=True)
        set_standbys(cluster, "*")
        with cluster.connect(0) as admin:
            # What a role or a database was given does not count: the program asks for more.
            admin.execute("alter database ikigai set synchronous_commit = 'local'")
        database = await Database.open(cluster.dsn, MIGRATIONS, replicated=True)
        log = await database.open_agent(await database.agents.create("a"))
        await log.append((ev.Marked("both"),))
        assert await database.standbys() == "*"
        cluster.kill(1)
        monkeypatch.setattr(database._session, "_deadline", 1.5)
        waits = (ev.Marked("waits"),)
        for _ in range(2):  # the second time its row is in the log already
            with pytest.raises(Unavailable, match=r"has not answered for 1.5 s; its standby may be away. Start the"):
                await log.append(waits)
        assert log.tail and log.tail.newest == 1
        monkeypatch.setattr(database._session, "_deadline", 60)
        appending = asyncio.create_task(log.append(waits))
        await asyncio.to_thread(cluster.start, 1)
        (row,) = (await appending).rows
        assert (row.seq, row.event) == (2, waits[0])
        with cluster.connect(0) as admin:
            query = "select content from ikigai.messages order by seq"
            assert admin.execute(query).fetchall() == [("both",), ("waits",)]
            set_standbys(cluster, "")  # as a server that took over and waits for its first standby
            admin.execute(LEAVE)
            last = (ev.Marked("last"),)
            with pytest.raises(Unavailable, match="has no synchronous standby"):
                await log.append(last)
            set_standbys(cluster, "*")
            await log.append(last)
            assert admin.execute(query).fetchall() == [("both",), ("waits",), ("last",)]
            for setting, used in (("off", "on"), ("remote_apply", "remote_apply")):  # which asks for more
                admin.execute(f"alter database ikigai set synchronous_commit = '{setting}'".encode())
                other = await Database.open(cluster.dsn, MIGRATIONS, replicated=True)
                async with other._session.use() as cursor:
                    await cursor.execute("show synchronous_commit")
                    assert await cursor.fetchall() == [(used,)]
                await other.close()
        await database.close()
