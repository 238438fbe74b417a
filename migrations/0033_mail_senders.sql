-- Version 33: who may continue an agent of another owner sends no messages from it to other agents of that owner.

-- A message arrives if the owner of its sender may continue its receiver. Where somebody else stored it, they must be
-- allowed to continue the receiver, too: it would arrive as the owner's, and its answer in the agent that they read.
create function ikigai_check_sender() returns trigger language plpgsql as $$
begin
  if not exists (select from agents where id = new.agent_id and owner = session_user::text)
     and not exists (
       select from agent_access where role = session_user::text and agent_id::text = new.data ->> 'to' and may_write
     ) then
    raise insufficient_privilege using message = 'only who may continue an agent may write to it';
  end if;
  return null;
end
$$;
comment on function ikigai_check_sender() is
  'Lets a role send messages from an agent of another owner only to agents that it may continue.';

-- "answers" is a number of messages, and not the id of one: read as an id it let mail arrive from owners who may not
-- continue the receiver.
create or replace function ikigai_waiting_mail(receiver text, most integer)
returns table (
  id bigint, sender text, name text, content text, ending text, by_user boolean, wants_reply boolean, attended boolean,
  answers bigint
)
language plpgsql stable security definer as $$
begin
  if not (pg_has_role(session_user, current_user, 'member') or exists (
    select from agent_access where role = session_user::text and agent_id::text = receiver and may_write
  )) then
    return;
  end if;
  return query
  select sent.id, sent.agent_id::text, agents.name, coalesce(sent.content, ''), coalesce(sent.data ->> 'ending', ''),
         coalesce(sent.data -> 'by_user', 'false') = 'true', coalesce(sent.data -> 'wants_reply', 'false') = 'true',
         coalesce(sent.data -> 'attended', 'false') = 'true', coalesce(ikigai_id(sent.data -> 'answers'), 0)
  from messages sent join agents on agents.id = sent.agent_id
  where sent.kind = 'mail_sent' and sent.data ->> 'to' = receiver and not exists (
    select from messages taken
    where taken.kind = 'mail_taken' and ikigai_id(taken.data -> 'of') = sent.id and taken.agent_id = receiver::uuid
  ) and exists (
    select from agent_access where role = agents.owner and agent_access.agent_id = receiver::uuid and may_write
  )
  order by sent.id limit most;
end
$$;

do $$
declare each text;
begin
  foreach each in array array['ikigai_check_sender()', 'ikigai_waiting_mail(text, integer)'] loop
    execute format('alter function %s set search_path to %I, pg_temp', each, current_schema());
  end loop;
end
$$;

-- Behind the other conditions: a subagent and the message to it are stored at once.
create trigger check_sender after insert on messages for each row
  when (new.kind = 'mail_sent' and row_security_active('messages'::regclass)) execute function ikigai_check_sender();

select ikigai_secure();
