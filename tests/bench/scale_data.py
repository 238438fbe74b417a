"""Make databases of any number of events for SCALE: a few conversations, copied on the server.

Each copy is an agent of its own, which follows on the one before it, and has a word of its own. The index of words is
built in bulk, by the program's own keys; the sums of usage grow with each row. A conversation twice as long spans twice
the time.
"""

import json
import sys
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import psycopg

from ikigai.core.events.codec import SEARCHED_KINDS
from ikigai.store.search import stems, word_index
from ikigai.store.search.postings import length_code, pack_documents, pack_words
from ikigai.store.search.word_index import LoggedEvent, cut_pieces
from ikigai.store.sql import dump as dump_queries
from ikigai.store.sql import search
from tests.bench import generator

VERSION = 5
"""Version of what `fill` writes. Databases of another version are made anew."""
TEMPLATES, TEMPLATE_EVENTS = 8, 1_000
"""Conversations that are copied, and the events of each."""
GAP_SECONDS = 40_000
"""Seconds from the beginning of one agent to the beginning of the next."""

SEGMENT_AGENTS = 40
"""Agents whose documents share a segment of the index: about as many as the largest segments have."""
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
delete from search_behind;
drop table bench_template, bench_agents;
"""


class _Template(NamedTuple):
    """A conversation: its documents, each with the time since its beginning in seconds; the event that is its own."""

    documents: list[tuple[float, word_index.Analysis]]
    owned: int


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
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("set statement_timeout = 0")
        connection.execute("vacuum (analyze)")
        connection.execute("checkpoint")
    print(f"… made in {time.monotonic() - began:.0f} s.", file=sys.stderr, flush=True)


def _copy_templates(connection: psycopg.Connection) -> list[_Template]:
    found: list[_Template] = []
    for template in range(TEMPLATES):
        rows = list(generator.history(TEMPLATE_EVENTS, seed=template, early=0))
        with connection.cursor().copy("copy bench_template from stdin") as copy:
            for row in rows:
                copy.write_row((template, row.seq, row.at - rows[0].at, row.kind, row.content, row.data))
        at = datetime.now(UTC)
        events = [
            LoggedEvent(row.seq, row.seq, row.kind, at, row.content) for row in rows if row.kind in SEARCHED_KINDS
        ]
        analyzed = filter(None, map(word_index.analyze, cut_pieces(events, 0)[0]))
        times = {row.seq: row.at - rows[0].at for row in rows}
        documents = [(times[each.document.message], each) for each in analyzed]
        found.append(_Template(documents, min(row.seq for row in rows if row.kind == "user")))
    owned = min(each.owned for each in found)
    return [each._replace(owned=owned) for each in found]


def _index_words(connection: psycopg.Connection, templates: list[_Template], agents: int) -> None:
    """Write the segments as the program joins them."""
    rows = connection.execute("select n, id, began from bench_agents order by n").fetchall()
    number, total, languages = 0, Counter[str](), Counter[str]()
    vocabulary = {pair for each in templates for _, document in each.documents for pair in document.vocabulary}
    for begin in range(0, agents, SEGMENT_AGENTS):
        segment: list[word_index.Analysis] = []
        for n, id, began in rows[begin : begin + SEGMENT_AGENTS]:
            template, first = templates[n % TEMPLATES], number + len(segment)
            own: list[word_index.Analysis] = []
            for seconds, each in template.documents:
                words = each.words
                if each.document.message == template.owned:
                    words = words | {"own": 1, f"own{n}word": 1}
                message = each.document.message + n * TEMPLATE_EVENTS
                document = each.document._replace(message=message)
                own.append(each._replace(document=document, words=words, at=began + timedelta(seconds=seconds)))
            for place in range(0, len(own), word_index.DOCUMENTS_PER_ROW):
                some = own[place : place + word_index.DOCUMENTS_PER_ROW]
                ends = {"first": first + place, "last": first + place + len(some) - 1, "agent": id, "at": some[-1].at}
                ends |= {"oldest": some[0].document.message, "newest": some[-1].document.message}
                documents = pack_documents(each.document for each in some)
                connection.execute(search.SET_DOCUMENTS, {**ends, "documents": documents}, prepare=False)
            segment += own
        last = number + len(segment) - 1
        lengths = bytes(length_code(each.length) for each in segment)
        newest = segment[-1].document.message, segment[-1].at
        ((id,),) = connection.execute(search.ADD_SEGMENT, (number, last, *newest, lengths)).fetchall()
        columns = map(list, zip(*pack_words(word_index.count_words(segment)), strict=True))
        connection.execute(search.ADD_BLOCKS, (id, *columns), prepare=False)
        own_words = ["own", *(f"own{n}word" for n, *_ in rows[begin : begin + SEGMENT_AGENTS])]
        vocabulary |= set(zip(own_words, own_words, strict=True))
        connection.execute(search.ADD_VOCABULARY, word_index.vocabulary_row(number, vocabulary), prepare=False)
        vocabulary.clear()
        number = last + 1
        total.update(documents=sum(each.length > 0 for each in segment), stems=sum(each.length for each in segment))
        languages.update(each.language for each in segment if each.length)
    connection.execute(search.BEGIN_INDEX, (stems.ANALYSIS,))
    figures = number, total["documents"], total["stems"], json.dumps(languages)
    connection.execute(search.SET_FIGURES, figures)
