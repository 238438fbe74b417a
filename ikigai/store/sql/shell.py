"""Every statement of the shell for SQL by hand, by name."""

NO_HURRY = "select set_config('statement_timeout', '0', false), set_config('enable_bitmapscan', 'on', false)"
RELATIONS = """
select relname as name, case relkind when 'v' then 'view' else 'table' end as type,
       coalesce(obj_description(oid, 'pg_class'), '') as "what it is"
from pg_class where relnamespace = current_schema()::regnamespace and relkind in ('r', 'v') order by 2 desc, 1
"""
COLUMNS_TOLD = """
select attname as column, format_type(atttypid, atttypmod) as type,
       coalesce(col_description(attrelid, attnum), '') as "what it is"
from pg_attribute where attrelid = to_regclass(%s) and attnum > 0 and not attisdropped order by attnum
"""
