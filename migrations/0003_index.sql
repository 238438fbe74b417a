-- The index of words, for searches and for recall. All of it is made from the log in the background.

-- Progress -----------------------------------------------------------------------------------------------------------

create table search_behind (agent_id uuid primary key references agents);
comment on table search_behind is
  'Agents whose events may be missing in the index. An agent that no program has open is taken out once it is indexed.';
comment on column search_behind.agent_id is 'The agent.';

-- A program marks the agent as used after it has acquired the write lock, and before its first append. So the append
-- itself writes nothing here.
create function ikigai_list_behind() returns trigger language plpgsql set search_path from current as $$
begin
  -- Without a change the statement still waits for an indexer that is about to take the agent out.
  insert into search_behind (agent_id) values (new.id)
  on conflict (agent_id) do update set agent_id = excluded.agent_id where false;
  return null;
end
$$;
comment on function ikigai_list_behind() is 'Lists an agent that is used as one whose events may be missing in the index.';
create trigger list_behind after insert or update of last_used_at on agents
  for each row execute function ikigai_list_behind();

create table search_progress (
  agent_id uuid primary key references agents,
  seq integer not null,
  place integer not null default 0 check (place >= 0)
);
comment on table search_progress is 'How far the log of each agent is indexed.';
comment on column search_progress.seq is 'The last event that is indexed; within an agent, events are stored in the order of seq.';
comment on column search_progress.place is 'Characters of the next event that are indexed already.';

-- Words --------------------------------------------------------------------------------------------------------------

create table search_figures (
  only_row boolean primary key default true check (only_row),
  analysis integer not null,
  next_number bigint not null default 0,
  documents bigint not null default 0,
  stems bigint not null default 0,
  languages jsonb not null default '{}'
);
comment on table search_figures is 'One row: figures of the index. Whoever writes to the index locks it.';
comment on column search_figures.analysis is 'The number of the way in which words and stems are made; with another one the index is made anew.';
comment on column search_figures.next_number is 'The number of the next document.';
comment on column search_figures.documents is 'How many documents there are that recall ranks.';
comment on column search_figures.stems is 'How many stems they have together.';
comment on column search_figures.languages is 'How many of them there are in each language.';

create table search_documents (
  first bigint primary key,
  last bigint not null,
  agent_id uuid not null references agents,
  oldest bigint not null,
  newest bigint not null,
  newest_at timestamptz not null,
  documents bytea not null
);
alter table search_documents alter column documents set storage external;
create index search_documents_agent on search_documents (agent_id, first);
comment on table search_documents is
  'Documents: the events with words, long ones in pieces. They are numbered as they are indexed; a row has up to 256 of an agent.';
comment on column search_documents.first is 'The number of the first one.';
comment on column search_documents.last is 'The number of the last one.';
comment on column search_documents.oldest is 'The oldest of their events, or an older one.';
comment on column search_documents.newest is 'The newest of their events, or a newer one.';
comment on column search_documents.newest_at is 'When the newest of them was stored, or later.';
comment on column search_documents.documents is
  'Compressed: the events, where each document begins in the text of its event, its characters, and its kind.';

create table search_segments (
  id bigint generated always as identity primary key,
  first bigint not null,
  last bigint not null,
  newest bigint not null,
  newest_at timestamptz not null,
  lengths bytea not null
);
alter table search_segments alter column lengths set storage external;
comment on table search_segments is 'Segments of the index: documents in a row that share postings. Small ones are joined to larger ones.';
comment on column search_segments.first is 'The number of the first document.';
comment on column search_segments.last is 'The number of the last document.';
comment on column search_segments.newest is 'The newest event in it, or a newer one.';
comment on column search_segments.newest_at is 'When that was stored, or later.';
comment on column search_segments.lengths is
  'A byte for each document: how many stems recall counts in it, as a code; 0 if it leaves the document out.';

create table search_postings (
  segment bigint not null,
  first text collate "C" not null,
  words text collate "C" not null,
  numbers bytea not null,
  times bytea not null,
  primary key (segment, first)
);
alter table search_postings alter column numbers set storage external, alter column times set storage external;
comment on table search_postings is 'The postings of a segment: which of its documents have each word. A row is a block of words in their order.';
comment on column search_postings.first is 'The first word.';
comment on column search_postings.words is
  'The words, folded, with kinds of events (#), and two common words in a row (+): a line each. Writing without spaces is in pairs of characters.';
comment on column search_postings.numbers is
  'Compressed: for each word the numbers of the documents that have it, counted from the first of the segment.';
comment on column search_postings.times is 'Compressed: for each word how often each of them has it, for recall; 0 if recall leaves it out.';

create table search_vocabulary (
  word text collate "C",
  stem text collate "C",
  block bigint not null,
  primary key (word, stem)
);
create index search_vocabulary_stem on search_vocabulary (stem);
comment on table search_vocabulary is 'Each word in the index, once with itself as the stem, and with each stem that recall finds it by.';
comment on column search_vocabulary.word is 'The word, folded.';
comment on column search_vocabulary.stem is 'The stem, folded.';
comment on column search_vocabulary.block is 'The row of search_words with the word.';

create table search_words (
  block bigint primary key,
  words text collate "C" not null
);
alter table search_words alter column words set storage external;
comment on table search_words is 'The words of the vocabulary, for searches for parts of words: each is in one block.';
comment on column search_words.block is 'The number of the documents with which its words came, in thousands.';
comment on column search_words.words is 'The words, folded: a line each.';
