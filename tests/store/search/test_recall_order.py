"""Recall gives one order everywhere: in databases of other locales, in processes that hash and compute otherwise."""

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from random import Random

import psycopg
import pytest
from psycopg import conninfo

from ikigai.store.database import Database
from tests.conftest import MIGRATIONS, address
from tests.store.talk import Talk

QUESTIONS = (
    "topic3 harbor17 of the walrus",
    "öl Ärger zebra",
    "the and of",
    "海象 walrus морж",
    "straße Strasse i İ ı",
)
ASK = """
import asyncio, json, sys
from pathlib import Path
from ikigai.store.database import Database

async def ask(dsn, migrations, questions):
    database = await Database.open(dsn, Path(migrations))
    while await database.indexer.index_some():
        pass
    for question in json.loads(questions):
        turns = (await database.recall(question, limit=40)).turns
        print(json.dumps([[message.excerpt, message.score] for turn in turns for message in turn.messages]))
    await database.close()

asyncio.run(ask(*sys.argv[1:]))
"""


@pytest.fixture
def sorted_otherwise(server: str, dsn: str) -> Iterator[str]:
    """Yield the DSN of an empty database that knows the case of ASCII letters alone, and sorts by bytes."""
    name = f"{conninfo.conninfo_to_dict(dsn)['dbname']}_c"
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f"drop database if exists {name} with (force)".encode())
        admin.execute(
            f"create database {name} encoding 'UTF8' locale_provider libc locale 'C' template template0".encode()
        )
        yield address(server, dbname=name)
        admin.execute(f"drop database {name} with (force)".encode())


async def fill(dsn: str) -> None:
    database = await Database.open(dsn, MIGRATIONS)
    talk = await Talk.open(database)
    choose = Random(7).choice
    words = ["walrus", "zebra", "Öl", "ärger", "海象", "морж", "STRASSE", "straße", "ISTANBUL", "İzmir", "the", "of"]
    texts = [
        f"{choose(words)} topic{n % 7} {choose(words)} harbor{n % 31} {choose(words)}" if n % 5 else "walrus of topic3"
        for n in range(600)
    ]
    columns = "event_id, agent_id, seq, kind, content"
    insert = f"insert into ikigai.messages ({columns}) values (gen_random_uuid(), %s, %s, 'user', %s)"
    with psycopg.connect(dsn) as connection:
        rows = [(talk.agent.id, n + 1, text) for n, text in enumerate(texts)]
        connection.cursor().executemany(insert.encode(), rows)
    await talk.log.close()
    await database.close()


async def answers(dsn: str, **environment: str) -> list[str]:
    arguments = ("-c", ASK, dsn, str(MIGRATIONS), json.dumps(QUESTIONS))
    pipe = asyncio.subprocess.PIPE
    program = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, stdout=pipe, env=os.environ | environment
    )
    printed, _ = await program.communicate()
    assert program.returncode == 0
    return printed.decode().splitlines()


async def test_order_is_the_same_in_every_locale_and_process(dsn: str, sorted_otherwise: str) -> None:
    await fill(dsn)
    await fill(sorted_otherwise)
    here = await answers(dsn, PYTHONHASHSEED="1", LC_ALL="C", OPENBLAS_NUM_THREADS="1")
    there = await answers(sorted_otherwise, PYTHONHASHSEED="2", LC_ALL="C.UTF-8", OPENBLAS_NUM_THREADS="2")
    assert all(len(json.loads(line)) > 10 for line in here if line is not here[2]), "there is something to order"
    assert here == there
    assert await answers(dsn, PYTHONHASHSEED="3") == here, "the index was made by another process"
