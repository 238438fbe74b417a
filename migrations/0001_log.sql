-- The log: agents, the events of each, and what is kept beside them while a reply streams.
--
-- ikigai keeps everything in one schema, which is the unit of trust: PostgreSQL's own grants guard it, and nothing in it
-- protects its users from one another. Four files make it, in the order in which one explains it: the log, the usage
-- that is derived from it, the index of its words, and the views for people.

create table ikigai_migrations (
  version integer primary key,
  applied_at timestamptz not null default clock_timestamp()
);
comment on table ikigai_migrations is
  'The number of this schema, in one row. Programs that know another number refuse to use the schema.';

-- What events hold as JSON -------------------------------------------------------------------------------------------

create function ikigai_number(value jsonb) returns numeric language sql immutable parallel safe
  return case when jsonb_typeof(value) = 'number' then value::numeric end;
comment on function ikigai_number(jsonb) is
  'The exact number; null for a value that is no number, so that such a row does not make a report fail.';

create function ikigai_id(value jsonb) returns bigint language sql immutable parallel safe
  return case
    when ikigai_number(value) between 0 and 9223372036854775807 and ikigai_number(value) % 1 = 0
      then ikigai_number(value)::bigint
  end;
comment on function ikigai_id(jsonb) is
  'The id of an event; null for a value that is no id, so that such a row does not make a view fail.';

-- Agents -------------------------------------------------------------------------------------------------------------

create table agents (
  id uuid primary key,
  name text not null unique check (name <> ''),
  parent uuid references agents check (parent <> id),
  forked_at bigint check (forked_at >= 0),
  made boolean not null default false,
  directory text,
  created_at timestamptz not null default clock_timestamp(),
  last_used_at timestamptz not null default clock_timestamp(),
  killed_at timestamptz,
  archived_at timestamptz,
  ephemeral boolean not null default false,
  purged_at timestamptz,
  check ((parent is null) = (forked_at is null))
);
comment on table agents is 'Conversations, each with a log of its own; they form a tree by forking.';
comment on column agents.name is 'Its name, as users type it.';
comment on column agents.parent is 'The agent it was forked from; null for a root.';
comment on column agents.forked_at is 'The last event of its parent''s lineage that it shares; 0 shares nothing.';
comment on column agents.made is 'True for a subagent: a tool of its parent made it. False if a user forked it.';
comment on column agents.directory is 'The working directory it was last used in.';
comment on column agents.last_used_at is 'When a process last acquired or released its write lock.';
comment on column agents.killed_at is 'When it was killed; null if it was not. Its log is kept, and has an event about it.';
comment on column agents.archived_at is 'When it was taken out of the lists; null if it was not. It can still be used.';
comment on column agents.ephemeral is 'True if it is purged, with its forks, when the program that made it ends.';
comment on column agents.purged_at is 'When an ephemeral agent was purged: of its log only the usage is left.';

create index agents_parent on agents (parent) where parent is not null;
create index agents_used on agents (last_used_at, id) where purged_at is null;
create index agents_listed on agents (last_used_at, id)
  where purged_at is null and killed_at is null and archived_at is null;
create index agents_siblings on agents (parent, created_at, id)
  where purged_at is null and killed_at is null and archived_at is null;
create index agents_ephemeral on agents (id) where ephemeral and purged_at is null;

create function ikigai_lineage(agent uuid) returns table (depth integer, agent_id uuid, upto bigint)
language sql stable parallel safe
begin atomic
  with recursive line (depth, agent_id, parent, forked_at, upto) as (
    select 0, agents.id, agents.parent, agents.forked_at, 9223372036854775807
    from agents where agents.id = ikigai_lineage.agent
    union all
    select line.depth + 1, agents.id, agents.parent, agents.forked_at, least(line.upto, line.forked_at)
    from line join agents on agents.id = line.parent
  ) cycle agent_id set looped using path
  select line.depth, line.agent_id, line.upto from line where not line.looped;
end;
comment on function ikigai_lineage(uuid) is
  'The agent (depth 0), its parent (1) and so on to the root; of each it shares the events with ids up to `upto`.';

create table agent_uses (
  role text not null,
  agent_id uuid not null references agents,
  directory text,
  used_at timestamptz not null default clock_timestamp(),
  primary key (role, agent_id)
);
comment on table agent_uses is
  'When each role last used an agent: with several roles in a schema, each goes on in its own last conversation.';
comment on column agent_uses.role is 'The role that logged in to the database.';
comment on column agent_uses.directory is 'The working directory it was last used in by this role.';
create index agent_uses_last on agent_uses (role, used_at);
create index agent_uses_directory on agent_uses (role, directory, used_at);

-- Events -------------------------------------------------------------------------------------------------------------

create table messages (
  id bigint generated always as identity (cache 1) primary key,
  event_id uuid not null unique,
  agent_id uuid not null references agents,
  seq integer not null check (seq > 0),
  kind text not null check (kind <> ''),
  content text,
  data jsonb check (jsonb_typeof(data) = 'object'),
  created_at timestamptz not null default clock_timestamp(),
  unique (agent_id, seq)
);
comment on table messages is 'The log: every event of every agent, appended and never changed.';
comment on column messages.id is 'The handle of an event; ascends within an agent and along a lineage, not in time across agents.';
comment on column messages.event_id is 'Made before the event is first sent, so that a second attempt stores nothing twice.';
comment on column messages.seq is 'The event''s place within its agent: 1, 2, 3 … without gaps.';
comment on column messages.kind is 'What happened: user, assistant, tool_call, tool_result, turn_end, clear, mark …';
comment on column messages.content is 'The text people read and search.';
comment on column messages.data is 'The other fields of the event.';
comment on column messages.created_at is 'When it was stored, by the clock of the database; nothing is ordered by it.';

create index messages_agent on messages (agent_id, id);
create index messages_control on messages (agent_id, id)
  where kind in ('clear', 'mark', 'rewind', 'filter', 'undo', 'summary', 'settings', 'fork');
create index messages_clear on messages (agent_id, id) where kind = 'clear';
create index messages_undo on messages (agent_id, id) where kind = 'undo';
-- Without it the newest turns of an agent that was used long ago are looked for through all that was said since.
create index messages_turn_end on messages (agent_id, id) where kind = 'turn_end';
create index messages_user on messages (id) where kind = 'user';
-- Mail that waits for an agent, and mail that has arrived: once, in the log of its receiver.
create index messages_mail_sent on messages ((data ->> 'to'), id) where kind = 'mail_sent';
create unique index messages_mail_taken on messages (ikigai_id(data -> 'of'), agent_id) where kind = 'mail_taken';

create function ikigai_append_only() returns trigger language plpgsql as $$
begin
  -- The setting names one transaction, so that it cannot be left on by accident.
  if current_setting('ikigai.purge', true) is distinct from pg_current_xact_id()::text then
    raise exception 'the table messages only takes new rows: % refused', lower(tg_op)
      using errcode = 'restrict_violation';
  end if;
  return null;
end
$$;
comment on function ikigai_append_only() is
  'Refuses to change the log unless ikigai.purge holds the id of the running transaction.';
create trigger append_only before update or delete or truncate on messages
  for each statement execute function ikigai_append_only();

-- A row behind a gap is in no one's way until an event gets its number, and memory has it before that. The functions of
-- triggers find the tables of this schema, whatever the search_path of the session is.
create function ikigai_continue_log() returns trigger language plpgsql set search_path from current as $$
begin
  perform from messages where agent_id = new.agent_id and seq = new.seq - 1;
  if not found then
    raise exception 'event % of agent % does not follow the newest one', new.seq, new.agent_id
      using errcode = 'exclusion_violation';
  end if;
  return null;
end
$$;
comment on function ikigai_continue_log() is 'Refuses an event whose number is not the next one of its agent.';
-- Behind the insert: one statement may store many rows in any order, and each sees all of them.
create trigger continue_log after insert on messages for each row when (new.seq > 1)
  execute function ikigai_continue_log();

-- The reply that streams ---------------------------------------------------------------------------------------------

create table drafts (
  agent_id uuid primary key references agents,
  asked_by bigint not null,
  text text not null,
  thinking text not null default '',
  parts jsonb not null default '[]',
  saved_at timestamptz not null default clock_timestamp()
);
comment on table drafts is
  'The part of a streaming reply that is saved before the reply is complete; deleted when the reply is stored.';
comment on column drafts.asked_by is 'The event that the reply answers.';
comment on column drafts.thinking is 'The thinking of the reply so far.';
comment on column drafts.parts is
  'The order of text, thinking and calls in the reply: ["text", characters], ["thinking", characters], ["call", name].';
