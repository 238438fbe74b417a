"""This module holds the SQL statements of the sums of the usage ledger: filling them, and adding them up.

A report takes whole days from `usage_days`. Days that a period of it cuts come from `usage_quarters`, quarters of an
hour that are cut from the ledger, and so do the events of agents that are not in the sums yet. One statement reads all
of it, so that each request is counted once.
"""

from typing import LiteralString

from ikigai.store.sql.search import progress_statements

USAGE_PROGRESS = progress_statements("usage", "usage_progress")

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
)
insert into usage_days as old (day, agent_id, model, {_NAMES})
select day, agent_id, model, {_TOTALS} from rows group by day, agent_id, model
on conflict (day, agent_id, model) do update set {_GROWN}
"""
SET = "update usage_progress set seq = %s, message = %s where agent_id = %s"

# Adding up ----------------------------------------------------------------------------------------------------------

_SINCE = "coalesce(to_timestamp(%(since)s::float8), '-infinity')"
_OF_AGENTS = "(%(agents)s::uuid[] is null or {} = any(%(agents)s))"
_SUMS = f"""
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
  union all
  select id, 0 from agents
  where row_security_active('search_behind'::regclass) and {_OF_AGENTS.format("id")}  -- a role without sums of its own
), spent as (
  select usage.* from behind cross join lateral (
    select * from usage where agent_id = behind.agent_id and id > message and created_at >= {_SINCE} offset 0
  ) usage
  union all
  select usage.* from cuts cross join unnest(cuts.quarters) as began cross join lateral (
    select * from usage
    where created_at >= greatest(began, {_SINCE}) and created_at < began + interval '15 minutes' offset 0
  ) usage
  join usage_progress on usage_progress.agent_id = usage.agent_id and usage.id <= message
  where {_OF_AGENTS.format("usage.agent_id")}
), sums as (
  select day as at, agent_id, model, {_NAMES} from usage_days
  where day >= {_SINCE} and day <> all ((select days from cuts)::timestamptz[]) and {_OF_AGENTS.format("agent_id")}
  union all
  select began, agent_id, model, {_NAMES} from usage_quarters
  where day = any ((select days from cuts)::timestamptz[]) and began >= {_SINCE}
    and began <> all ((select quarters from cuts)::timestamptz[]) and {_OF_AGENTS.format("agent_id")}
  union all
  select created_at, agent_id, model, {_OF_ROW} from spent {_PRUNING}
)"""
# Each agent with the user's agent that it works for, which is itself unless a tool made it.
_TREES = """
trees (id, root) as (
  select id, id from agents where not made or parent is null
  union all
  select agents.id, trees.root from agents join trees on agents.parent = trees.id where agents.made
)"""
_ROOT = "(select name from trees join agents on agents.id = root where trees.id = agent_id)"
_FOLDER = "coalesce((select directory from trees join agents on agents.id = root where trees.id = agent_id), '')"
# A group without a known price comes last.
_BY_COST = "order by case when sum(unpriced) < sum(requests) then sum(cost) end desc nulls last, 1"

ALL = f"with {_SUMS} select {_TOTALS} from sums"
BY_MODEL = f"with {_SUMS} select model, {_TOTALS} from sums group by model {_BY_COST}"
BY_AGENT = f"""
with {_SUMS} select (select name from agents where id = agent_id), {_TOTALS} from sums group by agent_id {_BY_COST}
"""
BY_TREE = f"with recursive {_SUMS}, {_TREES} select {_ROOT}, {_TOTALS} from sums group by 1 {_BY_COST}"
BY_FOLDER = f"with recursive {_SUMS}, {_TREES} select {_FOLDER}, {_TOTALS} from sums group by 1 {_BY_COST}"
# Day n begins at the n-th of the given moments.
BY_DAY = f"with {_SUMS} select width_bucket(at, %(days)s::timestamptz[]), {_TOTALS} from sums group by 1 order by 1"
# The first and the last moment, to a quarter of an hour.
BOUNDS_OF_AGENTS = f"""
with {_SUMS} select extract(epoch from min(at))::float8, extract(epoch from max(at))::float8 from (
  select greatest(began, {_SINCE}) as at from usage_quarters
  where began > {_SINCE} - interval '15 minutes' and {_OF_AGENTS.format("agent_id")}
  union all
  select created_at from spent
) moments
"""
