"""Tests of what `ikigai doctor` says of the database."""

import psycopg

from ikigai.cli.doctor.database import check_database
from ikigai.config import Config
from ikigai.config.records import DatabaseSettings
from ikigai.store.database import MAX_COUNTED_AGENTS


async def test_doctor_says_that_a_large_number_is_an_estimate(dsn: str) -> None:
    with psycopg.connect(dsn) as other:
        changed = "update pg_class set reltuples = %s where oid = 'ikigai.agents'::regclass"
        other.execute(changed, (MAX_COUNTED_AGENTS,))
    found = {each.about: each.said for each in await check_database(Config(database=DatabaseSettings(url=dsn)))}
    assert found["holds"].startswith("about 5,000 agents, 0 events, ")
