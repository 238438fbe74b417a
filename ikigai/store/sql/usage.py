"""This module holds the SQL statements of the usage ledger."""

from ikigai.store.sql.fragments import MAX_ID, NEWEST_FIRST, ROW, events_between

# In the order of the fields of `usage_totals.UsageTotals`.
_SPENT = """
count(*), count(*) filter (where failure not in ('', 'interrupted')), count(*) filter (where failure = 'interrupted'),
count(*) filter (where attempt > 1), coalesce(sum(input), 0), coalesce(sum(cached), 0), coalesce(sum(written), 0),
coalesce(sum(output), 0), coalesce(sum(thinking), 0), coalesce(sum(searches), 0), coalesce(sum(cost), 0),
count(*) filter (where cost is null), count(*) filter (where is_minimum)
"""
_LEDGER = """
from usage
where created_at >= coalesce(to_timestamp(%(since)s::float8), '-infinity')
  and (%(agents)s::uuid[] is null or agent_id = any(%(agents)s))
"""
CACHE_TOTALS = (
    f"select count(*), coalesce(sum(input), 0), coalesce(sum(cached), 0), coalesce(sum(written), 0) {_LEDGER}"
)
CACHE_CAUSES = f"""
select miss_cause, count(*), sum(missed) {_LEDGER} and miss_cause <> '' group by 1 order by 3 desc, 1
"""
NEWEST_MISSES = f"""
select extract(epoch from created_at)::float8, (select name from agents where id = agent_id), model, input, cached,
  written, missed, miss_cause, provider_diagnosis {_LEDGER} and miss_cause <> ''
order by created_at desc, id desc limit 10
"""
USAGE_OF_EVENTS = f"select {_SPENT} from usage where id = any(%(ids)s)"
USAGE_BOUNDS = """
select extract(epoch from min(created_at))::float8, extract(epoch from max(created_at))::float8
from usage where created_at >= coalesce(to_timestamp(%(since)s::float8), '-infinity')
"""
# The index of requests serves it: an imported agent may have none among 200,000 events. A limit stands before further
# conditions: the planner expects that few rows fulfil them, and would sort all requests of the agent.
_NEWEST_REQUESTS = (
    f"select * from messages where {events_between('%(agent)s', '0', MAX_ID)} and kind = 'usage' {NEWEST_FIRST}"
)
# The provider's own count is worth comparing only if the request was measured, too.
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
