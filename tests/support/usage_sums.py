"""Compare the sums of usage with the log that they are made of."""

from ikigai.store.sql.usage import COUNT_HOURS, SUMMED
from tests.support.kept_connections import query

_COLUMNS = f"hour, agent_id, model, {', '.join(SUMMED)}"
_DIFFERENT = f"""
with kept as (select {_COLUMNS} from usage_hours), logged as (select {_COLUMNS} from ({COUNT_HOURS}) counted)
select 'kept', * from (select * from kept except select * from logged) kept
union all
select 'logged', * from (select * from logged except select * from kept) logged
"""


def check_sums(dsn: str) -> int:
    """Check the sums against the log; return the number of requests in them."""
    assert query(dsn, _DIFFERENT) == []
    ((requests,),) = query(dsn, "select coalesce(sum(requests), 0) from usage_hours")
    return requests
