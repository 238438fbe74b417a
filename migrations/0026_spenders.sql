-- Version 26: who sent a request in an agent of another owner.

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
  ) as spent_tokens,
  coalesce(data #>> '{miss,cause}', '') as miss_cause,
  coalesce(ikigai_number(data #> '{miss,tokens}'), 0) as missed,
  coalesce(data #>> '{usage,diagnosis}', '') as provider_diagnosis,
  coalesce(ikigai_number(data #> '{usage,searches}'), 0) as searches,
  coalesce(data ->> 'spent_by', '') as spent_by
from messages
where kind = 'usage';
comment on column usage.spent_by is 'The role or user that sent the request, where the agent belongs to another one.';

select ikigai_secure();
