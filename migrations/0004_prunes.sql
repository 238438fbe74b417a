-- Version 4: how often turns left the window, and how many, as the ledger's rows show it.

create view prunes as
select id, agent_id, created_at, model, turns
from (
  select
    id,
    agent_id,
    created_at,
    coalesce(data ->> 'model', '') as model,
    coalesce(ikigai_number(data -> 'out'), 0)
      - lag(coalesce(ikigai_number(data -> 'out'), 0)) over (partition by agent_id order by seq) as turns
  from messages
  where kind = 'usage' and coalesce(data ->> 'purpose', '') = ''
) asked
where turns > 0;
comment on view prunes is 'A row for each request that left out more turns than the one before it: turns had left the window.';
comment on column prunes.id is 'The usage event''s.';
comment on column prunes.created_at is 'When the request had ended and was stored.';
comment on column prunes.model is 'The model that was asked, provider/name.';
comment on column prunes.turns is 'How many turns had left.';
