-- Version 9: messages between agents, and who made whom.

alter table agents add column made boolean not null default false;
comment on column agents.made is 'Whether a tool of its parent made it, to work for that; else a user forked it.';

-- That a message comes once is a fact of the database.
create unique index messages_mail_taken on messages (ikigai_id(data -> 'of')) where kind = 'mail_taken';
-- What waits for an agent.
create index messages_mail_sent on messages ((data ->> 'to'), id) where kind = 'mail_sent';
