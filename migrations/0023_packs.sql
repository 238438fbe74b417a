-- Version 23: the index of words keeps segments that the ids have left behind in packs: blocks of words in their order,
-- each word with the pieces that have it. A pack of a higher level has the words of eight packs below it. Existing
-- segments are packed in the background; until then they are searched as before.

-- Programs of an earlier version, which know no packs, shall fail here and not miss what was packed.
alter table search_segments drop column words;
alter table search_segments rename column newest to newest_at;
alter table search_segments add column is_missing boolean not null default false;
comment on table search_segments is 'Ranges of 16,384 ids whose text is not packed yet, or not all of it.';
comment on column search_segments.newest_at is 'When the newest event in it was stored, or later.';
comment on column search_segments.is_missing is 'True if it is to be packed anew, and can be searched only then.';

create table search_packs (
  level smallint not null check (level between 0 and 4),
  number integer not null check (number >= 0),
  newest_at timestamptz not null,
  pieces bytea,
  merged bytea,
  is_complete boolean not null,
  is_covered boolean not null default false,
  primary key (level, number)
);
alter table search_packs alter column pieces set storage external;
create index search_packs_top on search_packs (level, number) where not is_covered;
comment on table search_packs is
  'Packed parts of the index of words: at level 0 a segment of 16,384 ids, above it eight times as many at each level.';
comment on column search_packs.level is 'The level, from 0 to 4.';
comment on column search_packs.number is 'The ids divided by their number in a pack of this level.';
comment on column search_packs.newest_at is 'When the newest event in it was stored.';
comment on column search_packs.pieces is
  'At level 0, compressed: of each piece the id less the first one of the segment, where it begins, and its characters; 0 for the rest of the text.';
comment on column search_packs.merged is 'Above level 0, while it is made: the last word that is in it.';
comment on column search_packs.is_complete is 'False while it is made; then it is not searched.';
comment on column search_packs.is_covered is 'True if a complete pack of the next level has its words.';

create table search_blocks (
  level smallint not null,
  number integer not null,
  first bytea not null,
  words bytea not null,
  lists bytea not null,
  primary key (level, number, first)
);
alter table search_blocks alter column words set storage external, alter column lists set storage external;
comment on table search_blocks is 'The words of the packs, in their order, some hundreds in a row.';
comment on column search_blocks.level is 'The level of the pack.';
comment on column search_blocks.number is 'The number of the pack.';
comment on column search_blocks.first is 'The first of the words.';
comment on column search_blocks.words is 'The words, folded, with kinds (#) and agents (@), compressed.';
comment on column search_blocks.lists is
  'For each word, compressed: at level 0 the numbers of the pieces that have it, above it a byte with a bit for each pack that has it.';

-- What a pack holds cannot be taken out of it: the pack goes, and is made anew from the log.
create function ikigai_unpack(segments integer[]) returns void language plpgsql as $$
begin
  lock table search_packs in exclusive mode;  -- as whoever stores a pack
  -- A segment that is being packed now was read before.
  update search_segments set is_missing = is_missing where segment = any (segments);
  with touched as (
    select distinct level, segment >> 3 * level as number
    from unnest(segments) as purged (segment) cross join generate_series(0, 4) as level
  ), gone as (
    delete from search_packs using touched
    where (search_packs.level, search_packs.number) = (touched.level, touched.number)
    returning search_packs.level, search_packs.number, newest_at
  )
  insert into search_segments (segment, newest_at, is_missing) select number, newest_at, true from gone where level = 0
  on conflict (segment) do update set is_missing = true, newest_at = greatest(search_segments.newest_at, excluded.newest_at);
  with touched as (
    select distinct level, segment >> 3 * level as number
    from unnest(segments) as purged (segment) cross join generate_series(0, 4) as level
  )
  delete from search_blocks using touched
  where (search_blocks.level, search_blocks.number) = (touched.level, touched.number);
  with parents as (
    select distinct level, segment >> 3 * level as number
    from unnest(segments) as purged (segment) cross join generate_series(1, 4) as level
  )
  update search_packs set is_covered = false from parents
  where is_covered and search_packs.level = parents.level - 1
    and search_packs.number between parents.number << 3 and (parents.number << 3) + 7;
end
$$;
comment on function ikigai_unpack(integer[]) is 'Drops the packs that hold these segments; they are made anew later.';

-- Rows of the log change in a purge alone.
create function ikigai_unpack_purged() returns trigger language plpgsql security definer as $$
begin
  perform ikigai_unpack(array(select distinct (id >> 14)::integer from purged));
  return null;
end
$$;
comment on function ikigai_unpack_purged() is 'Drops the packs that hold words of purged events.';
create trigger unpack_changed after update on messages
  referencing old table as purged for each statement execute function ikigai_unpack_purged();
create trigger unpack_deleted after delete on messages
  referencing old table as purged for each statement execute function ikigai_unpack_purged();

create or replace function ikigai_forget(events bigint[]) returns void language plpgsql security definer as $$
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
  foreach each in array array['ikigai_unpack_purged()', 'ikigai_forget(bigint[])'] loop
    execute format('alter function %s set search_path to %I, pg_temp', each, current_schema());
  end loop;
end
$$;

-- Other roles that use the agents fill and read the index, too.
do $$
declare granted record;
begin
  for granted in
    select distinct privilege_type as privilege, case acl.grantee when 0 then 'public' else acl.grantee::regrole::text end as role
    from pg_class cross join aclexplode(relacl) as acl
    where pg_class.oid = 'agents'::regclass and privilege_type in ('SELECT', 'INSERT', 'UPDATE', 'DELETE')
  loop
    execute format('grant %s on search_packs, search_blocks to %s', granted.privilege, granted.role);
  end loop;
end
$$;
select ikigai_secure();
