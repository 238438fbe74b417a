-- Version 17: the web searches that vendors ran for their models, and the pages that replies rely on.

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
  coalesce(ikigai_number(data #> '{usage,searches}'), 0) as searches
from messages
where kind = 'usage';
comment on column usage.searches is 'Web searches that the vendor ran within the request and charged for.';

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
  count(*) filter (where is_minimum) as at_least,
  sum(searches) as searches
from usage
group by 1;

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
  count(*) filter (where is_minimum) as at_least,
  sum(searches) as searches
from usage
group by 1;
comment on column usage_by_day.searches is 'Web searches that vendors ran and charged for.';
comment on column usage_by_model.searches is 'Web searches that the vendor ran and charged for.';

create view citations as
select
  messages.agent_id,
  agents.name as agent,
  messages.id,
  messages.created_at as at,
  cited.citation ->> 'url' as url,
  coalesce(cited.citation ->> 'title', '') as title
from messages
join agents on agents.id = messages.agent_id
cross join lateral jsonb_path_query(messages.data, '$.blocks[*].citations[*]') with ordinality as cited (citation, place)
where messages.kind = 'assistant' and messages.data @? '$.blocks[*].citations[*]'
order by messages.id, cited.place;
comment on view citations is 'A row for each page that a text of a model relies on, where its vendor searched the web.';
comment on column citations.agent_id is 'The agent that it belongs to.';
comment on column citations.agent is 'The name of the agent.';
comment on column citations.id is 'The event of the text, of kind assistant.';
comment on column citations.at is 'When it was stored.';
comment on column citations.url is 'The address of the page, as the vendor gave it.';
comment on column citations.title is 'Its title; empty if there is none.';
