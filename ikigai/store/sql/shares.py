"""This module holds the SQL statements of shares."""

from ikigai.store.sql.fragments import OWNER

SHARE = "select ikigai_share(%s, %s, %s)"
SHARES = f"""
select agents.name, agents.id::text, {OWNER}, coalesce(nullif(agent_shares.os_user, ''), agent_shares.role), may_write
from agent_shares join agents on agents.id = agent_shares.agent_id
where agents.purged_at is null and (
  ikigai_is_own(agents.owner, agents.owner_user) or ikigai_is_own(agent_shares.role, agent_shares.os_user)
)
order by agents.name, 4
"""
