-- Version 13: a comment on every column of every view.

comment on column turns.agent_id is 'The agent that it belongs to.';
comment on column transcript.agent_id is 'The agent that it belongs to.';
comment on column agent_tree.agent_id is 'Its id.';
comment on column usage.agent_id is 'The agent that sent the request.';
comment on column usage.request_id is 'The provider''s own id of the request; empty where it gave none.';
comment on column prunes.agent_id is 'The agent that sent the request.';
comment on column turns.started_at is 'When its first event was stored; null where the log does not record it.';
comment on column turns.ended_at is 'When its turn_end was stored.';
comment on column turns.seconds is 'Seconds from its first event to its turn_end.';
comment on column transcript.id is 'The event''s.';
comment on column filter_events.created_at is 'When the filter was stored.';

comment on column usage_by_day.day is 'The day, in the time zone of the session that queries it.';
comment on column usage_by_model.model is 'The model that was asked, provider/name.';
comment on column usage_by_day.requests is 'Requests that were sent to a model.';
comment on column usage_by_day.interrupted is 'Requests that the user interrupted.';
comment on column usage_by_day.input is 'Tokens sent, by the provider''s count, cached and written ones included.';
comment on column usage_by_day.cached is 'Input tokens read from the provider''s cache.';
comment on column usage_by_day.written is 'Input tokens put into the provider''s cache.';
comment on column usage_by_day.output is 'Tokens received, thinking included.';
comment on column usage_by_day.thinking is 'Output tokens that were thinking.';
comment on column usage_by_model.requests is 'Requests that were sent to a model.';
comment on column usage_by_model.failed is 'Requests that failed, without those that the user interrupted.';
comment on column usage_by_model.interrupted is 'Requests that the user interrupted.';
comment on column usage_by_model.retried is 'Requests that repeated a failed one.';
comment on column usage_by_model.input is 'Tokens sent, by the provider''s count, cached and written ones included.';
comment on column usage_by_model.cached is 'Input tokens read from the provider''s cache.';
comment on column usage_by_model.written is 'Input tokens put into the provider''s cache.';
comment on column usage_by_model.output is 'Tokens received, thinking included.';
comment on column usage_by_model.thinking is 'Output tokens that were thinking.';
comment on column usage_by_model.cost is 'US dollars of the requests whose price is known.';
comment on column usage_by_model.unpriced is 'Requests whose price is unknown; they are not in the cost.';
