-- Version 34: the numbers of an agent's events have no gaps. A row behind a gap is in no one's way until an event gets its
-- number, and memory has it before that.

-- Only new rows are checked. Where an older log has gaps they stay: events are never changed.
create function ikigai_continue_log() returns trigger language plpgsql as $$
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
revoke execute on function ikigai_continue_log() from public;

do $$
begin
  execute format('alter function ikigai_continue_log() set search_path to %I, pg_temp', current_schema());
end
$$;

-- Behind the insert: one statement may store many rows in any order, and each sees all of them.
create trigger continue_log after insert on messages for each row when (new.seq > 1)
  execute function ikigai_continue_log();
comment on column messages.seq is
  'The event''s place within its agent: 1, 2, 3 … without gaps, but for those in logs of earlier versions.';

select ikigai_secure();
