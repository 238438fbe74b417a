-- Version 11: archived agents, and agents that are purged when their program ends.

alter table agents add column archived_at timestamptz;
comment on column agents.archived_at is 'When it was taken out of the lists; null if it was not. It can still be used.';

alter table agents add column ephemeral boolean not null default false;
comment on column agents.ephemeral is 'True if it is purged, with its forks, when the program that made it ends.';
alter table agents add column purged_at timestamptz;
comment on column agents.purged_at is 'When an ephemeral agent was purged: of its log only the usage is left.';
create index agents_ephemeral on agents (id) where ephemeral and purged_at is null;
