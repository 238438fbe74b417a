-- Version 8: a draft says how its words, thoughts and calls follow one another, so that who follows it shows each once.

alter table drafts add column parts jsonb not null default '[]';
comment on column drafts.parts is 'How words and thoughts follow one another: ["text", characters], ["thinking", characters], ["call", name].';
