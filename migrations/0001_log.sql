-- Version 1: agents, the log of their events, and the drafts of streaming replies.

create table ikigai_migrations (
  version integer primary key,
  name text not null,
  applied_at timestamptz not null default clock_timestamp()
);
comment on table ikigai_migrations is 'The migrations applied to this schema; the highest version is the version of the schema.';

create table agents (
  id uuid primary key,
  name text not null unique check (name <> ''),
  parent uuid references agents check (parent <> id),
  forked_at bigint check (forked_at >= 0),
  directory text,
  created_at timestamptz not null default clock_timestamp(),
  last_used_at timestamptz not null default clock_timestamp(),
  check ((parent is null) = (forked_at is null))
);
comment on table agents is 'Lines of conversation; they form a tree by forking.';
comment on column agents.name is 'What people call it.';
comment on column agents.parent is 'The agent it was forked from; null for a root.';
comment on column agents.forked_at is 'The last event of its parent''s lineage that it shares; 0 shares nothing.';
comment on column agents.directory is 'The working directory it was last used in.';
comment on column agents.last_used_at is 'When a program last took its pen, or put it down.';
create index agents_last_used on agents (last_used_at);

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
comment on column messages.event_id is 'Made by the program before it first tries to store the event, so that a second try stores nothing twice.';
comment on column messages.seq is 'The event''s place within its agent: 1, 2, 3 … without gaps.';
comment on column messages.kind is 'What happened: user, assistant, tool_call, tool_result, turn_end, clear, mark …';
comment on column messages.content is 'The text people read and search.';
comment on column messages.data is 'The other fields of the event.';
comment on column messages.created_at is 'When it was stored, by the clock of the database; nothing is ordered by it.';

create index messages_agent on messages (agent_id, id);
create index messages_control on messages (agent_id, id)
  where kind in ('clear', 'mark', 'rewind', 'filter', 'undo', 'summary', 'settings', 'fork');
create index messages_clear on messages (agent_id, id) where kind = 'clear';
create index messages_user on messages (id) where kind = 'user';

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

create table drafts (
  agent_id uuid primary key references agents,
  asked_by bigint not null,
  text text not null,
  saved_at timestamptz not null default clock_timestamp()
);
comment on table drafts is 'What a streaming reply has said so far; gone with the event that stores the reply.';
comment on column drafts.asked_by is 'The event that the reply answers.';
