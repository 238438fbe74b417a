-- Version 22: each role reads and writes its own agents, and those that are shared with it. The owner of the tables and
-- superusers are not limited.

create table agent_access (
  role text not null,
  agent_id uuid not null,
  upto bigint not null,
  may_write boolean not null,
  primary key (role, agent_id)
);
comment on table agent_access is
  'What each role may read and write. It follows from owners, shares and forks, and is kept by triggers.';
comment on column agent_access.role is 'The database role.';
comment on column agent_access.agent_id is 'The agent.';
comment on column agent_access.upto is
  'The last event that it may read: the one where a fork of its begins; 9223372036854775807 for all of them.';
comment on column agent_access.may_write is 'True if it may continue the agent.';
create index agent_access_agent on agent_access (agent_id);

create function ikigai_refresh_access(of_role text) returns void language plpgsql security definer as $$
begin
  delete from agent_access where role = of_role;
  insert into agent_access (role, agent_id, upto, may_write)
  with recursive whole (id, may_write) as (
    select agents.id, true from agents where agents.owner = of_role
    union all
    select agent_id, agent_shares.may_write from agent_shares where agent_shares.role = of_role and os_user = ''
  ), worked (id, may_write) as (
    select whole.id, whole.may_write from whole
    union
    select agents.id, worked.may_write from worked join agents on agents.parent = worked.id where agents.made
  ), line (id, parent, forked_at, upto, may_write) as (
    select agents.id, agents.parent, agents.forked_at, 9223372036854775807, worked.may_write
    from worked join agents on agents.id = worked.id
    union
    select agents.id, agents.parent, agents.forked_at, least(line.upto, line.forked_at), false
    from line join agents on agents.id = line.parent where agents.owner <> of_role
  )
  select of_role, line.id, max(line.upto), bool_or(line.may_write) from line group by line.id;
  perform ikigai_list_accessible(of_role, null);
end
$$;
comment on function ikigai_refresh_access(text) is 'Writes the rows of a role in agent_access anew.';
revoke execute on function ikigai_refresh_access(text) from public;

-- Whoever forks a shared agent keeps what was shared up to there. What tools make is shared as the agent is that it
-- works for.
create function ikigai_grant_access() returns trigger language plpgsql security definer as $$
begin
  insert into agent_access (role, agent_id, upto, may_write)
  values (new.owner, new.id, 9223372036854775807, true) on conflict do nothing;
  if new.made then
    insert into agent_access (role, agent_id, upto, may_write)
    select role, new.id, upto, may_write from agent_access where agent_id = new.parent and upto = 9223372036854775807
    on conflict do nothing;
  end if;
  if new.parent is not null then
    insert into agent_access (role, agent_id, upto, may_write)
    with recursive line (id, parent, forked_at, upto) as (
      select id, parent, forked_at, new.forked_at from agents where id = new.parent and owner <> new.owner
      union
      select agents.id, agents.parent, agents.forked_at, least(line.upto, line.forked_at)
      from line join agents on agents.id = line.parent where agents.owner <> new.owner
    )
    select new.owner, id, max(upto), false from line group by id
    on conflict (role, agent_id) do update set upto = greatest(agent_access.upto, excluded.upto);
    if found then
      perform ikigai_list_accessible(new.owner, null);
    end if;
  end if;
  perform ikigai_list_accessible(role, new.id) from agent_access where agent_id = new.id;
  return null;
end
$$;
comment on function ikigai_grant_access() is 'Keeps agent_access when an agent is made.';
create trigger grant_access after insert on agents for each row execute function ikigai_grant_access();

-- Once for a statement: it can move all agents. Roles that are limited move none.
create function ikigai_move_access() returns trigger language plpgsql security definer as $$
declare each text;
begin
  if pg_has_role(session_user, current_user, 'member') then
    for each in
      select owner from agents
      union select role from agent_shares where os_user = ''
      union select role from agent_access
    loop
      perform ikigai_refresh_access(each);
    end loop;
  end if;
  return null;
end
$$;
comment on function ikigai_move_access() is 'Keeps agent_access when agents get another owner.';
create trigger move_access after update of owner on agents for each statement execute function ikigai_move_access();

-- What a role may not choose: who owns an agent, and of whose past it is a fork.
create or replace function ikigai_own_agent() returns trigger language plpgsql as $$
declare maker record; last_seen bigint;
begin
  if tg_op = 'UPDATE' then
    if row_security_active('agents') then
      if (new.id, new.owner, new.owner_user, new.made) is distinct from (old.id, old.owner, old.owner_user, old.made)
         or (new.parent, new.forked_at) is distinct from (old.parent, old.forked_at) then
        raise insufficient_privilege using message = 'an agent keeps its owner and its parent';
      elsif old.owner <> session_user::text
            and (new.name, new.created_at, new.ephemeral, new.archived_at, new.purged_at)
                is distinct from (old.name, old.created_at, old.ephemeral, old.archived_at, old.purged_at) then
        raise insufficient_privilege using message = format('only %s may rename or archive the agent', old.owner);
      end if;
    end if;
    return new;
  end if;
  select owner, owner_user, forked_at into maker from agents where id = new.parent;
  if new.made and maker.owner is not null then
    new.owner := maker.owner;
    new.owner_user := maker.owner_user;
  elsif row_security_active('agents') then
    new.owner := session_user;
  end if;
  if new.parent is not null and row_security_active('agents') and maker.owner is distinct from session_user::text then
    select max(id) into last_seen from messages where agent_id = new.parent;
    if maker.owner is null or new.forked_at > coalesce(last_seen, maker.forked_at, 0) then
      raise insufficient_privilege using message = 'an agent is forked at an event that its new owner may read';
    end if;
  end if;
  return new;
end
$$;
comment on function ikigai_own_agent() is
  'Gives a subagent the owner of the agent that it works for, any other agent the role that makes it.';
drop trigger own_agent on agents;
create trigger own_agent before insert or update on agents for each row execute function ikigai_own_agent();

create policy readable on agents for select using (
  owner = session_user::text
  or exists (select from agent_access where role = session_user::text and agent_access.agent_id = agents.id)
  or made and exists (
    select from agent_access
    where role = session_user::text and agent_access.agent_id = agents.parent and upto = 9223372036854775807
  )
);
create policy made on agents for insert with check (
  owner = session_user::text
  or made and exists (
    select from agent_access where role = session_user::text and agent_access.agent_id = agents.parent and may_write
  )
);
create policy writable on agents for update using (
  owner = session_user::text
  or exists (select from agent_access where role = session_user::text and agent_access.agent_id = agents.id and may_write)
);

-- The first condition is one that the planner can look up for many rows at once.
create policy readable on messages for select using (
  exists (
    select from agent_access
    where role = session_user::text and agent_access.agent_id = messages.agent_id and upto = 9223372036854775807
  ) or exists (
    select from agent_access
    where role = session_user::text and agent_access.agent_id = messages.agent_id and messages.id <= upto
  )
);
-- The index of words has no segment for an id from 2^45 on.
create policy writable on messages for insert with check (
  id < 35184372088832 and exists (
    select from agent_access where role = session_user::text and agent_access.agent_id = messages.agent_id and may_write
  )
);
create policy purged on messages for update using (
  exists (select from agents where agents.id = messages.agent_id and agents.owner = session_user::text)
);
create policy removed on messages for delete using (
  exists (select from agents where agents.id = messages.agent_id and agents.owner = session_user::text)
);

do $$
declare each text;
begin
  foreach each in array '{drafts,reservations}'::text[] loop
    execute format(
      'create policy readable on %I for select using (exists (
         select from agent_access
         where role = session_user::text and agent_access.agent_id = %1$I.agent_id and upto = 9223372036854775807
       ))', each);
    execute format(
      'create policy writable on %I using (exists (
         select from agent_access
         where role = session_user::text and agent_access.agent_id = %1$I.agent_id and may_write
       ))', each);
  end loop;
end
$$;
create policy own on agent_uses using (role = session_user::text);
create policy readable on agent_shares for select using (
  role = session_user::text
  or exists (select from agents where agents.id = agent_shares.agent_id and agents.owner = session_user::text)
);
create policy own on agent_access for select using (role = session_user::text);
create policy readable on ikigai_migrations for select using (true);

-- What is made from the log holds words and sums of all owners. No policy lets anybody read it: a role that is added has
-- tables of its own for that, which it finds first.
create function ikigai_secure() returns void language plpgsql as $$
declare each regclass;
begin
  for each in
    select oid from pg_class
    where relnamespace = quote_ident(current_schema())::regnamespace and relkind in ('r', 'p') and not relrowsecurity
  loop
    execute format('alter table %s enable row level security', each);
  end loop;
  for each in
    select oid from pg_class
    where relnamespace = quote_ident(current_schema())::regnamespace and relkind = 'v'
      and not coalesce(reloptions, '{}') @> '{security_invoker=true}'
  loop
    execute format('alter view %s set (security_invoker = true)', each);
  end loop;
  if to_regprocedure('ikigai_list_behind()') is not null then
    execute format('alter function ikigai_list_behind() security definer set search_path to %I, pg_temp', current_schema());
  end if;
end
$$;
comment on function ikigai_secure() is 'Lets row security hold for all tables and views. Each migration ends with it.';
revoke execute on function ikigai_secure() from public;
select ikigai_secure();

create or replace function ikigai_share(target uuid, who text, level text) returns text
language plpgsql security definer as $$
declare shared record; to_role text := who; to_user text := '';
begin
  select owner, owner_user, made into shared from agents where id = target and purged_at is null;
  if not found or not (shared.owner = session_user::text or pg_has_role(session_user, current_user, 'member')) then
    return 'not yours';
  elsif shared.made then
    return 'subagent';
  elsif level = 'none' then
    delete from agent_shares
    where agent_id = target and (role = who and os_user = '' or role = shared.owner and os_user = who);
    if not found then
      return 'not shared';
    end if;
    perform ikigai_refresh_access(who);
    perform ikigai_renew_indexes(who);
    return 'done';
  elsif not exists (select from pg_roles where rolname = who) then
    if not exists (select from agent_uses where role = shared.owner and os_user = who)
       and not exists (select from agents where owner = shared.owner and owner_user = who) then
      return 'unknown';
    end if;
    to_role := shared.owner;
    to_user := who;
  end if;
  if to_role = shared.owner and (to_user = '' or shared.owner_user in ('', to_user)) then
    return 'own';
  end if;
  -- Of a fork, the past of another owner goes with it: that is theirs to share.
  if to_role <> shared.owner and exists (
    select from ikigai_lineage(target) as line join agents on agents.id = line.agent_id
    where agents.owner <> shared.owner and not exists (
      select from agent_access where role = to_role and agent_access.agent_id = line.agent_id and upto >= line.upto
    )
  ) then
    return 'past of others';
  end if;
  insert into agent_shares (agent_id, role, os_user, may_write) values (target, to_role, to_user, level = 'write')
  on conflict (agent_id, role, os_user) do update set may_write = excluded.may_write;
  if to_user = '' then
    perform ikigai_refresh_access(to_role);
    return 'done';
  end if;
  return 'same login';
end
$$;

-- A message arrives if the owner of its sender may continue its receiver, or as the answer to one that was sent from there.
create function ikigai_waiting_mail(receiver text, most integer)
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
  ) and (
    exists (
      select from agent_access where role = agents.owner and agent_access.agent_id = receiver::uuid and may_write
    ) or exists (
      select from messages asked
      where asked.id = ikigai_id(sent.data -> 'answers') and asked.agent_id = receiver::uuid
        and asked.kind = 'mail_sent' and asked.data ->> 'to' = sent.agent_id::text
    )
  )
  order by sent.id limit most;
end
$$;
comment on function ikigai_waiting_mail(text, integer) is
  'The messages to an agent that have not arrived, from agents whose owners may write to it.';

create function ikigai_list_accessible(of_role text, only_agent uuid) returns void
language plpgsql security definer as $$
declare place text := format('%I.search_behind', current_schema() || '_index_' || of_role);
begin
  if to_regclass(place) is not null then
    execute format(
      'insert into %s (index_name, agent_id)
       select index_name, agent_id from agent_access cross join unnest(''{words,stems,usage}''::text[]) as index_name
       where role = $1 and ($2 is null or agent_id = $2) on conflict do nothing', place
    ) using of_role, only_agent;
  end if;
end
$$;
comment on function ikigai_list_accessible(text, uuid) is
  'Lists what a role may read, or one agent of that, as what may be missing in the indexes of the role.';
revoke execute on function ikigai_list_accessible(text, uuid) from public;

create function ikigai_renew_indexes(of_role text) returns void language plpgsql security definer as $$
declare filled text;
begin
  select string_agg(pg_class.oid::regclass::text, ', ') into filled
  from pg_class join pg_namespace on pg_namespace.oid = relnamespace
  where nspname = current_schema() || '_index_' || of_role and relkind = 'r'
    and nspowner = (select relowner from pg_class where oid = 'messages'::regclass);
  if filled is not null then
    execute 'truncate ' || filled;
    perform ikigai_list_accessible(of_role, null);
  end if;
end
$$;
comment on function ikigai_renew_indexes(text) is 'Empties the indexes of a role, which its programs then fill anew.';
revoke execute on function ikigai_renew_indexes(text) from public;

create function ikigai_list_used() returns trigger language plpgsql security definer as $$
begin
  perform ikigai_list_accessible(role, new.id) from agent_access where agent_id = new.id;
  return null;
end
$$;
comment on function ikigai_list_used() is 'Lists an agent that is used as one whose events may be missing in the indexes of roles.';
create trigger list_used after update of last_used_at on agents for each row execute function ikigai_list_used();

create function ikigai_forget(events bigint[]) returns void language plpgsql security definer as $$
declare place record; is_there boolean;
begin
  if not pg_has_role(session_user, current_user, 'member') and exists (
    select from messages join agents on agents.id = messages.agent_id
    where messages.id = any (events) and agents.owner <> session_user::text
  ) then
    raise insufficient_privilege using message = 'only the owner of an agent may purge its events';
  end if;
  -- The index of a role is made anew, in the background.
  for place in
    select nspname as name, rolname as role from pg_namespace join pg_roles on nspname = current_schema() || '_index_' || rolname
    where nspowner = (select relowner from pg_class where oid = 'messages'::regclass)
  loop
    execute format(
      'select exists (select from %1$I.search_pieces where message = any ($1))
           or exists (select from %1$I.recall_documents where message = any ($1))', place.name
    ) into is_there using events;
    if is_there then
      perform ikigai_renew_indexes(place.role);
    end if;
  end loop;
  if not pg_has_role(session_user, current_user, 'member') then
    delete from search_pieces where message = any (events);
    update search_segments set words = null where segment in (select id / 16384 from unnest(events) as purged (id));
    if exists (select from recall_documents where message = any (events)) then
      truncate recall_index, recall_documents, recall_runs, recall_parts, recall_postings, recall_progress;
    end if;
  end if;
end
$$;
comment on function ikigai_forget(bigint[]) is 'Removes what the indexes of other roles have of events that are purged.';

do $$
declare each text;
begin
  foreach each in array array[
    'ikigai_refresh_access(text)', 'ikigai_grant_access()', 'ikigai_move_access()', 'ikigai_own_agent()',
    'ikigai_share(uuid, text, text)', 'ikigai_waiting_mail(text, integer)', 'ikigai_list_accessible(text, uuid)',
    'ikigai_renew_indexes(text)', 'ikigai_list_used()', 'ikigai_forget(bigint[])', 'ikigai_secure()'
  ]
  loop
    execute format('alter function %s set search_path to %I, pg_temp', each, current_schema());
  end loop;
end
$$;

-- Other roles that use the agents see what they may do: policies and statements ask for it as the role.
do $$
declare granted record;
begin
  for granted in
    select distinct case acl.grantee when 0 then 'public' else acl.grantee::regrole::text end as role
    from pg_class cross join aclexplode(relacl) as acl
    where pg_class.oid = 'agents'::regclass and privilege_type = 'SELECT'
  loop
    execute format('grant select on agent_access to %s', granted.role);
  end loop;
end
$$;

do $$
declare owning text;
begin
  for owning in select owner from agents union select role from agent_shares where os_user = '' loop
    perform ikigai_refresh_access(owning);
  end loop;
end
$$;
