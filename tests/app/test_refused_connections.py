"""A database that lets nobody in for a while: an agent that was connected goes on by itself when it does again."""

import asyncio
import os
import shutil
import signal
from pathlib import Path

import psycopg
import pytest
from psycopg import conninfo

from ikigai.agent import db_retry
from ikigai.agent.loop_options import LoopOptions
from ikigai.core.errors import Misconfigured, Unavailable
from ikigai.core.state.inputs import Submitted
from ikigai.providers.scripted import ScriptedPause
from ikigai.store.connection import connection
from ikigai.store.database import Database
from ikigai.store.embedded import location
from ikigai.store.embedded import server as embedded
from tests.agent.test_loop import Watcher
from tests.app.test_agent_manager import joined, plays, sailing, until
from tests.conftest import MIGRATIONS
from tests.conftest import address as changed
from tests.store.proxy import proxied
from tests.support.invariants import check

PASSING = [
    ("08P01", "server login has been failing, try again later (server_login_retry)", "server login has been failing"),
    ("08P01", "no more connections allowed (max_client_conn)", "has no free connection"),
    ("53100", "could not write init file: No space left on device", "The disk of the database"),
    ("53200", "out of memory", "is out of memory"),
    ("53300", "sorry, too many clients already", "has no free connection"),
    ("55000", 'database "ikigai" is not currently accepting connections', "not currently accepting connections"),
    ("57014", "canceling authentication due to timeout", "timed out"),
    ("57P01", "terminating connection due to administrator command", "was shut down"),
    ("57P03", "the database system is starting up", "is not ready yet"),
    ("58030", 'could not read file "global/1262": Input/output error', "cannot use its files"),
    ("XX000", "could not find tuple for database 16384", "accepts no logins now: could not find tuple"),
    ("53100", "Auf dem Gerät ist kein Speicherplatz mehr verfügbar", "The disk of the database"),
    ("53300", "извините, уже слишком много клиентов", "has no free connection"),
    ("XX000", "не удалось найти кортеж для базы данных 16384", "accepts no logins now: не удалось найти"),
]
"""SQLSTATE and text of refusals that may pass, and what the user is told of each."""
WRONG = [
    ("28P01", 'password authentication failed for user "me"', "did not accept the password"),
    ("08P01", "server login has been failing, cached error: password authentication failed", "did not accept the pass"),
    ("28000", 'role "me" does not exist', "There is no user"),
    ("28000", 'role "me" is not permitted to log in', "refused user"),
    ("28000", 'no pg_hba.conf entry for host "10.0.0.1", user "me", database "db"', "refused user"),
    ("42501", 'permission denied for database "ikigai"', "refused user"),
    ("3D000", 'database "ikigai" does not exist', "There is no database"),
    ("28P01", 'пользователь "me" не прошёл проверку подлинности (по паролю)', "did not accept the password"),
    ("28000", "Rolle »me« existiert nicht", "ikigai: Rolle »me« existiert nicht"),
    ("3D000", 'データベース"ikigai"は存在しません', "There is no database"),
    ("42501", "droit refusé pour la base de données « ikigai »", "refused user"),
]
"""The connection errors that last until the user repairs something."""


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is waited for longer than a moment; what the database does not take is kept in a file of the test's."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(db_retry, "RETRY_AFTER", (0.02,))
    monkeypatch.setattr(connection, "REFUSAL_RETRY_DELAY", 0.2)


@pytest.mark.parametrize(("code", "text", "words"), PASSING + WRONG)
async def test_start_says_what_may_pass_and_what_has_to_be_mended(dsn: str, code: str, text: str, words: str) -> None:
    passes = (code, text, words) in PASSING
    async with proxied(dsn) as (proxy, through):
        proxy.refuse(code, text)
        with pytest.raises(Unavailable if passes else Misconfigured) as refused:
            await Database.open(through, MIGRATIONS)
    assert words in refused.value.what and refused.value.exit_code == (75 if passes else 2)
    assert not passes or "address" not in refused.value.remedy


@pytest.mark.parametrize("option", ["nonsense=1", "work_mem=lots"])
async def test_parameter_that_no_server_takes_is_told_at_the_start(dsn: str, option: str) -> None:
    with pytest.raises(Misconfigured, match="refused user") as refused:
        await Database.open(changed(dsn, options=f"-c {option}"), MIGRATIONS)
    assert option.partition("=")[0] in refused.value.what and "address" in refused.value.remedy


@pytest.mark.ordinary("53300-sorry*", "57P03-*", "28P01-password*", "42501-permission*")
@pytest.mark.parametrize(("code", "text", "words"), PASSING + WRONG)
async def test_agent_waits_until_it_is_let_in_again(dsn: str, code: str, text: str, words: str) -> None:
    front, lost = Watcher(), list[str]()
    async with proxied(dsn) as (proxy, through):
        database = await Database.open(through, MIGRATIONS)
        async with sailing(database, on_lost=lambda member, why: lost.append(why)) as manager:
            plays(manager, ("Half ", ScriptedPause(0.3), "and whole."), "Next.")
            member = await joined(manager, front=front)
            member.agent_loop.put_input(Submitted("first"))
            await until(lambda: front.told("live"))
            proxy.refuse(code, text)
            await until(lambda: proxy.refused > 1 and front.told("notice"))
            member.agent_loop.put_input(Submitted("second"))
            proxy.refuse()
            await until(lambda: not member.agent_loop.busy and len(front.told("assistant")) == 2)
            assert member.loop_task and not member.loop_task.done()
        await database.close()
    *_, first, back = front.told("notice")
    assert words in first and "Unsaved messages are kept in memory" in first and "The database is back" in back
    assert ("tries again every minute" in first) == ((code, text, words) in WRONG)
    assert not lost and front.told("away") == [True, False]
    check(dsn)
    with psycopg.connect(dsn) as other:
        rows = other.execute("select kind, content from messages order by id").fetchall()
    assert [text for kind, text in rows if kind in ("user", "assistant")] == [
        "first", "Half and whole.", "second", "Next."
    ]  # fmt: skip
    assert sum(kind == "turn_end" for kind, _ in rows) == 2


REALLY = [
    ("alter database {database} allow_connections false", "alter database {database} allow_connections true"),
    ("alter role {role} nologin", "alter role {role} login"),
    ("alter role {role} rename to {role}_gone", "alter role {role}_gone rename to {role}"),
    (
        "alter database {database} rename to {database}_gone",
        "alter database {database}_gone rename to {database}",
    ),
    ("revoke insert on ikigai.messages from {role}", "grant insert on ikigai.messages to {role}"),
    ("alter table ikigai.messages rename to gone", "alter table ikigai.gone rename to messages"),
    (
        "alter database {database} set default_transaction_read_only = on",
        "set transaction read write; alter database {database} reset default_transaction_read_only",
    ),
]
"""Statements that make a real server refuse connections, and those that undo them."""


# The codes of servers in long runs are also in test_start_says_what_may_pass_and_what_has_to_be_mended.
@pytest.mark.ordinary("alter role * nologin-*", "revoke *", "alter table *", "*read_only = on-*")
@pytest.mark.parametrize(("off", "on"), REALLY)
async def test_agent_goes_on_when_a_real_server_lets_it(dsn: str, server: str, role: str, off: str, on: str) -> None:
    given = conninfo.conninfo_to_dict(role)
    names = {"database": str(given["dbname"]), "role": str(given["user"])}
    where = dsn if "messages" in off else server

    def told(*statements: str) -> None:
        with psycopg.connect(where, autocommit=True) as admin:
            for statement in statements:
                admin.execute(statement.format(**names).encode())

    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute("grant usage on schema ikigai to {role}".format(**names).encode())
        admin.execute("grant all on all tables in schema ikigai to {role}".format(**names).encode())
    front, lost = Watcher(), list[str]()
    database = await Database.open(role, MIGRATIONS)
    async with sailing(database, on_lost=lambda member, why: lost.append(why)) as manager:
        member = await joined(manager, front=front)
        await until(lambda: member.agent_loop.opened.is_set() and not member.agent_loop.checks_mail)
        end = "select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = '{database}'"
        told(*([off] if where == dsn else [end, off, end]))
        member.agent_loop.put_input(Submitted("kept"))
        await until(lambda: front.told("notice"))
        told(on)
        await until(lambda: front.told("assistant") == ["kept"] and not member.agent_loop.busy)
    await database.close()
    assert not lost and "The database is back" in front.told("notice")[-1]
    check(dsn)


async def test_server_that_does_not_let_in_is_asked_once_a_minute(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "REFUSAL_RETRY_DELAY", 60.0)
    async with proxied(dsn) as (proxy, through):
        database = await Database.open(through, MIGRATIONS)
        proxy.refuse(*WRONG[0][:2])
        await until(lambda: not proxy.writers)
        for _ in range(5):
            with pytest.raises(Misconfigured, match="did not accept the password"):
                await database.agents.all()
        assert proxy.refused == 1
        proxy.refuse()
        with pytest.raises(Misconfigured):
            await database.agents.all()
        monkeypatch.setattr(connection, "REFUSAL_RETRY_DELAY", 0.0)  # a minute later
        assert await database.agents.all() == []
        await database.close()


async def test_print_mode_says_what_has_to_be_mended_and_ends(dsn: str) -> None:
    """Its patience has an end."""
    async with proxied(dsn) as (proxy, through):
        database = await Database.open(through, MIGRATIONS)
        async with sailing(database, keeps=True, options=LoopOptions(db_timeout=0.5)) as manager:
            member = await joined(manager)
            await until(lambda: member.agent_loop.opened.is_set() and not member.agent_loop.checks_mail)
            proxy.refuse(*WRONG[0][:2])
            member.agent_loop.put_input(Submitted("lost"))
            assert member.loop_task
            with pytest.raises(Misconfigured) as refused:
                await member.loop_task
            assert refused.value.exit_code == 2
            proxy.refuse()
        await database.close()


async def test_agent_goes_on_when_the_embedded_server_can_be_started_again(tmp_path: Path) -> None:
    """Its server was killed, and for a while its settings keep it from starting."""
    lease = embedded.start(tmp_path)
    folder = location.folder_of(tmp_path)
    settings = folder / "data" / "postgresql.auto.conf"
    front, lost, before = Watcher(), list[str](), settings.read_text()
    try:
        database = await Database.open(lease.dsn, MIGRATIONS, revive=lambda: asyncio.to_thread(lease.renew))
        async with sailing(database, on_lost=lambda member, why: lost.append(why)) as manager:
            member = await joined(manager, front=front)
            await until(lambda: member.agent_loop.opened.is_set() and not member.agent_loop.checks_mail)
            settings.write_text("work_mem = lots\n")
            session = database._session
            connection = (await session._ensure_connected())[0]
            os.kill(int((folder / "data" / "postmaster.pid").read_text().split()[0]), signal.SIGKILL)
            # The server process of the connection lives for a moment longer, and could still store the message.
            async with asyncio.timeout(60):
                while await session.is_connected_by(connection):
                    await asyncio.sleep(0.01)
            member.agent_loop.put_input(Submitted("kept"))
            await until(lambda: any("could not start" in told for told in front.told("notice")), seconds=60)
            settings.write_text(before)
            await until(lambda: front.told("assistant") == ["kept"] and not member.agent_loop.busy, seconds=60)
        await database.close()
    finally:
        lease.close()
        await until(lambda: not embedded.is_running(tmp_path))
        shutil.rmtree(folder, ignore_errors=True)
    assert not lost and "ikigai tries again every minute." in front.told("notice")[-2]


async def test_outage_that_ends_in_a_wrong_password_is_told_twice(dsn: str) -> None:
    front = Watcher()
    async with proxied(dsn) as (proxy, through):
        database = await Database.open(through, MIGRATIONS)
        async with sailing(database) as manager:
            member = await joined(manager, front=front)
            await until(lambda: member.agent_loop.opened.is_set() and not member.agent_loop.checks_mail)
            for code, text, _ in (PASSING[8], WRONG[0]):
                proxy.refuse(code, text)
                before = len(front.told("notice"))
                member.agent_loop.put_input(Submitted(code))
                await until(lambda before=before: len(front.told("notice")) > before)
                already = proxy.refused
                await until(lambda already=already: proxy.refused > already)
            proxy.refuse()
            await until(lambda: len(front.told("assistant")) == 2)
        await database.close()
    words = ["is not ready yet", "did not accept the password", "The database is back"]
    told = front.told("notice")
    assert len(told) == 3 and all(word in each for word, each in zip(words, told, strict=True))
    assert front.told("away") == [True, False]


@pytest.mark.parametrize("hello", [False, True])
async def test_tls_that_ends_while_it_is_made_may_pass(hello: bool) -> None:
    """As when a server goes down, or over to another one; with `hello` the client's greeting was read."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(8)
        writer.write(b"S")
        await writer.drain()
        if hello:
            await reader.read(4096)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(Unavailable) as refused:
            await Database.open(f"host=127.0.0.1 port={port} user=me dbname=d sslmode=require", MIGRATIONS)
    assert refused.value.exit_code == 75
