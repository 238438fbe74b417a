"""This module makes databases of any number of events for SCALE: a few conversations, copied on the server.

Each copy is an agent of its own, which follows on the one before it, and has a word of its own. The index of words is
built in bulk, by the program's own keys, and the sums of usage by the program. A conversation twice as long spans twice
the time.
"""

import asyncio
import sys
import time

import psycopg

from ikigai.core.codec import SEARCHED_KINDS
from ikigai.core.search import lexer
from ikigai.store.database import Database
from ikigai.store.search.indexer import kind_key
from ikigai.store.sql import dump as dump_queries
from tests.bench import generator, histories

TEMPLATES, TEMPLATE_EVENTS = 8, 1_000
"""Conversations that are copied, and the events of each."""
GAP_SECONDS = 40_000
"""Seconds from the beginning of one agent to that of the next."""

# Three letters for the stretch of ids, as `indexer.segment_prefix` has them.
_LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz+-"
_PREFIX = "".join(f"|| substr('{_LETTERS}', ((id >> 14) >> {shift} & 63)::integer + 1, 1)" for shift in (12, 6, 0))[3:]
PREPARE = f"""
create unlogged table bench_template
  (template integer, seq integer, at float8, kind text, content text, data jsonb, primary key (template, seq));
create unlogged table bench_pieces (template integer, seq integer, start integer, length integer, keys text[]);
create unlogged table bench_agents (n integer primary key, id uuid, first bigint, template integer, began timestamptz);
create function bench_prefix(id bigint) returns text language sql immutable return {_PREFIX};
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
ADD_EVENTS = """
insert into messages (id, event_id, agent_id, seq, kind, content, data, created_at) overriding system value
select first + seq, gen_random_uuid(), id, seq, kind,
       case when seq = %(owned)s then content || ' own' || n || 'word' else content end,
       case when data ? 'first' then data || jsonb_build_object('first', (data ->> 'first')::bigint + first)
       else data end,
       began + make_interval(secs => at)
from bench_agents join bench_template using (template) where n between %(from)s and %(to)s order by n, seq
"""
ADD_PIECES = """
insert into search_pieces (message, start, length, at, terms)
select message, start, length, at, array_to_tsvector(array(
  select bench_prefix(message) || key from unnest(keys || ('@' || left(agent::text, 8))) as key
  union all select bench_prefix(message) || 'own' || n || 'word' where owned
)) from (
  select first + piece.seq as message, start, length, began + make_interval(secs => event.at) as at, keys, id as agent,
         n, event.seq = %(owned)s and start = 0 as owned
  from bench_agents join bench_pieces piece using (template) join bench_template event using (template, seq)
  where n between %(from)s and %(to)s
) copied
"""
FINISH = """
insert into search_segments (segment, newest) select (message >> 14)::integer, max(at) from search_pieces group by 1;
insert into search_progress (agent_id, seq) select id, %(events)s from bench_agents;
delete from search_behind where index_name <> 'usage';
drop table bench_template, bench_pieces, bench_agents; drop function bench_prefix;
"""


def fill(dsn: str, events: int) -> None:
    """Fill a database that holds the schema and nothing else with about `events` events."""
    agents, began = max(4, events // TEMPLATE_EVENTS), time.monotonic()
    print(f"Making {agents * TEMPLATE_EVENTS:,} events of {agents:,} agents …", file=sys.stderr, flush=True)
    which = {"events": TEMPLATE_EVENTS, "templates": TEMPLATES, "agents": agents, "gap": GAP_SECONDS}
    with psycopg.connect(dsn, autocommit=True, options="-c search_path=ikigai") as connection:
        connection.execute(
            "set statement_timeout = 0; set maintenance_work_mem = '512MB'; set synchronous_commit = off"
        )
        connection.execute(PREPARE.encode())
        _copy_templates(connection)
        connection.execute("analyze bench_template; analyze bench_pieces")
        connection.execute(AGENTS, which, prepare=False)
        connection.execute(ADD_AGENTS)
        connection.execute("drop index search_terms")
        owned = min(seq for (seq,) in connection.execute("select seq from bench_template where kind = 'user'"))
        step = 100
        for first in range(0, agents, step):
            part = {"from": first, "to": first + step - 1, "owned": owned}
            connection.execute(ADD_EVENTS, part, prepare=False)
            connection.execute(ADD_PIECES, part, prepare=False)
        connection.execute("create index search_terms on search_pieces using gin (terms) with (fastupdate = off)")
        for statement in FINISH.split(";\n"):
            if statement.strip():
                connection.execute(statement.encode(), which if "%(" in statement else None)
        connection.execute(dump_queries.SET_IDENTITY)
    asyncio.run(_finish(dsn))
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("set statement_timeout = 0")
        connection.execute("vacuum (analyze)")
        connection.execute("checkpoint")
    print(f"… made in {time.monotonic() - began:.0f} s.", file=sys.stderr, flush=True)


def _copy_templates(connection: psycopg.Connection) -> None:
    for template in range(TEMPLATES):
        rows = list(generator.history(TEMPLATE_EVENTS, seed=template, early=0))
        with connection.cursor().copy("copy bench_template from stdin") as copy:
            for row in rows:
                copy.write_row((template, row.seq, row.at - rows[0].at, row.kind, row.content, row.data))
        with connection.cursor().copy("copy bench_pieces from stdin") as copy:
            for row in rows:
                for start, piece in _pieces(row.kind, row.content):
                    keys = [kind_key(row.kind), *lexer.index_keys(lexer.fold(piece))]
                    copy.write_row((template, row.seq, start, len(piece), keys))


def _pieces(kind: str, content: str | None) -> list[tuple[int, str]]:
    if kind not in SEARCHED_KINDS:
        return []
    return [(at, text) for at, text in lexer.split_pieces(lexer.searchable_text(kind, content or "")) if text.strip()]


async def _finish(dsn: str) -> None:
    """List the words of the stretches and add up the usage, as the program does."""
    database = await Database.open(dsn, histories.MIGRATIONS)
    try:
        while await database.indexer.close_segment():
            pass
        while await database.indexer.usage.index_some():
            pass
        while await database.indexer.usage.unlist_some():
            pass
    finally:
        await database.close()
