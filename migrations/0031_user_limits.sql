-- Version 31: what a user of a shared database cannot do by functions and rows that are theirs.

-- A message arrives once, in the log of its receiver. What other logs say of it cannot keep it from arriving.
drop index messages_mail_taken;
create unique index messages_mail_taken on messages (ikigai_id(data -> 'of'), agent_id) where kind = 'mail_taken';

-- Its search_path is fixed by ikigai_secure.
create or replace function ikigai_list_behind() returns trigger language plpgsql as $$
begin
  insert into search_behind (index_name, agent_id) select unnest(array['words', 'stems', 'usage']), new.id
  on conflict (index_name, agent_id) do update set agent_id = excluded.agent_id where false;
  return null;
end
$$;

-- A trigger function that runs as its owner believes the row that it gets. On a table of their own a role could let it
-- believe anything. Triggers that exist need no right to their function.
create or replace function ikigai_secure() returns void language plpgsql as $$
declare each regclass; made regprocedure;
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
  execute format('alter function ikigai_list_behind() security definer set search_path to %I, pg_temp', current_schema());
  for made in
    select oid from pg_proc
    where pronamespace = quote_ident(current_schema())::regnamespace and prorettype = 'trigger'::regtype
      and has_function_privilege('public', oid, 'execute')
  loop
    execute format('revoke execute on function %s from public', made);
  end loop;
end
$$;

create or replace function ikigai_refresh_access(of_role text) returns void language plpgsql security definer as $$
begin
  -- Of two shares that end at once, each would else put back what the other one takes. A new agent waits, too.
  lock table agent_access in share row exclusive mode;
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

-- A schema of that name that is not the owner's may have a table with triggers, which would run as the owner.
create or replace function ikigai_list_accessible(of_role text, only_agent uuid) returns void
language plpgsql security definer as $$
declare place text := current_schema() || '_index_' || of_role;
begin
  if to_regclass(format('%I.search_behind', place)) is not null and exists (
    select from pg_namespace
    where nspname = place and nspowner = (select relowner from pg_class where oid = 'messages'::regclass)
  ) then
    execute format(
      'insert into %I.search_behind (index_name, agent_id)
       select index_name, agent_id from agent_access cross join unnest(''{words,stems,usage}''::text[]) as index_name
       where role = $1 and ($2 is null or agent_id = $2) on conflict do nothing', place
    ) using of_role, only_agent;
  end if;
end
$$;

-- A transaction of the role that reads its index must not keep a share from ending, nor its owner from purging.
create or replace function ikigai_renew_indexes(of_role text) returns void language plpgsql security definer as $$
declare place text := current_schema() || '_index_' || of_role; filled text;
begin
  select string_agg(pg_class.oid::regclass::text, ', ') into filled
  from pg_class join pg_namespace on pg_namespace.oid = relnamespace
  where nspname = place and relkind = 'r'
    and nspowner = (select relowner from pg_class where oid = 'messages'::regclass);
  if filled is not null then
    begin
      execute 'truncate ' || filled;
    exception when lock_not_available then
      execute format('comment on schema %I is %L', place, 'to be made anew');  -- the next start of the owner does it
    end;
    perform ikigai_list_accessible(of_role, null);
  end if;
end
$$;
alter function ikigai_renew_indexes(text) set lock_timeout = '1s';

-- An id that was not given yet would be in the way of whoever stores the event that gets it.
create function ikigai_is_given(id bigint) returns boolean language plpgsql security definer as $$
begin
  return id <= pg_sequence_last_value('messages_id_seq');
end
$$;
comment on function ikigai_is_given(bigint) is 'True if an event has this id, or can have had it.';

create policy given on messages as restrictive for insert with check (ikigai_is_given(id));

-- The indexes, lists and reports of others fail with times that no calendar of a program has.
create policy dated on messages as restrictive for insert with check (
  created_at between '1900-01-01' and clock_timestamp() + interval '1 day'
);
create policy dated_again on messages as restrictive for update using (true) with check (
  created_at between '1900-01-01' and clock_timestamp() + interval '1 day'
);
create policy dated on agents as restrictive for insert with check (
  least(created_at, last_used_at, killed_at, archived_at, purged_at) >= '1900-01-01'
  and greatest(created_at, last_used_at, killed_at, archived_at, purged_at) <= clock_timestamp() + interval '1 day'
);
create policy dated_again on agents as restrictive for update using (true) with check (
  least(created_at, last_used_at, killed_at, archived_at, purged_at) >= '1900-01-01'
  and greatest(created_at, last_used_at, killed_at, archived_at, purged_at) <= clock_timestamp() + interval '1 day'
);

-- Whoever may read the agent adds its reservation up: with these numbers that fails, or no cap has room any more.
alter table reservations add constraint reservations_in_range check (
  lock_key between 0 and 4294967295
  and greatest(usd, sent_usd, output_usd) < 1e15 and greatest(tokens, sent_tokens) < 1000000000000000
) not valid;

create or replace function ikigai_forget(events bigint[]) returns void language plpgsql security definer as $$
declare place record; is_there boolean;
begin
  if not pg_has_role(session_user, current_user, 'member') and exists (
    select from unnest(events) as purged (id)
    left join messages on messages.id = purged.id left join agents on agents.id = messages.agent_id
    where agents.owner is distinct from session_user::text
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
           or exists (select from %1$I.search_packs where level = 0 and number = any (select id >> 14 from unnest($1) as purged (id)))
           or exists (select from %1$I.recall_documents where message = any ($1))', place.name
    ) into is_there using events;
    if is_there then
      perform ikigai_renew_indexes(place.role);
    end if;
  end loop;
  if not pg_has_role(session_user, current_user, 'member') then
    delete from search_pieces where message = any (events);
    if exists (select from recall_documents where message = any (events)) then
      truncate recall_index, recall_documents, recall_runs, recall_parts, recall_postings, recall_progress;
    end if;
  end if;
end
$$;

do $$
declare each text;
begin
  foreach each in array array[
    'ikigai_refresh_access(text)', 'ikigai_list_accessible(text, uuid)', 'ikigai_renew_indexes(text)',
    'ikigai_is_given(bigint)', 'ikigai_forget(bigint[])', 'ikigai_secure()'
  ]
  loop
    execute format('alter function %s set search_path to %I, pg_temp', each, current_schema());
  end loop;
end
$$;
select ikigai_secure();
