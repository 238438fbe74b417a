"""SQL statements for the usage ledger and its sums by hour, agent and model."""

from typing import LiteralString

from ikigai.store.sql.fragments import MAX_ID, NEWEST_FIRST, ROW, events_between

# In the order of the fields of `usage_totals.UsageTotals`.
_NAMES: tuple[LiteralString, ...] = (
    "requests", "failed", "interrupted", "retried", "input", "cached", "written", "output", "thinking", "searches",
    "cost", "unpriced", "at_least", "prunes", "pruned",
)  # fmt: skip
_FIGURES: LiteralString = ", ".join(_NAMES)
_TOTALS: LiteralString = ", ".join(f"coalesce(sum({name}), 0) as {name}" for name in _NAMES)

# The sums -----------------------------------------------------------------------------------------------------------

SUMMED: tuple[LiteralString, ...] = (*_NAMES, "spent_usd", "spent_tokens")
"""The columns of `usage_hours` that are sums."""
# The sums as the log gives them: what a trigger keeps in `usage_hours` from row to row.
COUNT_HOURS: LiteralString = f"""
select hour, agent_id, model, {", ".join(f"sum({name}) as {name}" for name in SUMMED)}
from usage_figures group by hour, agent_id, model
"""
FILL_HOURS = f"insert into usage_hours (hour, agent_id, model, {', '.join(SUMMED)}) {COUNT_HOURS}"

# Reports ------------------------------------------------------------------------------------------------------------

_SINCE = "coalesce(to_timestamp(%(since)s::float8), '-infinity')"
_OF_AGENTS = "(%(agents)s::uuid[] is null or agent_id = any(%(agents)s))"
# Whole hours come from the sums. Those that an edge of the report cuts come from the log: in a time zone that is half
# an hour off, one for each midnight.
_SUMS = f"""
sums as (
  select hour as at, agent_id, model, {_FIGURES} from usage_hours
  where hour >= {_SINCE} and hour <> all(%(cut)s::timestamptz[]) and {_OF_AGENTS}
  union all
  select figures.* from unnest(%(cut)s::timestamptz[]) as cut (hour) cross join lateral (
    select created_at, agent_id, model, {_FIGURES} from usage_figures
    where created_at >= greatest(cut.hour, {_SINCE}) and created_at < cut.hour + interval '1 hour' and {_OF_AGENTS}
    offset 0
  ) figures
)"""
# Each agent with the user's agent that it works for, which is itself unless a tool made it.
_TREES = """
trees (id, root) as (
  select id, id from agents where not made or parent is null
  union all
  select agents.id, trees.root from agents join trees on agents.parent = trees.id where agents.made
)"""
_OF_TREES = "join trees on trees.id = agent_id join agents on agents.id = trees.root"
_BY_COST = "case when unpriced < requests then cost end desc nulls last, key"  # one without a known price comes last
# The key of a group and the tables that have it. Day n begins at the n-th of the given moments.
_GROUPED: dict[str, tuple[LiteralString, LiteralString, LiteralString]] = {
    "model": ("model", "", _BY_COST),
    "agent": ("agents.name", "join agents on agents.id = agent_id", _BY_COST),
    "tree": ("agents.name", _OF_TREES, _BY_COST),
    "folder": ("coalesce(agents.directory, '')", _OF_TREES, _BY_COST),
    "day": ("width_bucket(at, %(days)s::timestamptz[])", "", "key desc"),
}
TOTALS = f"with {_SUMS} select {_TOTALS} from sums"


def report(by: str) -> LiteralString:
    """Return the statement that adds up requests in groups: the total, with the number of groups in the last column,
    and the newest or the dearest groups.
    """
    key, tables, order = _GROUPED[by]
    return f"""
with recursive {_SUMS}, {_TREES}, grouped as materialized (select {key} as key, {_TOTALS} from sums {tables} group by 1)
(select null as key, {_TOTALS}, count(*) as groups from grouped)
union all
(select key, {_FIGURES}, null from grouped order by {order} limit %(most)s::bigint)
"""


TOTALS_OF_EVENTS = f"select {_TOTALS} from usage_figures where id = any(%(ids)s)"
# The first moment to the hour, and the last one.
BOUNDS = f"""
select extract(epoch from greatest(hours.first, {_SINCE}))::float8, extract(epoch from (
  select max(created_at) from usage
  where created_at >= greatest(hours.last, {_SINCE}) and created_at < hours.last + interval '1 hour' and {_OF_AGENTS}
))::float8
from (
  select min(hour) as first, max(hour) as last from usage_hours
  where hour > {_SINCE} - interval '1 hour' and {_OF_AGENTS}
) hours
"""
_MISSES = f"from usage where created_at >= {_SINCE} and {_OF_AGENTS} and miss_cause <> ''"
CACHE_CAUSES = f"select miss_cause, count(*), sum(missed) {_MISSES} group by 1 order by 3 desc, 1"
NEWEST_MISSES = f"""
select extract(epoch from created_at)::float8, (select name from agents where id = agent_id), model, input, cached,
  written, missed, miss_cause, provider_diagnosis {_MISSES}
order by created_at desc, id desc limit 10
"""

# The newest requests ------------------------------------------------------------------------------------------------

# The index of requests serves it: an imported agent may have none among 200,000 events. A limit stands before further
# conditions: the planner expects that few rows fulfil them, and would sort all requests of the agent.
_NEWEST_REQUESTS = (
    f"select * from messages where {events_between('%(agent)s', '0', MAX_ID)} and kind = 'usage' {NEWEST_FIRST}"
)
# The provider's own count is worth comparing only if the request was also measured.
LAST_COUNTED = f"""
select {ROW} from (
  {_NEWEST_REQUESTS} limit 20
) newest
where ikigai_number(data #> '{{usage,input}}') > 0 and ikigai_number(data -> 'size') > 0 order by seq desc limit 1
"""
# A turn that has fallen back says so in its settings, and so does its end. The same condition as above finds requests.
CHOSEN_MODEL = f"""
select coalesce(data ->> 'model', '') from (
  {_NEWEST_REQUESTS} limit 20
) newest
where coalesce(data ->> 'purpose', '') = '' and (
  select change.data #>> '{{values,fallback}}' from messages change
  where change.agent_id = newest.agent_id and change.id < newest.id and change.kind = 'settings'
    and change.data -> 'values' ? 'fallback' order by change.id desc limit 1
) is null
order by seq desc limit 1
"""
# A row is stored when its request has ended.
REQUEST_TIMES = f"""
select (extract(epoch from created_at) - ikigai_number(coalesce(data -> 'seconds', '0')))::float8
from ({_NEWEST_REQUESTS} limit 400) requests
where coalesce(data ->> 'purpose', '') = '' {NEWEST_FIRST} limit 200
"""
# The newest request that a provider's cache can have, of the newest twenty.
LAST_CACHED = f"""
select {ROW} from (
  {_NEWEST_REQUESTS} limit 20
) newest
where data -> 'prefix' is not null order by seq desc limit 1
"""
# The models of the newest requests; older ones are not read.
RECENT_MODELS = """
select model from (
  select model, max(created_at) as at from (
    select model, created_at from usage where purpose = '' order by created_at desc limit 300
  ) newest
  where model <> '' group by model
) models order by at desc limit %s
"""
