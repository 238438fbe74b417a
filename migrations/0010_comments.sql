-- Version 10: comments in the words of PostgreSQL and of the manual.

comment on table agents is 'Conversations, each with a log of its own; they form a tree by forking.';
comment on column agents.name is 'Its name, as users type it.';
comment on column agents.last_used_at is 'When a process last acquired or released its write lock.';
comment on column agents.killed_at is 'When it was killed; null if it was not. Its log is kept, and has an event about it.';
comment on column agents.made is 'True for a subagent: a tool of its parent made it. False if a user forked it.';

comment on column messages.event_id is 'Made before the event is first sent, so that a second attempt stores nothing twice.';

comment on table drafts is
  'The part of a streaming reply that is saved before the reply is complete; deleted when the reply is stored.';
comment on column drafts.thinking is 'The thinking of the reply so far.';
comment on column drafts.parts is
  'The order of text, thinking and calls in the reply: ["text", characters], ["thinking", characters], ["call", name].';

comment on function ikigai_number(jsonb) is
  'The exact number; null for a value that is no number, so that such a row does not make a report fail.';
comment on function ikigai_id(jsonb) is
  'The id of an event; null for a value that is no id, so that such a row does not make a view fail.';

comment on view usage is 'A row for each request that was sent to a model, failed attempts included.';
comment on column usage.purpose is 'Empty for a request of a turn; else the name of the command or function that sent it.';
comment on column usage.failure is 'Why it failed; empty if it succeeded, interrupted if the user stopped it.';
comment on column usage.cost is 'US dollars; null if the price is unknown, 0 if the request was free.';
comment on column usage.seconds is 'Seconds from sending to the end of the reply.';
comment on column usage.first_token_seconds is 'Seconds from sending to the first piece of the reply; null if none came.';
comment on view usage_by_day is 'Usage added up by day, in the time zone of the session that queries it.';
comment on column usage_by_day.failed is 'Requests that failed, without those that the user interrupted.';
comment on column usage_by_day.retried is 'Requests that repeated a failed one.';
comment on column usage_by_day.cost is 'US dollars of the requests whose price is known.';
comment on column usage_by_day.unpriced is 'Requests whose price is unknown; they are not in the cost.';
comment on view usage_by_model is 'Usage added up by model; columns as in usage_by_day.';
comment on view prunes is 'A row for each request that left out more turns than the request before it.';
comment on column prunes.turns is 'The number of turns that left the window before the request.';

comment on view turns is 'A row for each turn that has ended: a message of the user and what followed. Order by end_id.';
comment on column turns.first_id is 'Its first event; null where the log does not record it.';
comment on column turns.bytes is 'Bytes that it added to a request, measured when it ended.';
comment on column turns.tokens is 'Tokens as counted when it ended; a quarter of the bytes where they were not counted.';
comment on view transcript is
  'The events of each agent as text; order by id. ikigai_lineage() gives the ancestors, whose events a fork inherits.';
comment on column transcript.text is 'The text; of a tool call the name and the arguments.';
comment on column agent_tree.last_used_at is 'When a process last acquired or released its write lock.';
comment on column agent_tree.events is 'The number of its own events, without those of its ancestors.';
comment on column agent_tree.killed_at is 'When it was killed; null if it was not.';

comment on view filter_events is
  'The events by which /forget and /remember excluded others from the context; the log keeps them all. Order by id.';
comment on column filter_events.agent_id is
  'The session: the agent whose context was filtered. The ids may be of its ancestors'' events.';
comment on column filter_events.mode is
  'forget excludes what the criteria match; remember excludes everything else.';
comment on column filter_events.filtered_message_ids is 'The excluded messages, without those of the planning talk.';
comment on column filter_events.planning_start_id is
  'The first event of the planning talk, which is excluded, too; null if there was none.';
comment on column filter_events.planning_end_id is 'The last event of the planning talk.';
comment on column filter_events.context_size_before is 'Tokens of the context before the filter.';
comment on column filter_events.context_size_after is 'Tokens of the context after the filter.';
comment on column filter_events.in_force is 'False if an undo takes it back that is itself in force.';

comment on table search_pieces is
  'The full-text index: the text of the events in pieces of at most 64 KB; rebuilt from the log where it is missing.';
comment on column search_pieces.start is 'Where the piece begins in the text of the event, in characters.';
comment on column search_pieces.length is 'Characters of the piece.';
comment on table search_segments is 'Ranges of 16,384 ids with indexed text.';
comment on column search_segments.words is
  'Its distinct words, separated by spaces; null while events may still be added to it.';
comment on table search_progress is 'How far the log of each agent is indexed.';
comment on column search_progress.seq is 'The last event that is indexed; within an agent, events are stored in the order of seq.';
comment on column search_progress.place is 'Characters of the next event that are indexed already.';
