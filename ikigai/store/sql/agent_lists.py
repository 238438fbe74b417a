"""SQL statements that list agents: the newest ones, their state, and the agents near one.

Each source of a list is one step in an index for each agent of it. A join could read all agents: `offset 0` in a
lateral query leaves no other plan.
"""

from typing import LiteralString, NamedTuple

from ikigai.store.sql.fragments import turn_start

# As the indexes agents_used, agents_listed and agents_siblings have it.
_IS_THERE = "agents.purged_at is null"
_IS_IN_LISTS = f"{_IS_THERE} and agents.killed_at is null and agents.archived_at is null"
_NEWEST_FIRST = "order by agents.last_used_at desc, agents.id desc"

# In the order of ids the planner would go through the events of all agents; see `fragments.events_between`.
_NEWEST_EVENTS = """(
    select seq, kind, content, data from messages where agent_id = agents.id order by seq desc limit 200
  ) newest"""
LAST_WORDS = f"""left join lateral (
  select left(content, 400) as words from {_NEWEST_EVENTS}
  where kind in ('user', 'assistant') and content <> ''
  order by seq desc limit 1
) said on true"""
IS_IN_TURN = f"{turn_start('agents.id')} is not null"

# The newest agents ---------------------------------------------------------------------------------------------------


def _newest(which: LiteralString, limit: LiteralString) -> LiteralString:
    return f"select agents.* from agents where {which} {_NEWEST_FIRST} limit {limit}"


def newest_ids(unlisted: bool) -> LiteralString:
    """Return the statement for the ids of the newest agents; `unlisted` adds killed and archived ones."""
    return f"select id::text from ({_newest(_IS_THERE if unlisted else _IS_IN_LISTS, '%(limit)s')}) agents"


def newest_names(unlisted: bool) -> LiteralString:
    """Return the statement for the names of the newest listed agents, or of the unlisted among the newest ones."""
    if unlisted:
        newest = _newest(_IS_THERE, "%(limit)s")
        return f"select name from ({newest}) agents where killed_at is not null or archived_at is not null"
    return f"select name from ({_newest(_IS_IN_LISTS, '%(limit)s')}) agents"


_COLUMNS_TO_CHOOSE = f"""
agents.id::text, agents.name, coalesce(agents.directory, ''), extract(epoch from agents.last_used_at)::float8,
agents.killed_at is not null, agents.archived_at is not null, agents.made, coalesce(said.words, ''), {IS_IN_TURN}
"""
_TO_CHOOSE: dict[bool, LiteralString] = {
    False: f"{_IS_IN_LISTS} and not agents.made",
    True: f"{_IS_THERE} and agents.killed_at is null",
}


def agent_page(everything: bool) -> LiteralString:
    """Return the statement for a page of agents to choose from, and for where the next page goes on.

    It looks through a stretch of agents that ends the page before it fills it: a text can be typed that few have. Last
    words are read for the page alone.
    """
    which = f"""{_TO_CHOOSE[everything]} and (
      %(after)s::timestamptz is null or (agents.last_used_at, agents.id) < (%(after)s::timestamptz, %(id)s::uuid)
    )"""
    return f"""
with stretch as materialized ({_newest(which, "%(stretch)s")}), page as (
  select agents.* from stretch agents
  where %(typed)s = '' or strpos(lower(name), lower(%(typed)s)) > 0 or strpos(lower(directory), lower(%(typed)s)) > 0
  {_NEWEST_FIRST} limit %(limit)s
)
select ends.used, ends.id, page.*
from (
  select last_used_at::text as used, id::text as id from (
    (select 0 as n, last_used_at, id from page where (select count(*) from page) = %(limit)s
     order by last_used_at, id limit 1)
    union all
    (select 1, last_used_at, id from stretch where (select count(*) from stretch) = %(stretch)s
     order by last_used_at, id limit 1)
    union all
    select 2, null, null
  ) places order by n limit 1
) ends
left join (
  select {_COLUMNS_TO_CHOOSE}, row_number() over ({_NEWEST_FIRST}) as n from page agents {LAST_WORDS}
) page on true
order by page.n
"""


def agents_to_choose(everything: bool) -> LiteralString:
    """Return the statement for the agents among some that can be chosen, the newest first."""
    return f"""
select {_COLUMNS_TO_CHOOSE}
from unnest(%(ids)s::uuid[]) as wanted (id)
cross join lateral (
  select * from agents where agents.id = wanted.id and {_TO_CHOOSE[everything]} offset 0
) agents
{LAST_WORDS}
{_NEWEST_FIRST}
"""


# The state of agents -------------------------------------------------------------------------------------------------

_MAY_SHOW = f"""{_IS_THERE} and (%(unlisted)s or agents.killed_at is null and agents.archived_at is null)"""
# The state of agents without loading them: their newest rows tell it. Images and long texts are not read. Agents above
# them come along, up to a number of levels.
AGENT_INFOS = f"""
with recursive shown (id, parent, level) as (
  select agents.id, agents.parent, 0
  from unnest(%(ids)s::uuid[]) as wanted (id)
  cross join lateral (select id, parent from agents where agents.id = wanted.id and {_MAY_SHOW} offset 0) agents
  union
  select agents.id, agents.parent, shown.level + 1
  from shown cross join lateral (
    select id, parent from agents where agents.id = shown.parent and shown.level < %(levels)s and {_MAY_SHOW} offset 0
  ) agents
)
select agents.id::text, agents.name, agents.parent::text, extract(epoch from agents.created_at)::float8,
       agents.killed_at is not null, agents.archived_at is not null, agents.forked_at,
       extract(epoch from agents.last_used_at)::float8,
       (select count(*) from messages where agent_id = agents.id and kind = 'turn_end'),
       coalesce(chosen.model, ''), coalesce(asked.tokens, 0), coalesce(said.words, ''),
       {IS_IN_TURN},
       coalesce((
         select data ->> 'ending' = 'failed' from messages where id = (
           select max(id) from messages where agent_id = agents.id and kind = 'turn_end'
         )
       ), false)
from (select distinct id from shown) shown
cross join lateral (select * from agents where agents.id = shown.id offset 0) agents
left join lateral (
  select case kind when 'usage' then data ->> 'model' else data #>> '{{values,model}}' end as model
  from {_NEWEST_EVENTS}
  where kind = 'usage' and not data ? 'purpose' or kind = 'settings' and data -> 'values' ? 'model'
  order by seq desc limit 1
) chosen on true
left join lateral (
  select least(coalesce(ikigai_number(data #> '{{usage,input}}'), 0)
               + coalesce(ikigai_number(data #> '{{usage,output}}'), 0), 9223372036854775807)::bigint as tokens
  from {_NEWEST_EVENTS}
  where kind = 'usage' and not data ? 'purpose' and data -> 'usage' ? 'input'  -- none where it was cut
  order by seq desc limit 1
) asked on true
{LAST_WORDS}
"""
NAMES = """
select agents.id::text, name from unnest(%s::uuid[]) as wanted (id)
cross join lateral (select * from agents where agents.id = wanted.id and purged_at is null offset 0) agents
"""
# Agents of which some are open: a program that has one open has listed it, and nothing takes it out meanwhile.
MAYBE_OPEN = "select agent_id::text from search_behind"
# The agents among these whose newest turn is open.
IN_TURN = f"""
select id::text from agents where id = any(%s) and {IS_IN_TURN}
"""

# The agents near one -------------------------------------------------------------------------------------------------

_LINK = """
select agents.id::text, agents.name, agents.parent::text, extract(epoch from agents.created_at)::float8,
       agents.killed_at is not null, agents.archived_at is not null
from agents"""
# The agent and all below it.
BELOW = """
with recursive below (id) as (
  select id from agents where id = %(agent)s
  union
  select child.id from below cross join lateral (
    select id from agents where agents.parent = below.id offset 0
  ) child
)
"""
SUBTREE = f"{BELOW} {_LINK} where agents.id = any(array(select id from below)) and {_IS_THERE} order by created_at, id"
PARENT = f"select agents.id::text from agents where agents.id = %(parent)s and {_IS_IN_LISTS}"
NEWEST_CHILD = f"""
select agents.id::text from agents where {_IS_IN_LISTS} and agents.parent = %(agent)s
order by agents.created_at desc, agents.id desc limit 1
"""


class SiblingStatements(NamedTuple):
    """Statements for the sibling to the left, the nearest elder one, and to the right."""

    left: LiteralString
    right: LiteralString


def _siblings(parent: LiteralString) -> SiblingStatements:
    own = "(select created_at, id from agents as own where own.id = %(agent)s)"
    beside = f"""
    select agents.id::text from agents
    where {_IS_IN_LISTS} and {parent} and (agents.created_at, agents.id)"""
    # The parent is the same in all rows; the planner knows the order of the index by it.
    return SiblingStatements(
        f"{beside} < {own} order by agents.parent desc, agents.created_at desc, agents.id desc limit 1",
        f"{beside} > {own} order by agents.parent, agents.created_at, agents.id limit 1",
    )


SIBLINGS, ROOTS = _siblings("agents.parent = %(parent)s"), _siblings("agents.parent is null")
