"""After a purge no byte below the embedded server's folder holds the text, and a restart finds the rest."""

import asyncio
import os
import shutil
from pathlib import Path

import psycopg

from ikigai.core.events import events as ev
from ikigai.core.events.messages import Image
from ikigai.core.relocation.redact import PurgeTarget
from ikigai.core.request.reply_draft import Draft
from ikigai.store.database import Database
from ikigai.store.embedded import location as embedded_place
from ikigai.store.embedded import server as embedded
from tests.conftest import MIGRATIONS
from tests.store.talk import Talk

MARKER = "sk-canary-of-a-streamed-reply-0123456789"
EVERYTHING = ((0, 2**63 - 1),)


def holding(folder: Path) -> list[str]:
    """The files below the folder whose bytes hold the marker."""
    found = list[str]()
    for file in folder.rglob("*"):
        try:
            if file.is_file() and MARKER.encode() in file.read_bytes():
                found.append(str(file.relative_to(folder)))
        except FileNotFoundError:
            continue  # the server removes files
    return sorted(found)


def recycle(folder: Path, connection: psycopg.Connection) -> None:
    """Leave the bytes of a written segment under a name ahead, as a server that recycles segments does."""
    (row,) = connection.execute(
        "select pg_walfile_name(pg_current_wal_insert_lsn()),"
        " pg_walfile_name(pg_current_wal_insert_lsn() + 32 * 1024 * 1024)"
    ).fetchall()
    written, ahead = folder / row[0], folder / row[1]
    owner = written.stat()
    shutil.copy(written, ahead)
    os.chown(ahead, owner.st_uid, owner.st_gid)
    assert MARKER.encode() in ahead.read_bytes()


async def stream(talk: Talk, said: str) -> None:
    """Save a reply as it streams, then delete the draft with the event that stores a reply without the marker."""
    (asked,) = (await talk.log.append((ev.UserMessage("?", (Image("image/png", "aGk=", 1, 1, "x.png"),)),))).rows
    for part in (said, f"{said} and on"):
        await talk.log.save_draft(Draft(asked.id, part, "thinking"))
    await talk.log.append((ev.AssistantMessage(),))


async def purge(database: Database) -> None:
    task = database.purge(PurgeTarget(MARKER), EVERYTHING)
    await task.carry_out(await task.find())
    for done in await task.rewrite():
        assert not done.why and not done.kept, done
    assert await task.clear_write_ahead_log() == ""


async def test_purge_leaves_no_byte_of_a_streamed_reply(data_dir: Path, lease: embedded.Lease) -> None:
    folder = embedded_place.folder_of(data_dir)
    database = await Database.open(lease.dsn, MIGRATIONS, revive=lambda: asyncio.to_thread(lease.renew))
    try:
        talk = await Talk.open(database)
        await stream(talk, f"the output was {MARKER}")
        with psycopg.connect(lease.dsn, autocommit=True) as other:
            other.execute("checkpoint")
        assert any("base/" in name for name in holding(folder)) and any("pg_wal/" in name for name in holding(folder))
        await purge(database)
        assert holding(folder) == []
    finally:
        await database.close()


async def test_purge_leaves_no_byte_of_messages_samples_and_recycled_segments(
    data_dir: Path,
    lease: embedded.Lease,
) -> None:
    folder = embedded_place.folder_of(data_dir)
    database = await Database.open(lease.dsn, MIGRATIONS, revive=lambda: asyncio.to_thread(lease.renew))
    try:
        talk = await Talk.open(database)
        for number in range(30):
            await talk.turn(f"my key is {MARKER} {number}", f"{MARKER} " * 2_000)
        await talk.log.append((ev.CommandRan("/status", MARKER),))
        await talk.log.close()
        while await database.indexer.index_some():
            pass
        with psycopg.connect(lease.dsn, autocommit=True) as other:
            other.execute("analyze")
            recycle(folder / "data" / "pg_wal", other)
            other.execute("checkpoint")
        await purge(database)
        assert holding(folder) == []
        with psycopg.connect(lease.dsn, autocommit=True) as other:
            assert other.execute("show wal_recycle").fetchone() == ("off",)
            kept = other.execute("select count(*) from messages where content like '%[purged]%'").fetchone()
        assert kept and kept[0] >= 60
    finally:
        await database.close()
