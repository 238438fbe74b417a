-- Version 18: excerpts of turns that are recalled by themselves are messages of a conversation, too.

create or replace function ikigai_filtered(agent uuid, filter jsonb) returns bigint[] language sql stable parallel safe
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

create or replace view turns as
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
comment on column turns.messages is 'Its events of the conversation: user, recall, assistant, tool_call, tool_result.';

create or replace view transcript as
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
comment on column transcript.kind is
  'Who speaks: user, assistant, tool_call, tool_result; recall for excerpts of earlier turns; or what happened: clear, mark …, turn_end if a turn broke off.';
