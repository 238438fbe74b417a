-- Version 3: a draft keeps what was thought, too, so that a thought on screen is never lost.

alter table drafts add column thinking text not null default '';
comment on column drafts.thinking is 'What the reply has thought so far.';
