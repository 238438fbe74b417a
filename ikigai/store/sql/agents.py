"""SQL statements for connections, the schema, agents, write locks and logs.

Statements that read, count, purge and move logs have modules of their own. Rows of the log have the columns that
`reading.decode_row` takes.
"""

from ikigai.store.sql.fragments import ROLE, ROW, quoted

# One connection -----------------------------------------------------------------------------------------------------

# A machine that vanished holds its write locks for a minute at most: without keepalives of the server it would be two
# hours. client_connection_check_interval ends the statement of a killed process; servers on other systems may refuse
# it.
#
# Plans: the rows of an agent lie together in the log. Ids of agents are random, so that the planner expects the rows
# all over it. It would read all of them as a bitmap to sort them, 70 ms for an agent of 200,000 events: in the order of
# an index, a page takes a quarter of it. And at the usual cost of a random page it would rather read all that other
# agents stored since.
_SETTINGS = """
select set_config('search_path', %s, false),
       set_config('statement_timeout', '15s', false),
       set_config('lock_timeout', '5s', false),
       set_config('idle_in_transaction_session_timeout', '30s', false),
       set_config('client_connection_check_interval',
                  case when version() like '%%linux%%' then '2s' else '0' end, false),
       set_config('tcp_keepalives_idle', '30', false), set_config('tcp_keepalives_interval', '10', false),
       set_config('tcp_keepalives_count', '3', false),
       set_config('enable_bitmapscan', 'off', false),
       set_config('random_page_cost', '1.1', false),
       set_config('default_transaction_read_only',
                  case when %s or version > %s then 'on'
                       else current_setting('default_transaction_read_only') end, false),
       pg_backend_pid(), version
"""


def apply_settings(schema: str) -> bytes:
    """Return the statement that applies the settings of a connection to this schema; it fails without a schema.

    The search_path is the user's own here. So functions get the types that they take: one of `public` that took others
    would fit better.
    """
    name = f"{quoted(schema)}.ikigai_migrations"
    table = name.replace("%", "%%")
    return f"{_SETTINGS}from (select max(version) from {table}) as migrations (version)".encode()


SETTINGS_WITHOUT_SCHEMA = _SETTINGS + "from (values (0)) as migrations (version)"
BACKEND = "select pg_backend_pid()"
# All that a program leaves in a session and the settings of a connection do not replace.
RESET_SESSION = """
deallocate all; unlisten *; reset default_transaction_read_only; reset synchronous_commit;
select pg_advisory_unlock_all()
"""
# A server may ask for more than that its standbys have written the commit.
REPLICATED = """
select set_config('synchronous_commit', case when current_setting('synchronous_commit') = 'remote_apply'
                                             then 'remote_apply' else 'on' end, false),
       current_setting('synchronous_standby_names')
"""
STANDBYS = "select current_setting('synchronous_standby_names')"
# Schemas of the role, or of roles that it is a member of.
USABLE_SCHEMAS = """
select nspname::text from pg_namespace join pg_roles on pg_roles.oid = nspowner
where not rolsuper and not starts_with(rolname::text, 'pg_') and pg_has_role(session_user, nspowner, 'usage'::text)
order by nspname = session_user desc, 1 limit 3
"""
MAY_USE_SCHEMA = "select has_schema_privilege(%s::text, 'usage'), session_user"  # which fails for a dropped role

# Migrations ---------------------------------------------------------------------------------------------------------

# A statement keeps the limit with which it began: so a statement of its own lifts it before the wait.
WITHOUT_LIMITS = "select set_config('statement_timeout', '0', true), set_config('lock_timeout', '0', true)"
SEARCH = "select set_config('search_path', %s, true)"
# Where roles share a schema, its tables belong to the role that owns it, whichever of them makes the tables.
ACT_AS_OWNER = """
select set_config('role', rolname::text, true) from pg_namespace join pg_roles on pg_roles.oid = nspowner
where nspname = %s and not starts_with(rolname, 'pg_') and pg_has_role(session_user, nspowner, 'member')
"""
MIGRATION_TURN = "select pg_try_advisory_xact_lock(%s, %s)"
READ_ACTIVITY_ANEW = "select pg_stat_clear_snapshot()"  # a transaction sees it as it was at first
MIGRATING = """
select application_name from pg_locks held join pg_stat_activity activity using (pid)
where locktype = 'advisory' and held.granted
  and held.database = (select oid from pg_database where datname = current_database())
  and held.classid = %s::bigint::oid and held.objid = %s::bigint::oid and held.objsubid = 2
"""
NAME_CONNECTION = "select set_config('application_name', %s, true)"
HAS_SCHEMA = "select exists (select from pg_namespace where nspname = %s)"
HAS_MIGRATIONS = "select to_regclass('ikigai_migrations') is not null"
SCHEMA_VERSION = "select max(version) from ikigai_migrations"
CREATED = "insert into ikigai_migrations (version) values (%s)"
ANALYZE = "set local statement_timeout = 0; analyze agents, messages"

# The write lock -----------------------------------------------------------------------------------------------------

ACQUIRE_LOCK = "select pg_try_advisory_lock(%s, %s)"
RELEASE_LOCK = "select pg_advisory_unlock(%s, %s)"
LOCK_OWNER = """
select held.pid, coalesce(activity.application_name, ''), exists (
  select from pg_locks asks
  where asks.locktype = 'advisory' and asks.granted and asks.pid = held.pid and asks.database = held.database
    and asks.classid = %s::bigint::oid and asks.objid = held.objid and asks.objsubid = 2
)
from pg_locks held join pg_stat_activity activity on activity.pid = held.pid
where held.locktype = 'advisory' and held.granted
  and held.database = (select oid from pg_database where datname = current_database())
  and held.classid = %s::bigint::oid and held.objid = %s::bigint::oid and held.objsubid = 2
"""
END_BACKEND = "select pg_terminate_backend(%s)"

# Agents -------------------------------------------------------------------------------------------------------------

_AGENT = """
select agents.id::text, agents.name, agents.parent::text, agents.forked_at, coalesce(agents.directory, ''),
       extract(epoch from agents.created_at)::float8, extract(epoch from agents.last_used_at)::float8,
       coalesce((select max(seq) from messages where agent_id = agents.id), 0),
       extract(epoch from agents.killed_at)::float8, extract(epoch from agents.archived_at)::float8, agents.ephemeral,
       agents.made
from (select * from agents where purged_at is null) agents
"""
CREATE_AGENT = """
insert into agents (id, name, parent, forked_at, directory, ephemeral, made, archived_at)
values (%s, %s, %s, %s, %s, %s, %s, case when %s then clock_timestamp() end)
on conflict (name) do nothing
"""
FIRST_AGENT_TURN = "select pg_advisory_xact_lock(%s, %s)"
AGENT_BY_ID = _AGENT + "where id = %s"
AGENT_BY_NAME = _AGENT + "where name = %s"
AGENTS_BETWEEN_IDS = _AGENT + "where id between %s and %s limit 2"
AGENTS = _AGENT + "where killed_at is null and archived_at is null or %s order by last_used_at desc limit %s"
# An agent that a tool made is not a place to begin: its results go to the agent that it works for.
_LAST = f"""
join agent_uses uses on uses.agent_id = agents.id and uses.role = {ROLE}
where killed_at is null and archived_at is null and not made and not ephemeral
"""
LAST_AGENT = f"{_AGENT}{_LAST}order by uses.used_at desc limit 1"
LAST_AGENT_IN = f"{_AGENT}{_LAST}and uses.directory = %s order by uses.used_at desc limit 1"
# The commit does not wait for the disk: a power failure within half a second loses only which agent was used last.
USE_AGENT = """
with used as (
  insert into agent_uses (role, agent_id, directory)
  select session_user, id, coalesce(%(directory)s, directory) from agents
  where id = %(agent)s and %(by_user)s
  on conflict (role, agent_id)
  do update set used_at = clock_timestamp(), directory = coalesce(%(directory)s, agent_uses.directory)
)
update agents set last_used_at = clock_timestamp(), directory = coalesce(%(directory)s, directory)
from (select set_config('synchronous_commit', 'off', true)) as commit (waits)
where id = %(agent)s and commit.waits = 'off'
returning coalesce((select max(seq) from messages where agent_id = agents.id), 0),
          (select event_id from messages where agent_id = agents.id order by seq desc limit 1), killed_at is not null
"""

# The log ------------------------------------------------------------------------------------------------------------


# Followers are notified of stored rows; see `follow`. A notification would make all commits wait for one another, so it
# is sent to followers only: a follower shares a lock, and taking it exclusively fails then.
_NOTIFY = "case when not pg_try_advisory_xact_lock({}, {}) then pg_notify(current_schema(), agent_id || ' ' || {}) end"
_NOTIFY_ALL = _NOTIFY.format("%(following)s", "%(key)s", "seq")

# The identity values follow the order of the rows; an event_id that is there already says that all of them are.
APPEND = f"""
with forgotten as (delete from drafts where agent_id = %(agent)s::uuid and %(forget)s)
insert into messages (agent_id, seq, event_id, kind, content, data)
select %(agent)s::uuid, %(after)s::integer + n, event_id, kind, content, data::jsonb
from unnest(%(ids)s::uuid[], %(kinds)s::text[], %(contents)s::text[], %(datas)s::text[])
  with ordinality as event (event_id, kind, content, data, n)
order by n
on conflict (event_id) do nothing returning {ROW}, {_NOTIFY_ALL}
"""
# A commit that waits for the standbys also waits for all commits before it.
WAIT_FOR_STANDBYS = "update agents set last_used_at = last_used_at where id = %s"
STORED_BEFORE = f"select {ROW} from messages where event_id = any(%s) and agent_id = %s order by seq"

SAVE_DRAFT = f"""
insert into drafts (agent_id, asked_by, text, thinking, parts) values (%s, %s, %s, %s, %s::jsonb)
on conflict (agent_id) do update
set asked_by = excluded.asked_by, text = excluded.text, thinking = excluded.thinking, parts = excluded.parts,
    saved_at = excluded.saved_at
returning {_NOTIFY.format("%s", "%s", "'draft'")}
"""
DRAFT = "select asked_by, text, thinking, parts::text from drafts where agent_id = %s"

# Following ----------------------------------------------------------------------------------------------------------


def listen(schema: str) -> bytes:
    """Return the statement that listens to events stored in this schema."""
    return f"listen {quoted(schema)}".encode()


def unlisten(schema: str) -> bytes:
    """Return the statement that ends `listen`."""
    return f"unlisten {quoted(schema)}".encode()


NOTIFY = "select pg_notify(%s, %s)"
FOLLOW = "select pg_advisory_lock_shared(%s, %s)"
AGENT_NAME = "select name from agents where id = %s"
LAST_SEQ = "select coalesce(max(seq), 0) from messages where agent_id = %s"
NEWS = f"select {ROW} from messages where agent_id = %s and seq > %s order by seq limit %s"
# Only the part after the known one of the same draft; all of another draft.
DRAFT_NEWS = """
select asked_by, case when asked_by = %(known)s then substr(text, %(text)s + 1) else text end,
       case when asked_by = %(known)s then substr(thinking, %(thinking)s + 1) else thinking end, parts::text
from drafts where agent_id = %(agent)s
"""

# The state of the database ------------------------------------------------------------------------------------------

STATUS = """
select current_setting('server_version'), current_database()::text, current_user::text, current_schema()::text,
       pg_database_size(current_database()), pg_total_relation_size('messages'),
       (select reltuples::bigint from pg_class where oid = 'messages'::regclass),
       (select case when reltuples < %s then (select count(*) from agents)
                    else reltuples::bigint end
        from pg_class where oid = 'agents'::regclass),
       (select array_agg(extname || ' ' || extversion order by extname) from pg_extension),
       current_setting('fsync') = 'on' and current_setting('synchronous_commit') <> 'off'
"""
COUNT_EVENTS = "select count(*) from messages"
LAST_EVENT = "select coalesce(max(id), 0) from messages"
