"""SQL statements for the window's history: its fill from turn to turn, and the chosen settings."""

from ikigai.store.sql.fragments import MAX_ID, lineage_query

# The last request of each of the newest turns. A turn's place is the number of turn ends since it began, so that the
# open one has 0. Only the newest events are read, however many the agent has.
TURNS = """
with newest as (
  select seq, kind, created_at, case when kind = 'usage' then data end as data
  from messages where agent_id = %(agent)s order by seq desc limit %(events)s
), counted as (
  select seq, kind, created_at,
         coalesce(nullif(ikigai_number(data #> '{usage,input}'), 0), ikigai_number(data -> 'size') / 4) as tokens,
         coalesce(ikigai_number(data -> 'out'), 0) as out,
         count(*) filter (where kind = 'turn_end') over (order by seq desc) as place
  from newest
  where kind = 'turn_end' or kind = 'usage' and coalesce(data ->> 'purpose', '') = ''
)
select extract(epoch from created_at)::float8, trunc(tokens), trunc(out) from (
  select distinct on (place) place, created_at, tokens, out from counted
  where kind = 'usage' and tokens >= 1 and created_at >= coalesce(to_timestamp(%(since)s::float8), '-infinity')
  order by place, seq desc limit %(most)s
) turns
order by place desc
"""
# The last value that the agent, or the one it was forked from, has set. A clear repeats all values that are set; the
# choice of a profile takes back those that it names.
CHOSEN = f"""
{lineage_query("%(agent)s")}
select chosen -> %(key)s from line cross join lateral (
  select id, case when kind = 'clear' then coalesce(data -> 'own', '{{}}')
                  when data -> 'origins' ->> %(key)s = 'agent' then data -> 'values' else '{{}}' end as chosen
  from messages
  where agent_id = agent and id <= coalesce(upto, {MAX_ID})
    and (kind = 'clear' or kind = 'settings' and data -> 'values' ? %(key)s and (
           data -> 'origins' ->> %(key)s = 'agent'
           or data #>> '{{values,profile}}' <> '' and data #>> '{{origins,profile}}' = 'agent'))
  order by id desc limit 1
) found
where not looped order by id desc limit 1
"""
