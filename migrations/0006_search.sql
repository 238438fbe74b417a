-- Version 6: an index of every word ever said, filled after the append: nothing here is touched by storing an event.

create table search_pieces (
  message bigint not null,
  start integer not null check (start >= 0),
  length integer not null check (length > 0),
  at timestamptz not null,
  terms tsvector not null,
  primary key (message, start)
);
comment on table search_pieces is
  'What the events say, in pieces of at most 64 KB; made from the log, and made again from it when it is gone.';
comment on column search_pieces.message is 'The event.';
comment on column search_pieces.start is 'Where the piece begins in the content of the event, in characters.';
comment on column search_pieces.length is 'In characters.';
comment on column search_pieces.at is 'When the event was stored.';
comment on column search_pieces.terms is
  'Its words, folded, its kind (#) and its agent (@), each behind three letters that stand for 16,384 ids in a row.';
-- A list of pending entries would have to be read by every search, and be cleared by some unlucky one.
create index search_terms on search_pieces using gin (terms) with (fastupdate = off);

create table search_segments (
  segment integer primary key,
  newest timestamptz not null,
  words text
);
alter table search_segments alter column words set storage external;
comment on table search_segments is 'Stretches of 16,384 ids that hold anything to be found.';
comment on column search_segments.segment is 'The ids divided by 16,384.';
comment on column search_segments.newest is 'When the newest event in it was stored, or later.';
comment on column search_segments.words is
  'Its different words, separated by spaces, once the ids have moved on; null while it grows.';

create table search_progress (
  agent_id uuid primary key references agents,
  seq integer not null,
  place integer not null default 0 check (place >= 0)
);
comment on table search_progress is 'How far the log of each agent has been taken into the index.';
comment on column search_progress.seq is 'The last event that is in it; within an agent, events are stored in the order of seq.';
comment on column search_progress.place is 'How many characters of the next event are in it, too.';
