"""This module holds the SQL statements that find what was made in the schema of a user's index by mistake."""

_IN_INDEXES = """(
  select oid from pg_namespace
  where starts_with(nspname::text, %(prefix)s)
    and nspowner = (select relowner from pg_class where oid = 'messages'::regclass)
)"""
# By one object that each of these migrations makes.
MISPLACED_VERSIONS = f"""
select version from (values
  (23, 'ikigai_unpack'), (24, 'ikigai_is_own'), (26, 'usage'), (27, 'ikigai_name_spender')
) as made (version, name)
where exists (select from pg_proc where proname = name and pronamespace in {_IN_INDEXES})
   or exists (select from pg_class where relname = name and relkind = 'v' and relnamespace in {_IN_INDEXES})
"""
MISPLACED_OBJECTS = f"""
select 'function ' || oid::regprocedure from pg_proc where pronamespace in {_IN_INDEXES}
union all
select 'view ' || oid::regclass from pg_class where relkind = 'v' and relnamespace in {_IN_INDEXES}
"""
