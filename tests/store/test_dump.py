"""Dump and restore: everything there again, under the same ids, in a database that goes on as before."""

import asyncio
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from ikigai.core.errors import BadDatabase, IkigaiError, Rejected
from ikigai.core.events import events as ev
from ikigai.core.request.reply_draft import Draft
from ikigai.core.state.inputs import Clear, SetMark, Submitted
from ikigai.store.database import Database
from ikigai.store.embedded.account import server_account
from ikigai.store.embedded.server import find_binaries
from ikigai.store.transfer import dump, pg_programs
from tests.conftest import MIGRATIONS, address
from tests.store.talk import Talk
from tests.store.test_schema import NEWEST, analyzed, description, tables
from tests.support.starting import children

TABLES = {
    "agents": "select * from agents order by id",
    "messages": "select * from messages order by id",
    "drafts": "select * from drafts order by agent_id",
    "usage_hours": "select * from usage_hours order by agent_id, hour, model",
}


def contents(dsn: str) -> dict[str, list[tuple[object, ...]]]:
    with psycopg.connect(tables(dsn)) as other:
        return {name: other.execute(query.encode()).fetchall() for name, query in TABLES.items()}


@pytest.fixture
async def used(dsn: str) -> str:
    """DSN of a database with agents, forks, drafts, and every awkward text."""
    database = await Database.open(dsn, MIGRATIONS)
    talk = await Talk.open(database, await database.agents.create("root", "/a b/\\N"))
    for text in (
        "\\.",
        "\\.\n\\.\n",
        "\n\\.\n",
        "tab\tand\\back\nslash",
        "",
        "ž🐎",
        "COPY x (y) FROM stdin;\n",
        "x" * 300_000,
    ):
        await talk.turn(text or " ", text)
    await talk.happen(SetMark("m"))
    await talk.happen(Clear())
    fork = (await talk.log.append((ev.CommandRan("/status", "\\."),))).rows[0].id
    child = await database.agents.create("a-child", parent=talk.agent.id, forked_at=fork)
    grandchild = await database.agents.create("0-grandchild", parent=child.id, forked_at=0)
    for agent in (child, grandchild):
        other = await Talk.open(database, agent)
        await other.happen(Submitted("left open"))
        await other.log.save_draft(Draft(other.memory.open.last if other.memory.open else 0, "half\n\\.\n"))
    await database.close()
    return dsn


async def test_what_was_dumped_is_restored(used: str, empty_dsn: str, tmp_path: Path) -> None:
    file = tmp_path / "ikigai.dump"
    await dump.dump(used, find_binaries(), file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and [path.name for path in tmp_path.iterdir()] == ["ikigai.dump"]
    before = contents(used)
    assert await dump.restore(empty_dsn, find_binaries(), file, MIGRATIONS) == len(before["messages"]) > 30
    assert contents(empty_dsn) == before and len(before["drafts"]) == 2
    assert description(empty_dsn) == description(used) and analyzed(empty_dsn)
    with psycopg.connect(tables(empty_dsn)) as other, pytest.raises(psycopg.errors.RestrictViolation):
        other.execute("delete from messages")

    # It goes on: memory, recovery from the draft, and new ids behind the old ones.
    database = await Database.open(empty_dsn, MIGRATIONS)
    talk = await Talk.open(database, await database.agents.find("a-child"))
    history = await database.reader(talk.agent).history(None, 2)
    said = history[0].event
    assert isinstance(said, ev.AssistantMessage) and said.text == "half\n\\.\n" and said.interrupted
    assert history[0].id == max(row[0] for row in before["messages"]) + 1  # type: ignore[type-var]
    await database.close()


async def test_rows_come_back_in_any_order_and_with_their_gaps(used: str, empty_dsn: str, tmp_path: Path) -> None:
    with psycopg.connect(tables(used)) as other:  # purged rows lie behind the others, and older logs may have gaps
        other.execute("select set_config('ikigai.purge', pg_current_xact_id()::text, true)")
        other.execute("update messages set content = '[purged]' where seq in (1, 4)")
        other.execute("delete from messages where seq = 6")
    await dump.dump(used, find_binaries(), tmp_path / "d")
    await dump.restore(empty_dsn, find_binaries(), tmp_path / "d", MIGRATIONS)
    assert contents(empty_dsn) == contents(used)
    with psycopg.connect(tables(empty_dsn)) as other, pytest.raises(psycopg.errors.ExclusionViolation):
        other.execute("""
            insert into messages (event_id, agent_id, seq, kind)
            select gen_random_uuid(), agent_id, max(seq) + 2, 'user' from messages group by agent_id
        """)


async def test_into_a_schema_that_is_there_already(used: str, empty_dsn: str, tmp_path: Path) -> None:
    await dump.dump(used, find_binaries(), tmp_path / "d")
    await (await Database.open(empty_dsn, MIGRATIONS)).close()
    assert await dump.restore(empty_dsn, find_binaries(), tmp_path / "d", MIGRATIONS) > 0
    # A second time it is not empty any more.
    before = contents(empty_dsn)
    with pytest.raises(Rejected, match=r"The schema ikigai of the database .* holds agents already"):
        await dump.restore(empty_dsn, find_binaries(), tmp_path / "d", MIGRATIONS)
    assert contents(empty_dsn) == before == contents(used)


@pytest.mark.ordinary("3")
@pytest.mark.parametrize("size", [1, 3, 4, 1000])
async def test_in_pieces_of_any_size(
    dsn: str, empty_dsn: str, tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = await Database.open(dsn, MIGRATIONS)
    await (await Talk.open(database)).turn("\n\\.\n", "\\.")
    await database.close()
    await dump.dump(dsn, find_binaries(), tmp_path / "d")
    monkeypatch.setattr(dump, "READ_AT_ONCE", size)
    await dump.restore(empty_dsn, find_binaries(), tmp_path / "d", MIGRATIONS)
    assert contents(empty_dsn) == contents(dsn)


async def test_empty_one(dsn: str, empty_dsn: str, tmp_path: Path) -> None:
    await dump.dump(dsn, find_binaries(), tmp_path / "d")
    assert await dump.restore(empty_dsn, find_binaries(), tmp_path / "d", MIGRATIONS) == 0
    database = await Database.open(empty_dsn, MIGRATIONS)
    assert await database.agents.all() == []
    await (await Talk.open(database)).turn()
    await database.close()


async def test_through_the_standard_output_and_with_a_password(used: str, tmp_path: Path) -> None:
    """The password is nowhere in the arguments of any process."""
    code = "import asyncio, sys; from ikigai.store.transfer.dump import dump\n"
    code += "asyncio.run(dump(sys.stdin.read(), None, None))"
    seen = tmp_path / "seen"
    fake = tmp_path / "bin"
    fake.mkdir()
    (fake / "pg_dump").write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > {seen}\nexec {find_binaries() / "pg_dump"} "$@"\n')
    (fake / "pg_dump").chmod(0o755)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PATH": f"{fake}:{os.environ['PATH']}"},
    )  # fmt: skip
    archive, _ = await process.communicate(address(used, password="sw0rdfish").encode())
    assert process.returncode == 0 and archive.startswith(b"PGDMP")
    assert "--no-password" in seen.read_text() and "sw0rdfish" not in seen.read_text()


@pytest.mark.parametrize("version", [NEWEST - 1, NEWEST + 1])
async def test_dump_of_another_schema_is_refused(used: str, empty_dsn: str, tmp_path: Path, version: int) -> None:
    """Of an older one none is written, which nothing could restore."""
    with psycopg.connect(tables(used)) as other:
        other.execute("update ikigai_migrations set version = %s", (version,))
        command = [find_binaries() / "pg_dump", "-Fc", "-f", tmp_path / "d", used]
        if version < NEWEST:
            other.commit()
            with pytest.raises(BadDatabase, match=f"has schema {version}, and this ikigai"):
                await dump.dump(used, find_binaries(), tmp_path / "d")
            assert list(tmp_path.iterdir()) == []
            await asyncio.to_thread(subprocess.run, command, check=True)
    if version > NEWEST:
        await dump.dump(used, find_binaries(), tmp_path / "d")
    with pytest.raises(BadDatabase, match=f"has schema {version}, and this ikigai"):
        await dump.restore(empty_dsn, find_binaries(), tmp_path / "d", MIGRATIONS)
    assert description(empty_dsn) == "\n"


async def test_files_that_are_no_dumps(empty_dsn: str, used: str, tmp_path: Path) -> None:
    await dump.dump(used, find_binaries(), whole := tmp_path / "whole")
    broken = {
        "missing": None,
        "empty": b"",
        "text": b"hello\n" * 100,
        "sql": b"create table x (n int);\n",
        **{f"cut-{n}": whole.read_bytes()[: n * whole.stat().st_size // 10] for n in range(1, 10)},
        "cut-last": whole.read_bytes()[:-30],
        "spoilt": whole.read_bytes()[:-2000] + os.urandom(2000),
    }
    for name, data in broken.items():
        file = tmp_path / name
        if data is not None:
            file.write_bytes(data)
        with pytest.raises(IkigaiError) as refused:
            await dump.restore(empty_dsn, find_binaries(), file, MIGRATIONS)
        assert refused.value.what.endswith(".") and "Traceback" not in refused.value.what, name
        assert description(empty_dsn) == "\n", f"{name}: nothing is left, no empty table either"


async def test_restore_that_is_given_up_ends_the_program_that_reads_the_archive(tmp_path: Path) -> None:
    """The program has printed more than asyncio keeps."""
    endless = tmp_path / "pg_restore"
    endless.write_text("#!/bin/sh\necho 'COPY ikigai.messages (id) FROM stdin;'\nexec yes\n")
    endless.chmod(0o755)
    rows = dump._rows(str(endless), tmp_path / "archive", "messages", ["id"])
    async with asyncio.timeout(60):
        while not (await anext(rows)).startswith(b"y\n"):
            pass
        await asyncio.sleep(0.3)
        await rows.aclose()
    assert not children()


async def test_archive_that_does_not_say_its_schema(used: str, empty_dsn: str, tmp_path: Path) -> None:
    with psycopg.connect(tables(used)) as other:
        other.execute("delete from ikigai_migrations")
        other.commit()
    pg_dump = str(find_binaries() / "pg_dump")
    process = await asyncio.create_subprocess_exec(pg_dump, "--format=custom", f"--file={tmp_path / 'd'}", used)
    assert await process.wait() == 0
    with pytest.raises(Rejected, match="does not say which schema it has"):
        await dump.restore(empty_dsn, find_binaries(), tmp_path / "d", MIGRATIONS)
    assert description(empty_dsn) == "\n"


@pytest.fixture
def older_server() -> Iterator[str]:
    """Yield the DSN of an empty database on Debian's PostgreSQL 15; skips where that is not installed."""
    binaries = Path("/usr/lib/postgresql/15/bin")
    if not (binaries / "initdb").exists():
        pytest.skip("needs PostgreSQL 15 (Debian's package postgresql-15)")
    account = server_account()
    with tempfile.TemporaryDirectory(prefix="pg15-") as name:
        folder = Path(name)
        account.own(folder)
        data = str(folder / "data")
        made = account.run(
            [str(binaries / "initdb"), "-D", data, "-A", "trust", "-E", "UTF8", "--no-locale", "-U", "me"]
        )
        assert made.returncode == 0, made.stderr
        options = f"-c listen_addresses= -c unix_socket_directories={folder} -c fsync=off"
        pg_ctl = [str(binaries / "pg_ctl"), "-D", data, "-w", "-l", str(folder / "log")]
        started = account.run([*pg_ctl, "-o", options, "start"])
        assert started.returncode == 0, started.stderr
        try:
            yield f"host={folder} user=me dbname=postgres"
        finally:
            account.run([*pg_ctl, "-m", "immediate", "stop"])


async def test_from_the_embedded_version_to_15_and_back(
    used: str, empty_dsn: str, older_server: str, tmp_path: Path
) -> None:
    """The newest of the client programs at hand write and read the archives, whatever the servers are."""
    before = contents(used)
    await dump.dump(used, find_binaries(), tmp_path / "down")
    events = await dump.restore(older_server, find_binaries(), tmp_path / "down", MIGRATIONS)
    with psycopg.connect(older_server) as other:
        assert other.info.server_version // 10000 == 15 and events == len(before["messages"])
    database = await Database.open(older_server, MIGRATIONS)
    await (await Talk.open(database, await database.agents.find("root"))).turn("on 15")
    await database.close()
    moved = contents(older_server)
    await dump.dump(older_server, find_binaries(), tmp_path / "up")
    await dump.restore(empty_dsn, find_binaries(), tmp_path / "up", MIGRATIONS)
    assert contents(empty_dsn) == moved and len(moved["messages"]) > events


async def test_where_it_cannot_be_written(
    used: str, empty_dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(IkigaiError, match="cannot be written: No such file"):
        await dump.dump(used, find_binaries(), tmp_path / "no" / "such" / "folder")
    with pytest.raises(Rejected, match="is a folder"):
        await dump.dump(used, find_binaries(), tmp_path)
    with pytest.raises(Rejected, match="is not a regular file"):
        await dump.dump(used, find_binaries(), Path("/dev/null"), replace=True)
    with monkeypatch.context() as patched, pytest.raises(BadDatabase, match="not installed"):
        patched.setenv("PATH", str(tmp_path))
        await dump.dump(used, tmp_path, tmp_path / "d")
    with pytest.raises(Rejected, match="no tables of ikigai"):
        await dump.dump(empty_dsn, find_binaries(), tmp_path / "d")
    assert list(tmp_path.iterdir()) == []


async def test_dump_replaces_a_file_only_on_request(used: str, tmp_path: Path) -> None:
    (target := tmp_path / "d").write_text("yesterday's")
    with pytest.raises(Rejected, match="already exists") as refused:
        await dump.dump(used, find_binaries(), target)
    assert "--force" in refused.value.remedy and target.read_text() == "yesterday's"
    await dump.dump(used, find_binaries(), target, replace=True)
    assert target.read_bytes().startswith(b"PGDMP") and list(tmp_path.iterdir()) == [target]


async def test_programs_that_are_too_old(used: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest of those at hand are taken; where all are too old it is told, and the file that was there stays."""
    bin = tmp_path / "bin"
    bin.mkdir()
    for name in ("pg_dump", "pg_restore"):
        (bin / name).write_text(
            f'#!/bin/sh\n[ "$1" = --version ] && echo "{name} (PostgreSQL) 9.6.1" && exit\n'
            f'echo "{name}: error: aborting because of server version mismatch" >&2; exit 1\n'
        )
        (bin / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin}:/usr/bin:/bin")
    assert pg_programs.find_newest("pg_dump", find_binaries()) != str(bin / "pg_dump")
    (target := tmp_path / "d").write_text("yesterday's")
    with pytest.raises(BadDatabase, match="version mismatch") as refused:
        await dump.dump(used, bin, target, replace=True)
    assert "server's version or later" in refused.value.remedy and target.read_text() == "yesterday's"


async def test_to_a_schema_of_another_name_and_back(used: str, empty_dsn: str, tmp_path: Path) -> None:
    before = contents(used)
    await dump.dump(used, find_binaries(), tmp_path / "d")
    events = await dump.restore(empty_dsn, find_binaries(), tmp_path / "d", MIGRATIONS, schema_name="Other-One")
    with psycopg.connect(empty_dsn) as other:
        assert other.execute("select to_regclass('ikigai.agents')").fetchall() == [(None,)]
    await dump.dump(empty_dsn, find_binaries(), tmp_path / "back", schema_name="Other-One")
    assert await dump.restore(empty_dsn, find_binaries(), tmp_path / "back", MIGRATIONS) == events
    assert contents(empty_dsn) == before


async def test_agents_of_a_dump_are_those_of_who_restores_it(used: str, empty_dsn: str, tmp_path: Path) -> None:
    await dump.dump(used, find_binaries(), tmp_path / "d")
    await dump.restore(empty_dsn, find_binaries(), tmp_path / "d", MIGRATIONS)
    old, new = await Database.open(used, MIGRATIONS), await Database.open(empty_dsn, MIGRATIONS)
    for directory in ("", "/a b/\\N"):
        expected, found = await old.agents.last(directory), await new.agents.last(directory)
        assert expected and found and expected.id == found.id
    await old.close()
    await new.close()
