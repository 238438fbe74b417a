"""SQL statements that compare a replica with its primary."""

from typing import LiteralString

# The index is committed before it is on disk, so the end of the written part is not enough. Without events any id
# stands for the newest.
POSITION = """
select pg_current_wal_insert_lsn()::text, newest.id, newest.event_id
from (values (1)) as one (row) left join (
  select id, event_id from messages order by id desc limit 1
) newest on true
"""
_IS_CURRENT: LiteralString = """
pg_is_in_recovery() and pg_last_wal_replay_lsn() >= %(end)s::pg_lsn and (
  %(id)s::bigint is null or exists (select from messages where id = %(id)s and event_id = %(event_id)s)
)
"""
HOLDS = f"select {_IS_CURRENT}"
LAG = f"""
select extract(epoch from clock_timestamp() - pg_last_xact_replay_timestamp())::float8,
       greatest(0, coalesce(%(end)s::pg_lsn - pg_last_wal_replay_lsn(), 0))::bigint, {_IS_CURRENT}
"""
