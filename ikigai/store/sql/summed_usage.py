"""This module holds the SQL statements of the sums of the usage ledger: filling them, and adding them up.

A report takes whole days from `usage_days`, or from the smaller sums over all agents or over all days where these
suffice. Days that a period of it cuts come from `usage_quarters`, quarters of an hour that are cut from the ledger, and
so do the events of agents that are not in the sums yet. One statement reads all of it: each request is counted once.
"""

from typing import LiteralString

from ikigai.store.sql.search import progress_statements

# A step names all sums that it keeps. Programs of versions before 30 do not, and fail.
USAGE_PROGRESS = progress_statements("usage", "usage_progress")._replace(
    begin="insert into usage_progress (agent_id, seq, has_totals) values (%s, 0, true) on conflict do nothing"
)

# In the order of the fields of `usage_totals.UsageTotals`.
_COLUMNS: tuple[LiteralString, ...] = (
    "requests", "failed", "interrupted", "retried", "input", "cached", "written", "output", "thinking", "searches",
    "cost", "unpriced", "at_least", "prunes", "pruned",
)  # fmt: skip
_NAMES: LiteralString = ", ".join(_COLUMNS)
_TOTALS: LiteralString = ", ".join(f"coalesce(sum({name}), 0) as {name}" for name in _COLUMNS)
_OF_ROW = """1 as requests, (failure not in ('', 'interrupted'))::integer as failed,
(failure = 'interrupted')::integer as interrupted, (attempt > 1)::integer as retried, input, cached, written, output,
thinking, searches, coalesce(cost, 0) as cost, (cost is null)::integer as unpriced, is_minimum::integer as at_least,
(pruning.turns is not null)::integer as prunes, coalesce(pruning.turns, 0) as pruned"""
# One step in an index for each row: a join could read all of the ledger.
_PRUNING = """left join lateral (
  select turns from prunes where prunes.id = spent.id and prunes.agent_id = spent.agent_id offset 0
) pruning on true"""

# Filling ------------------------------------------------------------------------------------------------------------

# One process at a time adds up, whichever agents: else two could wait for each other's sums over all agents.
TRY_LOCK = "select pg_try_advisory_xact_lock(%s, 'usage_models'::regclass::oid::integer)"
TAKE = "select seq, message from usage_progress where agent_id = %s for update skip locked"
# The last event of the next stretch: it ends with a number of requests, or with the newest event.
STRETCH_END = """
(select seq, id from messages where agent_id = %(agent)s and kind = 'usage' and id > %(after)s
 order by id limit 1 offset %(requests)s - 1)
union all
(select seq, id from messages where agent_id = %(agent)s order by seq desc limit 1)
limit 1
"""
_GROWN: LiteralString = ", ".join(f"{name} = old.{name} + excluded.{name}" for name in _COLUMNS)
ADD = f"""
with rows as materialized (
  select date_bin('15 minutes', created_at, 'epoch') as began, ikigai_usage_day(created_at) as day, agent_id, model,
         {_OF_ROW}
  from (
    select * from usage where agent_id = %(agent)s and id > %(after)s and id <= %(upto)s
  ) spent {_PRUNING}
), quarters as (
  insert into usage_quarters as old (began, day, agent_id, model, {_NAMES})
  select began, min(day), agent_id, model, {_TOTALS} from rows group by began, agent_id, model
  on conflict (began, agent_id, model) do update set {_GROWN}
), model_days as (
  insert into usage_model_days as old (day, model, {_NAMES})
  select day, model, {_TOTALS} from rows group by day, model
  on conflict (day, model) do update set {_GROWN}
), models as (
  insert into usage_models as old (model, {_NAMES})
  select model, {_TOTALS} from rows group by model
  on conflict (model) do update set {_GROWN}
), agents as (
  insert into usage_agents as old (agent_id, {_NAMES})
  select agent_id, {_TOTALS} from rows group by agent_id
  on conflict (agent_id) do update set {_GROWN}
), counts as (
  insert into usage_counts as old (days, agents)
  select (select count(distinct day) from rows
          where not exists (select from usage_model_days as known where known.day = rows.day)),
         (select count(distinct agent_id) from rows
          where not exists (select from usage_agents as known where known.agent_id = rows.agent_id))
  on conflict (is_all) do update set days = old.days + excluded.days, agents = old.agents + excluded.agents
)
insert into usage_days as old (day, agent_id, model, {_NAMES})
select day, agent_id, model, {_TOTALS} from rows group by day, agent_id, model
on conflict (day, agent_id, model) do update set {_GROWN}
"""
SET = "update usage_progress set seq = %s, message = %s where agent_id = %s"

# Adding up ----------------------------------------------------------------------------------------------------------

_SINCE = "coalesce(to_timestamp(%(since)s::float8), '-infinity')"
_OF_AGENTS = "(%(agents)s::uuid[] is null or {} = any(%(agents)s))"
# What is read from the ledger: the events of agents that are not in the sums, and those of cut quarters.
_SPENT = f"""
edges (at) as (
  select unnest(%(days)s::timestamptz[]) union all
  select to_timestamp(%(since)s::float8) where %(since)s::float8 is not null
), cuts (days, quarters) as materialized (
  select coalesce(array_agg(distinct ikigai_usage_day(at)) filter (where at <> ikigai_usage_day(at)), '{{}}'),
         coalesce(array_agg(distinct date_bin('15 minutes', at, 'epoch'))
                  filter (where at <> date_bin('15 minutes', at, 'epoch')), '{{}}')
  from edges
), behind (agent_id, message) as materialized (
  select agent_id, coalesce(message, 0) from search_behind left join usage_progress using (agent_id)
  where index_name = 'usage' and {_OF_AGENTS.format("agent_id")}
), spent as (
  select usage.* from behind cross join lateral (
    select * from usage where agent_id = behind.agent_id and id > message and created_at >= {_SINCE} offset 0
  ) usage
  union all
  select usage.* from cuts cross join unnest(cuts.quarters) as began cross join lateral (
    select * from usage
    where created_at >= greatest(began, {_SINCE}) and created_at < began + interval '15 minutes' offset 0
  ) usage
  cross join lateral (  -- looked up for each event, and not joined: that would read the progress of all agents
    select message from usage_progress where agent_id = usage.agent_id offset 0
  ) summed
  where usage.id <= summed.message and {_OF_AGENTS.format("usage.agent_id")}
)"""
_QUARTERS = f"""
  select began as at, agent_id, model, {_NAMES} from usage_quarters
  where day = any ((select days from cuts)::timestamptz[]) and began >= {_SINCE}
    and began <> all ((select quarters from cuts)::timestamptz[]) and {_OF_AGENTS.format("agent_id")}
"""
_WHOLE_DAYS = f"day >= {_SINCE} and day <> all ((select days from cuts)::timestamptz[])"
_AGENT_DAYS = f"""
  select day as at, agent_id, model, {_NAMES} from usage_days
  where {_WHOLE_DAYS} and {_OF_AGENTS.format("agent_id")}
  union all {_QUARTERS}
"""
_DAYS = f"""
  select day as at, null::uuid as agent_id, model, {_NAMES} from usage_model_days where {_WHOLE_DAYS}
  union all {_QUARTERS}
"""
_MODELS = f"select null::timestamptz as at, null::uuid as agent_id, model, {_NAMES} from usage_models"
_AGENTS = f"""
  select null::timestamptz as at, agent_id, null as model, {_NAMES} from usage_agents
  where {_OF_AGENTS.format("agent_id")}
"""
_OF_SPENT = f"select created_at, agent_id, model, {_OF_ROW} from spent {_PRUNING}"
# Each agent with the user's agent that it works for, which is itself unless a tool made it.
_TREES = """
trees (id, root) as (
  select id, id from agents where not made or parent is null
  union all
  select agents.id, trees.root from agents join trees on agents.parent = trees.id where agents.made
)"""
_TREE = "(select name from trees join agents on agents.id = root where trees.id = agent_id)"
_FOLDER = "coalesce((select directory from trees join agents on agents.id = root where trees.id = agent_id), '')"
_AGENT = "(select name from agents where id = agent_id)"
_KNOWN_COST = "case when sum(unpriced) < sum(requests) then sum(cost) end"
_BY_COST = f"order by {_KNOWN_COST} desc nulls last, 1"  # a group without a known price comes last
_BY_COST_AND_ID = f"order by {_KNOWN_COST} desc nulls last, agent_id"  # as the index has them

_GROUPED: dict[str, tuple[LiteralString, LiteralString]] = {
    "all": (f"select null, {_TOTALS} from sums", ""),
    "model": (f"select model, {_TOTALS} from sums", f"group by model {_BY_COST}"),
    "agent": (f"select {_AGENT}, {_TOTALS} from sums", f"group by agent_id {_BY_COST_AND_ID}"),
    "tree": (f"select {_TREE}, {_TOTALS} from sums", f"group by 1 {_BY_COST}"),
    "folder": (f"select {_FOLDER}, {_TOTALS} from sums", f"group by 1 {_BY_COST}"),
    # Day n begins at the n-th of the given moments.
    "day": (f"select width_bucket(at, %(days)s::timestamptz[]), {_TOTALS} from sums", "group by 1 order by 1"),
}


def report(by: str, of_agents: bool = False, of_time: bool = False) -> LiteralString:
    """Return the statement that adds up requests in groups, "all" for a single one.

    `of_agents` if they are those of some agents, `of_time` if only some days count, or each by itself.
    """
    select, group = _GROUPED[by]
    if of_agents or by in ("agent", "tree", "folder"):
        sums = _AGENT_DAYS if of_time or by == "model" else _AGENTS
    else:
        sums = _DAYS if of_time else _MODELS
    trees = f", {_TREES}" if by in ("tree", "folder") else ""
    known = f"sums as (select * from ({sums}) known union all {_OF_SPENT})"
    return f"with recursive {_SPENT}, {known} {trees} {select} {group}"


# All that may be among the dearest: the agents that may not be in the sums yet, and by the sums as many more.
DEAREST_AGENTS = f"""
with {_SPENT}, shown (agent_id) as materialized (
  (select agent_id from usage_agents
   order by case when unpriced < requests then cost end desc nulls last, agent_id
   limit %(most)s::bigint + (select count(*) from behind))
  union
  select agent_id from behind
), sums as (
  select shown.agent_id, {_NAMES} from shown cross join lateral (
    select * from usage_agents where agent_id = shown.agent_id offset 0
  ) own
  union all
  select agent_id, {_OF_ROW} from spent {_PRUNING}
)
select {_AGENT}, {_TOTALS} from sums group by agent_id {_BY_COST_AND_ID} limit %(most)s
"""
COUNT_AGENTS = f"""
with {_SPENT}
select coalesce((select agents from usage_counts), 0) + (
  select count(distinct agent_id) from spent
  where not exists (select from usage_agents as known where known.agent_id = spent.agent_id)
)
"""
# The first of so many newest days with requests in the sums; no row if they have fewer. It is read in order.
FIRST_OF_DAYS = """
select extract(epoch from day)::float8 from (
  select distinct day from (select day from usage_model_days order by day desc offset 0) ordered
  order by day desc limit 1 offset %s - 1
) first
"""
# The days with requests, if days begin in the sums when those given begin.
COUNT_DAYS = f"""
with {_SPENT}
select coalesce((select days from usage_counts), 0) + (
  select count(distinct ikigai_usage_day(created_at)) from spent
  where not exists (select from usage_model_days as known where known.day = ikigai_usage_day(created_at))
)
from cuts where cuts.days = '{{}}'
"""
# The first and the last moment, to a quarter of an hour.
BOUNDS_OF_AGENTS = f"""
with {_SPENT} select extract(epoch from min(at))::float8, extract(epoch from max(at))::float8 from (
  select greatest(began, {_SINCE}) as at from usage_quarters
  where began > {_SINCE} - interval '15 minutes' and {_OF_AGENTS.format("agent_id")}
  union all
  select created_at from spent
) moments
"""
