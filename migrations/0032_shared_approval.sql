-- Version 32: who continues an agent of another owner cannot let the tools of that owner's programs run unasked.

-- The agent's own choices hold for all that continue it. Flags of a run, which have another origin, hold for that run.
create function ikigai_restrain_approval() returns trigger language plpgsql as $$
declare place text := case new.kind when 'clear' then 'own' else 'values' end; asks boolean;
begin
  if exists (select from agents where id = new.agent_id and owner = session_user::text)
     or jsonb_typeof(new.data -> place) is distinct from 'object' then
    return new;
  end if;
  asks := coalesce(new.data -> place ->> 'approval', '') in ('read-only', 'ask');
  if new.kind = 'settings' then
    if new.data -> place ? 'approval' and new.data #> '{origins,approval}' = '"agent"' and not asks
       or new.data #> '{origins,profile}' = '"agent"' and new.data #> '{values,profile}' <> 'null'
          and new.data #> '{origins,approval}' is distinct from '"agent"' then
      new.data := jsonb_set(jsonb_set(new.data, '{values,approval}', '"ask"'), '{origins,approval}', '"agent"');
    end if;
  elsif new.data -> place ?| '{approval,profile}' and not asks then
    new.data := jsonb_set(new.data, '{own,approval}', '"ask"');
  end if;
  return new;
end
$$;
comment on function ikigai_restrain_approval() is
  'Lets no role but its owner choose for an agent that tools run without a question.';

do $$
begin
  execute format('alter function ikigai_restrain_approval() set search_path to %I, pg_temp', current_schema());
end
$$;

create trigger restrain_approval before insert on messages for each row
  when (new.kind in ('settings', 'clear') and row_security_active('messages'::regclass))
  execute function ikigai_restrain_approval();

select ikigai_secure();
