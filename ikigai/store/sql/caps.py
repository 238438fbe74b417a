"""SQL statements for spending caps: the amount spent in each scope, and the reservations."""

from ikigai.store.sql.fragments import turn_start

# One admission at a time in this schema: what one program reserves is there before another one adds up.
LOCK = "select pg_advisory_xact_lock(%s, %s)"
# The agents whose caps a request of `agent` counts for, itself and those above it while tools made them, each with the
# agents that tools made below it; then the sums of each, of which the largest is decisive. The turn of an agent above
# is its open one. A reservation whose write lock nobody holds is what a dead writer had sent. Requests are looked up
# agent by agent: a join would read the requests of all agents where agents are few, 21 ms for each request at 40,000.
_DEAD_OUTPUT = "coalesce((octet_length(drafts.text) + octet_length(drafts.thinking)) / 4, 0)"
SPENT = f"""
with recursive chain (id, parent, made) as (
  select id, parent, made from agents where id = %(agent)s
  union
  select agents.id, agents.parent, agents.made from chain join agents on agents.id = chain.parent where chain.made
), below (top, id) as (
  select id, id from chain
  union
  select below.top, agents.id from below join agents on agents.parent = below.id where agents.made
), turns (top, first) as (
  select id, %(turn)s::bigint from chain where id = %(agent)s and %(turn)s::bigint is not null
  union all
  select id, {turn_start("chain.id")} from chain where id <> %(agent)s and %(turns)s
), held (agent_id, usd, tokens, is_today) as (
  select reservations.agent_id,
         case when locks.objid is null
              then least(usd, sent_usd + output_usd * 1.25 * {_DEAD_OUTPUT}) else usd end,
         case when locks.objid is null
              then least(tokens, sent_tokens + (1.25 * {_DEAD_OUTPUT})::bigint) else tokens end,
         locks.objid is not null or reservations.reserved_at >= to_timestamp(%(since)s::float8)
  from reservations
  left join pg_locks locks on locks.locktype = 'advisory' and locks.granted
    and locks.database = (select oid from pg_database where datname = current_database())
    and locks.classid = %(write_lock)s::bigint::oid and locks.objid = reservations.lock_key::oid and locks.objsubid = 2
  left join drafts on drafts.agent_id = reservations.agent_id
  where reservations.agent_id <> %(agent)s
), sums (scope, usd, tokens) as (
  select 'day', coalesce(sum(spent_usd), 0), coalesce(sum(spent_tokens), 0)
  from usage_hours where hour >= to_timestamp(%(since)s::float8)
  union all
  select 'day', sum(spent_usd), sum(spent_tokens)  -- from midnight to the next hour, where a time zone has half hours
  from usage where created_at >= to_timestamp(%(since)s::float8)
    and created_at < date_bin('1 hour', to_timestamp(%(since)s::float8) + interval '59:59.999999', 'epoch')
  union all
  select 'day', sum(usd), sum(tokens) from held where is_today
  union all
  select 'turn' || turns.top, sum(spent_usd), sum(spent_tokens)
  from turns join below using (top) cross join lateral (
    select spent_usd, spent_tokens from usage where agent_id = below.id and id >= turns.first offset 0
  ) sent
  group by turns.top
  union all
  select 'turn' || turns.top, sum(usd), sum(tokens)
  from turns join below using (top) join held on held.agent_id = below.id where turns.first is not null
  group by turns.top
  union all
  select 'agent' || below.top, sum(spent_usd), sum(spent_tokens)
  from below cross join lateral (
    select spent_usd, spent_tokens from usage_hours where agent_id = below.id and %(agents)s offset 0
  ) sent
  group by below.top
  union all
  select 'agent' || below.top, sum(usd), sum(tokens) from below join held on held.agent_id = below.id group by below.top
), added (scope, usd, tokens) as (
  select scope, sum(usd), sum(tokens) from sums group by scope
)
select max(usd) filter (where scope like 'turn%%'), max(tokens) filter (where scope like 'turn%%'),
       max(usd) filter (where scope = 'day'), max(tokens) filter (where scope = 'day'),
       max(usd) filter (where scope like 'agent%%'), max(tokens) filter (where scope like 'agent%%')
from added
"""
LEFT_BEHIND = f"""
select reservations.model, least(usd, sent_usd + output_usd * 1.25 * {_DEAD_OUTPUT}),
       least(tokens, sent_tokens + (1.25 * {_DEAD_OUTPUT})::bigint)
from reservations left join drafts on drafts.agent_id = reservations.agent_id
where reservations.agent_id = %s and writer <> %s
"""
RESERVE = """
insert into reservations (agent_id, writer, lock_key, model, usd, tokens, sent_usd, sent_tokens, output_usd)
values (%s, %s, %s, %s, %s, %s, %s, %s, %s)
on conflict (agent_id) do update set
  writer = excluded.writer, lock_key = excluded.lock_key, model = excluded.model, reserved_at = clock_timestamp(),
  usd = excluded.usd, tokens = excluded.tokens, sent_usd = excluded.sent_usd, sent_tokens = excluded.sent_tokens,
  output_usd = excluded.output_usd
"""
RELEASE = "delete from reservations where agent_id = %s and writer = %s"
