-- Version 28: a purge cannot change who sent a request. It leaves requests as they are.

alter policy purged on messages using (
  kind <> 'usage'
  and exists (select from agents where agents.id = messages.agent_id and agents.owner = session_user::text)
);
