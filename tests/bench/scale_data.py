"""This module makes databases of any number of events for SCALE: a few conversations, copied on the server.

Each copy is an agent of its own, which follows on the one before it, and has a word of its own. The index of words is
built in bulk, by the program's own keys; the sums of usage grow with each row. A conversation twice as long spans twice
the time.
"""

import asyncio
import sys
import time
from datetime import timedelta
from typing import NamedTuple

import psycopg

from ikigai.core.codec import SEARCHED_KINDS
from ikigai.core.search import lexer
from ikigai.store.database import Database
from ikigai.store.search.packs import SegmentPack
from ikigai.store.search.word_keys import SEGMENT_BITS, agent_key, kind_key, segment_of, segment_prefix
from ikigai.store.sql import dump as dump_queries
from ikigai.store.sql import search
from ikigai.store.sql import word_packs as packs
from tests.bench import generator, histories

VERSION = 2
"""Version of what `fill` writes. Databases of another version are made anew."""
TEMPLATES, TEMPLATE_EVENTS = 8, 1_000
"""Conversations that are copied, and the events of each."""
GAP_SECONDS = 40_000
"""Seconds from the beginning of one agent to that of the next."""

STEMMED_AGENTS = 150
"""Agents whose stems are indexed, more than a large part of them: the program does it itself, and that takes long."""
PREPARE = """
create unlogged table bench_template
  (template integer, seq integer, at float8, kind text, content text, data jsonb, primary key (template, seq));
create unlogged table bench_agents (n integer primary key, id uuid, first bigint, template integer, began timestamptz);
"""
AGENTS = """
insert into bench_agents select n, gen_random_uuid(), n::bigint * %(events)s, n %% %(templates)s,
  now() - make_interval(secs => (%(agents)s - n) * %(gap)s::float8) from generate_series(0, %(agents)s - 1) n;
"""
# A third of the agents are forks of the one before.
ADD_AGENTS = """
insert into agents (id, name, parent, forked_at, directory, created_at, last_used_at)
select own.id, 'agent-' || own.n, above.id, case when above.id is not null then own.first end, '/work/' || own.n % 20,
       own.began, own.began + interval '10 hours'
from bench_agents own left join bench_agents above on above.n = own.n - 1 and own.n % 3 = 2 order by own.n
"""
ADD_USES = """
insert into agent_uses (role, agent_id, directory, used_at)
select session_user, id, directory, last_used_at from agents order by last_used_at
"""
ADD_EVENTS = """
insert into messages (id, event_id, agent_id, seq, kind, content, data, created_at) overriding system value
select first + seq, gen_random_uuid(), id, seq, kind,
       case when seq = %(owned)s then content || ' own' || n || 'word' else content end,
       case when data ? 'first' then data || jsonb_build_object('first', (data ->> 'first')::bigint + first)
       else data end,
       began + make_interval(secs => at)
from bench_agents join bench_template using (template) where n between %(from)s and %(to)s order by n, seq
"""
FINISH = """
insert into search_progress (agent_id, seq) select id, %(events)s from bench_agents;
delete from search_behind
where index_name = 'words'
   or index_name = 'stems' and agent_id not in (select id from bench_agents where n < %(stemmed)s);
drop table bench_template, bench_agents;
"""


class _Template(NamedTuple):
    """A conversation: by `seq` when an event was, in seconds, and its pieces with their keys."""

    times: dict[int, float]
    pieces: dict[int, list[tuple[int, int, tuple[str, ...]]]]
    owned: int


def fill(dsn: str, events: int) -> None:
    """Fill a database that holds the schema and nothing else with about `events` events."""
    agents, began = max(4, events // TEMPLATE_EVENTS), time.monotonic()
    print(f"Making {agents * TEMPLATE_EVENTS:,} events of {agents:,} agents …", file=sys.stderr, flush=True)
    which = {"events": TEMPLATE_EVENTS, "templates": TEMPLATES, "agents": agents, "gap": GAP_SECONDS}
    which |= {"stemmed": STEMMED_AGENTS}
    with psycopg.connect(dsn, autocommit=True, options="-c search_path=ikigai") as connection:
        connection.execute(
            "set statement_timeout = 0; set maintenance_work_mem = '512MB'; set synchronous_commit = off"
        )
        connection.execute(PREPARE.encode())
        templates = _copy_templates(connection)
        connection.execute("analyze bench_template")
        connection.execute(AGENTS, which, prepare=False)
        connection.execute(ADD_AGENTS)
        connection.execute(ADD_USES)
        step = 100
        for first in range(0, agents, step):
            part = {"from": first, "to": first + step - 1, "owned": templates[0].owned}
            connection.execute(ADD_EVENTS, part, prepare=False)
        _index_words(connection, templates, agents)
        for statement in FINISH.split(";\n"):
            if statement.strip():
                connection.execute(statement.encode(), which if "%(" in statement else None)
        connection.execute(dump_queries.SET_IDENTITY)
    asyncio.run(_finish(dsn))
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("set statement_timeout = 0")
        connection.execute("vacuum (analyze)")
        asyncio.run(_rewrite(dsn))
        connection.execute("checkpoint")
    print(f"… made in {time.monotonic() - began:.0f} s.", file=sys.stderr, flush=True)


def _copy_templates(connection: psycopg.Connection) -> list[_Template]:
    found: list[_Template] = []
    for template in range(TEMPLATES):
        rows = list(generator.history(TEMPLATE_EVENTS, seed=template, early=0))
        with connection.cursor().copy("copy bench_template from stdin") as copy:
            for row in rows:
                copy.write_row((template, row.seq, row.at - rows[0].at, row.kind, row.content, row.data))
        pieces = {
            row.seq: [
                (start, len(piece), (kind_key(row.kind), *lexer.index_keys(lexer.fold(piece))))
                for start, piece in _pieces(row.kind, row.content)
            ]
            for row in rows
        }
        times = {row.seq: row.at - rows[0].at for row in rows}
        found.append(_Template(times, pieces, min(row.seq for row in rows if row.kind == "user")))
    owned = min(each.owned for each in found)
    return [each._replace(owned=owned) for each in found]


def _index_words(connection: psycopg.Connection, templates: list[_Template], agents: int) -> None:
    """Pack all segments but the last one, as the program packs them."""
    rows = connection.execute("select n, id::text, began from bench_agents").fetchall()
    known = {n: (agent_key(id), began) for n, id, began in rows}
    last = segment_of(agents * TEMPLATE_EVENTS)
    for segment in range(last + 1):
        pack, unpacked, newest_at = SegmentPack(), list[tuple[object, ...]](), None
        first, end = segment << SEGMENT_BITS, segment + 1 << SEGMENT_BITS
        for id in range(max(first, 1), min(end, agents * TEMPLATE_EVENTS + 1)):
            n, seq = (id - 1) // TEMPLATE_EVENTS, (id - 1) % TEMPLATE_EVENTS + 1
            template, (agent, began) = templates[n % TEMPLATES], known[n]
            newest_at = began + timedelta(seconds=template.times[seq])
            for start, length, keys in template.pieces[seq]:
                own = (f"own{n}word",) * (seq == template.owned and not start)
                if segment < last:
                    pack.add(id - first, start, length, (agent, *keys, *own))
                else:
                    terms = " ".join(segment_prefix(segment) + key for key in (agent, *keys, *own))
                    unpacked.append((id, start, length, newest_at, terms))
        if segment < last:
            connection.execute(packs.ADD_SEGMENT, (segment, newest_at, pack.pack_pieces()))
            columns = [list(column) for column in zip(*pack.pack_words(), strict=True)]
            connection.execute(packs.ADD_BLOCKS, (0, segment, *columns), prepare=False)
        elif unpacked:
            columns = [list(column) for column in zip(*unpacked, strict=True)]
            connection.execute(search.ADD_PIECES, columns, prepare=False)
            connection.execute(search.ADD_SEGMENTS, ([segment], [newest_at]))


def _pieces(kind: str, content: str | None) -> list[tuple[int, str]]:
    if kind not in SEARCHED_KINDS:
        return []
    return [(at, text) for at, text in lexer.split_pieces(lexer.searchable_text(kind, content or "")) if text.strip()]


async def _rewrite(dsn: str) -> None:
    """Free the room that filling the index of stems has left, as the program does at its end."""
    database = await Database.open(dsn, histories.MIGRATIONS)
    try:
        await database.indexer.packer.rewrite()
    finally:
        await database.close()


async def _finish(dsn: str) -> None:
    """Merge the packs and index stems, as the program does."""
    database = await Database.open(dsn, histories.MIGRATIONS)
    try:
        while await database.indexer.packer.merge_some():
            pass
        while await database.indexer.stems.index_some():
            pass
        while await database.indexer.stems.unlist_some():
            pass
        while await database.indexer.join_some():
            pass
    finally:
        await database.close()
