-- Version 27: a role that row security limits cannot charge its requests to another one.

create function ikigai_name_spender() returns trigger language plpgsql as $$
declare owning text;
begin
  select owner into owning from agents where id = new.agent_id;
  if owning is distinct from session_user::text then
    new.data := coalesce(new.data, '{}') || jsonb_build_object('spent_by', session_user);
  elsif exists (select from pg_roles where rolname = new.data ->> 'spent_by' and rolname <> session_user) then
    new.data := new.data - 'spent_by';  -- what is left are users of this role
  end if;
  return new;
end
$$;
comment on function ikigai_name_spender() is 'Names the role that sent a request, whatever its program says.';

do $$
begin
  execute format('alter function ikigai_name_spender() set search_path to %I, pg_temp', current_schema());
end
$$;

-- For other rows, and for the owner of the tables, only the condition is evaluated.
create trigger name_spender before insert on messages for each row
  when (new.kind = 'usage' and row_security_active('messages'::regclass)) execute function ikigai_name_spender();
