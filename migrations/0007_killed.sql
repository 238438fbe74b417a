-- Version 7: agents that were killed, and the way down the tree.

alter table agents add column killed_at timestamptz;
comment on column agents.killed_at is 'When it was killed; null while it lives. Its log says so, too, and nothing of it is gone.';
-- Whoever looks for the children of an agent need not look at all of them.
create index agents_parent on agents (parent) where parent is not null;

create or replace view agent_tree as
select
  agents.id as agent_id,
  agents.name as agent,
  parents.name as parent,
  line.depth,
  line.path,
  agents.forked_at,
  coalesce((select max(seq) from messages where messages.agent_id = agents.id), 0) as events,
  agents.last_used_at,
  agents.killed_at
from agents
left join agents parents on parents.id = agents.parent
cross join lateral (
  select max(ancestry.depth) as depth, array_agg(ancestors.name order by ancestry.depth desc) as path
  from ikigai_lineage(agents.id) ancestry join agents ancestors on ancestors.id = ancestry.agent_id
) line;
comment on column agent_tree.killed_at is 'When it was killed; null while it lives.';
