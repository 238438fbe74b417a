-- The index: the words of the log for searches, and its stems for recall. All of it is made from the log in the background.

-- Progress -----------------------------------------------------------------------------------------------------------

create table search_behind (
  index_name text not null,
  agent_id uuid not null references agents,
  primary key (index_name, agent_id)
);
comment on table search_behind is
  'Agents whose events may be missing in an index. An agent that no program has open is taken out once it is indexed.';
comment on column search_behind.index_name is 'The index: words or stems.';
comment on column search_behind.agent_id is 'The agent.';

-- A program marks the agent as used after it has acquired the write lock, and before its first append. So the append
-- itself writes nothing here.
create function ikigai_list_behind() returns trigger language plpgsql set search_path from current as $$
begin
  -- Without a change the statement still waits for an indexer that is about to take the agent out.
  insert into search_behind (index_name, agent_id) select unnest(array['words', 'stems']), new.id
  on conflict (index_name, agent_id) do update set agent_id = excluded.agent_id where false;
  return null;
end
$$;
comment on function ikigai_list_behind() is 'Lists an agent that is used as one whose events may be missing in an index.';
create trigger list_behind after insert or update of last_used_at on agents
  for each row execute function ikigai_list_behind();

-- Words --------------------------------------------------------------------------------------------------------------

create table search_pieces (
  message bigint not null,
  start integer not null check (start >= 0),
  length integer not null check (length > 0),
  at timestamptz not null,
  terms tsvector not null,
  primary key (message, start)
);
comment on table search_pieces is
  'The full-text index: the text of the events in pieces of at most 64 KB; rebuilt from the log where it is missing.';
comment on column search_pieces.message is 'The event.';
comment on column search_pieces.start is 'Where the piece begins in the text of the event, in characters.';
comment on column search_pieces.length is 'Characters of the piece.';
comment on column search_pieces.at is 'When the event was stored.';
comment on column search_pieces.terms is
  'Its words, folded, its kind (#) and its agent (@), each behind three letters that stand for 16,384 ids in a row.';
-- A list of pending entries would have to be read by every search, and be cleared by some unlucky one.
create index search_terms on search_pieces using gin (terms) with (fastupdate = off);

create table search_progress (
  agent_id uuid primary key references agents,
  seq integer not null,
  place integer not null default 0 check (place >= 0)
);
comment on table search_progress is 'How far the log of each agent is indexed.';
comment on column search_progress.seq is 'The last event that is indexed; within an agent, events are stored in the order of seq.';
comment on column search_progress.place is 'Characters of the next event that are indexed already.';

create table search_segments (
  segment integer primary key,
  newest_at timestamptz not null,
  is_missing boolean not null default false
);
comment on table search_segments is 'Ranges of 16,384 ids whose text is not packed yet, or not all of it.';
comment on column search_segments.segment is 'The ids divided by 16,384.';
comment on column search_segments.newest_at is 'When the newest event in it was stored, or later.';
comment on column search_segments.is_missing is 'True if it is to be packed anew, and can be searched only then.';

-- Segments that the ids have left behind are kept in packs: blocks of words in their order, each word with the pieces
-- that have it. A pack of a higher level has the words of eight packs below it.
create table search_packs (
  level smallint not null check (level between 0 and 4),
  number integer not null check (number >= 0),
  newest_at timestamptz not null,
  pieces bytea,
  merged bytea,
  is_complete boolean not null,
  is_covered boolean not null default false,
  has_pages boolean not null default true,
  primary key (level, number)
);
alter table search_packs alter column pieces set storage external;
create index search_packs_outdated on search_packs (number) where level = 0 and not has_pages;
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
comment on column search_packs.has_pages is
  'False at level 0 until it is certain that it has the words of the pages that replies rely on.';

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
create function ikigai_unpack_purged() returns trigger language plpgsql set search_path from current as $$
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

-- Stems --------------------------------------------------------------------------------------------------------------

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
comment on table recall_parts is 'Parts of the index: documents in a row, at most 65,536, which share rows of postings.';
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
  'Four bytes for each document: its number, counted from the last multiple of 4,096 at the first of its part (two bytes), how often it has the stem (at most 15), and its length as a code.';

create table recall_progress (
  agent_id uuid primary key references agents,
  seq integer not null,
  place integer not null default 0 check (place >= 0)
);
comment on table recall_progress is 'How far the log of each agent has been taken into the index of stems.';
comment on column recall_progress.agent_id is 'The agent.';
comment on column recall_progress.seq is 'The last event that is in it; within an agent, events are stored in the order of seq.';
comment on column recall_progress.place is 'How many characters of the next event are in it, too.';
