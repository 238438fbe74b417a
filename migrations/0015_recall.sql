-- Version 15: an index of stems, by which recall ranks what was said; made from the log in the background.

create table recall_index (
  analysis integer primary key,
  next_number bigint not null default 0,
  documents bigint not null default 0,
  stems bigint not null default 0,
  languages jsonb not null default '{}'
);
comment on table recall_index is 'One row: figures of the index of stems. Whoever adds to the index locks it.';
comment on column recall_index.analysis is 'The number of the way in which stems are made; with another one the index is made anew.';
comment on column recall_index.next_number is 'The number of the next document.';
comment on column recall_index.documents is 'How many documents there are.';
comment on column recall_index.stems is 'How many stems they have together.';
comment on column recall_index.languages is 'How many documents there are in each language.';

create table recall_documents (
  number bigint primary key,
  message bigint not null,
  start integer not null check (start >= 0),
  agent_id uuid not null references agents,
  kind text not null,
  length integer not null check (length >= 0),
  unique (message, start)
);
create index recall_documents_agent on recall_documents (agent_id, number);
comment on table recall_documents is 'What recall ranks: events, long ones in pieces; made from the log.';
comment on column recall_documents.number is 'Counts the documents in the order of indexing.';
comment on column recall_documents.message is 'The event.';
comment on column recall_documents.start is 'Where the piece begins in the content of the event, in characters.';
comment on column recall_documents.agent_id is 'The agent of the event.';
comment on column recall_documents.kind is 'The kind of the event.';
comment on column recall_documents.length is 'In stems.';

create table recall_runs (
  agent_id uuid not null references agents,
  first bigint not null,
  last bigint not null,
  primary key (agent_id, first)
);
comment on table recall_runs is 'Documents of an agent whose numbers follow one another.';
comment on column recall_runs.agent_id is 'The agent.';
comment on column recall_runs.first is 'The number of the first one.';
comment on column recall_runs.last is 'The number of the last one.';

create table recall_parts (
  first bigint primary key,
  last bigint not null
);
comment on table recall_parts is 'Parts of the index: documents in a row, at most 4,096, which share rows of postings.';
comment on column recall_parts.first is 'The number of the first document.';
comment on column recall_parts.last is 'The number of the last document.';

create table recall_postings (
  stem text collate "C" not null,
  part bigint not null,
  postings bytea not null,
  primary key (stem, part)
);
create index recall_postings_part on recall_postings (part);
alter table recall_postings alter column postings set storage external;
comment on table recall_postings is 'The documents of each part that have a stem.';
comment on column recall_postings.stem is 'The stem, folded.';
comment on column recall_postings.part is 'The number of the first document of the part.';
comment on column recall_postings.postings is
  'Four bytes for each document: its number less that of the last multiple of 4,096 (two bytes), how often it has the stem (at most 15), and its length as a code.';

create table recall_progress (
  agent_id uuid primary key references agents,
  seq integer not null,
  place integer not null default 0 check (place >= 0)
);
comment on table recall_progress is 'How far the log of each agent has been taken into the index of stems.';
comment on column recall_progress.agent_id is 'The agent.';
comment on column recall_progress.seq is 'The last event that is in it; within an agent, events are stored in the order of seq.';
comment on column recall_progress.place is 'How many characters of the next event are in it, too.';

-- Other roles that use the agents fill and read the index, too.
do $$
declare granted record; made text;
begin
  for granted in
    select distinct privilege_type as privilege, case acl.grantee when 0 then 'public' else acl.grantee::regrole::text end as role
    from pg_class cross join aclexplode(relacl) as acl
    where pg_class.oid = 'agents'::regclass and privilege_type in ('SELECT', 'INSERT', 'UPDATE', 'DELETE')
  loop
    foreach made in array '{recall_index,recall_documents,recall_runs,recall_parts,recall_postings,recall_progress}'::text[] loop
      execute format('grant %s on %I to %s', granted.privilege, made, granted.role);
    end loop;
  end loop;
end
$$;
