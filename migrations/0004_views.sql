-- Views for people: turns, the conversation as text, the tree of agents, and what was filtered.

-- Turns and texts ----------------------------------------------------------------------------------------------------

create view turns as
select
  ended.agent_id,
  agents.name as agent,
  began.id as first_id,
  ended.id as end_id,
  coalesce(ended.data ->> 'ending', '') as ending,
  coalesce(ended.content, '') as reason,
  began.created_at as started_at,
  ended.created_at as ended_at,
  extract(epoch from ended.created_at - began.created_at) as seconds,
  (
    select count(*) from messages
    where messages.agent_id = ended.agent_id and messages.id between began.id and ended.id
      and messages.kind in ('user', 'recall', 'assistant', 'tool_call', 'tool_result')
  ) as messages,
  coalesce(ikigai_number(ended.data -> 'size'), 0) as bytes,
  case
    when ikigai_number(ended.data -> 'tokens') > 0 then ikigai_number(ended.data -> 'tokens')
    else ceil(coalesce(ikigai_number(ended.data -> 'size'), 0) / 4)
  end as tokens,
  coalesce(rtrim(left(ltrim(regexp_replace(left(began.content, 200), '\s+', ' ', 'g')), 80)), '') as asked
from messages ended
join agents on agents.id = ended.agent_id
left join messages began
  on began.id = ikigai_id(ended.data -> 'first') and began.agent_id = ended.agent_id and began.id < ended.id
where ended.kind = 'turn_end';
comment on view turns is 'A row for each turn that has ended: a message of the user and what followed. Order by end_id.';
comment on column turns.agent_id is 'The agent that it belongs to.';
comment on column turns.agent is 'The name of the agent.';
comment on column turns.first_id is 'Its first event; null where the log does not record it.';
comment on column turns.end_id is 'Its last event, the turn_end.';
comment on column turns.ending is 'completed, interrupted or failed.';
comment on column turns.reason is 'Why it failed.';
comment on column turns.started_at is 'When its first event was stored; null where the log does not record it.';
comment on column turns.ended_at is 'When its turn_end was stored.';
comment on column turns.seconds is 'Seconds from its first event to its turn_end.';
comment on column turns.messages is 'Its events of the conversation: user, recall, assistant, tool_call, tool_result.';
comment on column turns.bytes is 'Bytes that it added to a request, measured when it ended.';
comment on column turns.tokens is 'Tokens as counted when it ended; a quarter of the bytes where they were not counted.';
comment on column turns.asked is 'The first words of the user.';

create view transcript as
select
  messages.agent_id,
  agents.name as agent,
  messages.id,
  messages.created_at as at,
  messages.kind,
  case messages.kind
    when 'tool_call' then concat_ws(' ', messages.data ->> 'name', messages.content)
    when 'turn_end' then concat_ws(': ', messages.data ->> 'ending', messages.content)
    when 'rewind' then concat_ws(' ', 'to', messages.data ->> 'to')
    when 'undo' then concat_ws(' ', 'of', messages.data ->> 'of')
    when 'filter' then concat_ws(' ', messages.data ->> 'mode', messages.content)
    else coalesce(messages.content, '')
  end as text
from messages join agents on agents.id = messages.agent_id
where messages.kind in (
    'user', 'recall', 'assistant', 'tool_call', 'tool_result',
    'clear', 'mark', 'rewind', 'filter', 'undo', 'summary', 'fork', 'command'
  )
  or (messages.kind = 'turn_end' and messages.data ->> 'ending' is distinct from 'completed');
comment on view transcript is
  'The events of each agent as text; order by id. ikigai_lineage() gives the ancestors, whose events a fork inherits.';
comment on column transcript.agent_id is 'The agent that it belongs to.';
comment on column transcript.agent is 'The name of the agent.';
comment on column transcript.id is 'The event''s.';
comment on column transcript.at is 'When it was stored.';
comment on column transcript.kind is
  'Who speaks: user, assistant, tool_call, tool_result; recall for excerpts of earlier turns; or what happened: clear, mark …, turn_end if a turn broke off.';
comment on column transcript.text is 'The text; of a tool call the name and the arguments.';

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

-- The tree -----------------------------------------------------------------------------------------------------------

create view agent_tree as
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
comment on view agent_tree is 'The agents with their places in the tree of forks; order by path.';
comment on column agent_tree.agent_id is 'Its id.';
comment on column agent_tree.agent is 'The name of the agent.';
comment on column agent_tree.parent is 'The name of the agent it was forked from; null for a root.';
comment on column agent_tree.depth is 'How many forks above it; 0 for a root.';
comment on column agent_tree.path is 'Names from the root to the agent.';
comment on column agent_tree.forked_at is 'The last event of its parent''s lineage that it shares; 0 shares nothing.';
comment on column agent_tree.events is 'The number of its own events, without those of its ancestors.';
comment on column agent_tree.last_used_at is 'When a process last acquired or released its write lock.';
comment on column agent_tree.killed_at is 'When it was killed; null if it was not.';

-- Filters ------------------------------------------------------------------------------------------------------------

-- Nobody can tell beforehand how long the ranges are: what would be guessed is worth neither reading the whole log nor
-- compiling the query.
create function ikigai_filtered(agent uuid, filter jsonb) returns bigint[] language sql stable parallel safe
set jit = off
begin atomic
  select array(
    select said.id
    from jsonb_path_query(filter, '$.ranges[*]') ends
    cross join ikigai_lineage(agent) line
    cross join lateral (
      select messages.id from messages
      where messages.agent_id = line.agent_id
        and messages.id between ikigai_id(ends -> 0) and least(ikigai_id(ends -> 1), line.upto)
        and messages.kind in ('user', 'recall', 'assistant', 'tool_call', 'tool_result')
      offset 0
    ) said
    where ikigai_id(ends -> 1) is not null
    union
    select ikigai_id(single) from jsonb_path_query(filter, '$.ids[*]') single where ikigai_id(single) is not null
    order by 1
  );
end;
comment on function ikigai_filtered(uuid, jsonb) is
  'The messages that a filter of this agent with this data names: those of its ranges, of ancestors too, and its ids.';

-- A fold over the undos of an agent, the newest first: one that was taken back itself takes nothing back.
create function ikigai_take_back(taken bigint[], undo bigint, target bigint) returns bigint[]
language sql immutable parallel safe
  return case when undo = any (taken) or target is null or target >= undo then taken else taken || target end;
comment on function ikigai_take_back(bigint[], bigint, bigint) is
  'Adds the target of an undo to those that are not in force, unless the undo is one of them.';
create aggregate ikigai_taken_back(undo bigint, target bigint) (
  sfunc = ikigai_take_back, stype = bigint[], initcond = '{}', parallel = safe
);
comment on aggregate ikigai_taken_back(bigint, bigint) is
  'Of the undos of one agent, ordered by id descending: the events that are not in force because of them.';

create view filter_events as
select
  filter.id,
  filter.agent_id,
  filter.created_at,
  coalesce(filter.data ->> 'mode', '') as mode,
  coalesce(filter.content, '') as criteria,
  ikigai_filtered(filter.agent_id, filter.data) as filtered_message_ids,
  ikigai_id(filter.data -> 'planning') as planning_start_id,
  case when ikigai_id(filter.data -> 'planning') is not null then (
    select max(messages.id) from messages
    where messages.agent_id = filter.agent_id and messages.id < filter.id and messages.kind = 'turn_end'
  ) end as planning_end_id,
  coalesce(ikigai_number(filter.data -> 'before'), 0) as context_size_before,
  coalesce(ikigai_number(filter.data -> 'after'), 0) as context_size_after,
  filter.id <> all (
    select unnest(ikigai_taken_back(undo.id, ikigai_id(undo.data -> 'of') order by undo.id desc)) from messages undo
    where undo.agent_id = filter.agent_id and undo.id > filter.id and undo.kind = 'undo'
  ) as in_force
from messages filter
where filter.kind = 'filter';
comment on view filter_events is
  'The events by which /forget and /remember excluded others from the context; the log keeps them all. Order by id.';
comment on column filter_events.id is 'The filter event''s.';
comment on column filter_events.agent_id is
  'The session: the agent whose context was filtered. The ids may be of its ancestors'' events.';
comment on column filter_events.created_at is 'When the filter was stored.';
comment on column filter_events.mode is
  'forget excludes what the criteria match; remember excludes everything else.';
comment on column filter_events.criteria is 'What the user asked for.';
comment on column filter_events.filtered_message_ids is 'The excluded messages, without those of the planning talk.';
comment on column filter_events.planning_start_id is
  'The first event of the planning talk, which is excluded, too; null if there was none.';
comment on column filter_events.planning_end_id is 'The last event of the planning talk.';
comment on column filter_events.context_size_before is 'Tokens of the context before the filter.';
comment on column filter_events.context_size_after is 'Tokens of the context after the filter.';
comment on column filter_events.in_force is 'False if an undo takes it back that is itself in force.';
