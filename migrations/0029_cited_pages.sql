-- Version 29: packs that lack the words of cited pages are found, and made anew in the background.

alter table search_packs add column has_pages boolean not null default false;
alter table search_packs alter column has_pages set default true;
create index search_packs_outdated on search_packs (number) where level = 0 and not has_pages;
comment on column search_packs.has_pages is
  'False at level 0 until it is certain that it has the words of the pages that replies rely on.';
