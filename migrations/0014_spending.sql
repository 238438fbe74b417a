-- Version 14: what requests that are under way can cost, so that caps hold for all programs together.

create table reservations (
  agent_id uuid primary key references agents,
  writer uuid not null,
  lock_key bigint not null,
  model text not null,
  reserved_at timestamptz not null default clock_timestamp(),
  usd numeric not null,
  tokens bigint not null,
  sent_usd numeric not null,
  sent_tokens bigint not null,
  output_usd numeric not null
);
comment on table reservations is 'The most that the requests of an agent that are under way can cost. A row counts in full while its writer holds the write lock of the agent.';
comment on column reservations.writer is 'The run of the program that made the row.';
comment on column reservations.lock_key is 'The second number of the write lock, as pg_locks lists it.';
comment on column reservations.model is 'The model of the newest request, provider/name.';
comment on column reservations.usd is 'US dollars at most.';
comment on column reservations.tokens is 'Tokens at most, input and output.';
comment on column reservations.sent_usd is 'US dollars that were spent if the writer died: the input and a little output. The rest of the reservation ended with its lock.';
comment on column reservations.sent_tokens is 'Tokens that were spent then.';
comment on column reservations.output_usd is 'US dollars for a token of output; the draft of the reply tells how many came.';

create index messages_usage_agent on messages (agent_id, id) where kind = 'usage';

-- Other roles that use the agents reserve, too.
do $$
declare granted record;
begin
  for granted in
    select distinct privilege_type as privilege, case acl.grantee when 0 then 'public' else acl.grantee::regrole::text end as role
    from pg_class cross join aclexplode(relacl) as acl
    where pg_class.oid = 'agents'::regclass and privilege_type in ('SELECT', 'INSERT', 'UPDATE', 'DELETE')
  loop
    execute format('grant %s on reservations to %s', granted.privilege, granted.role);
  end loop;
end
$$;

create or replace view usage as
select
  id,
  agent_id,
  created_at,
  coalesce(data ->> 'model', '') as model,
  coalesce(data ->> 'purpose', '') as purpose,
  coalesce(ikigai_number(data -> 'attempt'), 1) as attempt,
  coalesce(data ->> 'failure', '') as failure,
  coalesce(ikigai_number(data #> '{usage,input}'), 0) as input,
  coalesce(ikigai_number(data #> '{usage,cached}'), 0) as cached,
  coalesce(ikigai_number(data #> '{usage,written}'), 0) as written,
  coalesce(ikigai_number(data #> '{usage,output}'), 0) as output,
  coalesce(ikigai_number(data #> '{usage,thinking}'), 0) as thinking,
  ikigai_number(data -> 'cost') as cost,
  coalesce(data ->> 'priced_by', '') as priced_by,
  coalesce(ikigai_number(data -> 'seconds'), 0) as seconds,
  ikigai_number(data -> 'first_token_seconds') as first_token_seconds,
  coalesce(data ->> 'request_id', '') as request_id,
  coalesce(data -> 'is_minimum', 'false') = 'true' as is_minimum,
  coalesce(ikigai_number(data #> '{most,usd}'), ikigai_number(data -> 'cost'), 0) as spent_usd,
  coalesce(
    ikigai_number(data #> '{most,tokens}'),
    coalesce(ikigai_number(data #> '{usage,input}'), 0) + coalesce(ikigai_number(data #> '{usage,output}'), 0)
  ) as spent_tokens
from messages
where kind = 'usage';
comment on column usage.is_minimum is 'True if the request can have cost more: its reply was cut off before its tokens were counted.';
comment on column usage.spent_usd is 'US dollars that caps count for it: the most that it can have cost.';
comment on column usage.spent_tokens is 'Tokens that caps count for it.';

create or replace view usage_by_day as
select
  created_at::date as day,
  count(*) as requests,
  count(*) filter (where failure not in ('', 'interrupted')) as failed,
  count(*) filter (where failure = 'interrupted') as interrupted,
  count(*) filter (where attempt > 1) as retried,
  sum(input) as input,
  sum(cached) as cached,
  sum(written) as written,
  sum(output) as output,
  sum(thinking) as thinking,
  sum(cost) as cost,
  count(*) filter (where cost is null) as unpriced,
  count(*) filter (where is_minimum) as at_least
from usage
group by 1;
comment on column usage_by_day.at_least is 'Requests that can have cost more than what cost has of them.';

create or replace view usage_by_model as
select
  model,
  count(*) as requests,
  count(*) filter (where failure not in ('', 'interrupted')) as failed,
  count(*) filter (where failure = 'interrupted') as interrupted,
  count(*) filter (where attempt > 1) as retried,
  sum(input) as input,
  sum(cached) as cached,
  sum(written) as written,
  sum(output) as output,
  sum(thinking) as thinking,
  sum(cost) as cost,
  count(*) filter (where cost is null) as unpriced,
  count(*) filter (where is_minimum) as at_least
from usage
group by 1;
comment on column usage_by_model.at_least is 'Requests that can have cost more than what cost has of them.';
