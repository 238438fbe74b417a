"""Fragments that statements share: names, columns of a row with and without pictures, the searched text, the role of
the session, and the lineage.
"""

from typing import LiteralString

ROW = "id, seq, extract(epoch from created_at)::float8, kind, content, data::text"
"""The columns that `reading.decode_row` takes."""
ENDS = "(values (%s::integer, %s::integer, %s::integer)) as ends (most, head, tail)"
# Only the ends of a longer tool result: all of 16 MiB would take a twelfth of a second. The tail costs more, because
# the server unpacks all that is before it.
_LONG = "kind = 'tool_result' and octet_length(content) > ends.most"
_CONTENT = f"""case when {_LONG} then
         left(content, ends.head) || case when ends.tail > 0 then right(content, ends.tail) else '' end
       else content end"""
_DATA = f"case when {_LONG} then data || jsonb_build_object('whole', octet_length(content)) else data end"
ROW_OF_ENDS = f"id, seq, extract(epoch from created_at)::float8, kind, {_CONTENT}, ({_DATA})::text"
"""The columns that `reading.decode_row` takes, with long tool results cut; for a query with ENDS."""


# The media type and size of images suffice to look back at them; reading and parsing megabytes of each would take the
# start's time.
def _without_pictures(content: LiteralString, data: LiteralString) -> LiteralString:
    return f"""id, seq, extract(epoch from created_at)::float8, kind, {content},
       case when kind = 'user' and data ? 'images' then (
         data - 'images' || jsonb_build_object('images', (
           select coalesce(jsonb_agg(jsonb_strip_nulls(to_jsonb(image)) || '{{"data": ""}}'), '[]')
           from jsonb_to_recordset(data -> 'images') as image
             (media_type text, width integer, height integer, name text)
         ))
       )::text else ({data})::text end"""


ROW_WITHOUT_PICTURES = _without_pictures("content", "data")
ENDS_WITHOUT_PICTURES = _without_pictures(_CONTENT, _DATA)


MAX_ID: LiteralString = "9223372036854775807"


def quoted(name: str) -> str:
    """Return the name as an identifier in SQL."""
    return '"' + name.replace('"', '""') + '"'


def events_between(agent: LiteralString, first: LiteralString, last: LiteralString) -> LiteralString:
    """Return the condition for the events of an agent from the id `first` to the id `last`, for a query that reads the
    newest or the oldest of them, in the order NEWEST_FIRST or OLDEST_FIRST.

    The planner expects the events of an agent all over the log. By `agent_id =` and the order of ids it would go
    through those that all other agents stored since: 150,000 rows for a page of 100. So rows are compared, and the
    order names the agent: only the index of agent and id serves. That comparison stands first, as the end to begin at.
    The bounds of the agent alone tell the planner how few rows they are.
    """
    rows = f"(agent_id, id) >= ({agent}, {first}) and (agent_id, id) <= ({agent}, {last})"
    return f"{rows} and agent_id >= {agent} and agent_id <= {agent}"


NEWEST_FIRST: LiteralString = "order by agent_id desc, id desc"
OLDEST_FIRST: LiteralString = "order by agent_id, id"


def turn_start(agent: LiteralString, last: LiteralString = MAX_ID, ended: LiteralString = MAX_ID) -> LiteralString:
    """Return a subquery for the id of an agent's first message behind the last end of a turn: null if no turn is open.

    Messages are those up to the id `last`, ends of turns those up to the id `ended`.
    """
    return f"""(
    select opened.id from (
      select coalesce(max(id), 0) + 1 as first from messages
      where agent_id = {agent} and kind = 'turn_end' and id <= {ended}
    ) behind cross join lateral (
      select id from messages
      where {events_between(agent, "behind.first", last)} and kind = 'user' {OLDEST_FIRST} limit 1
    ) opened
  )"""


CITED_PAGES = "$.blocks[*].citations[*]"
"""The path to the pages that a reply relies on, in the data of its event."""
SEARCHED_TEXT: LiteralString = f"""case when kind = 'assistant' and data @? '{CITED_PAGES}' then
         concat_ws(E'\\n', content, (
           select string_agg(page, E'\\n' order by place) from (
             select concat_ws(' ', nullif(cited ->> 'title', ''), cited ->> 'url') as page, min(number) as place
             from jsonb_path_query(data, '{CITED_PAGES}') with ordinality as citation (cited, number) group by 1
           ) pages
         )) else content end"""
"""The words of an event: its content, and behind it title and address of each page that a reply relies on. A search
of Gemini names its pages there alone.
"""


ROLE = 'session_user::text collate "default"'
"""The role of this session, for comparisons that an index serves: by itself its name has another collation."""


def lineage_query(agent: LiteralString) -> LiteralString:
    """Return a `with` clause of the agent and its ancestors by their `depth` above it, with the last event of each as
    `upto`.

    `agent` is the SQL of its id. A row that is `looped` closes a circle: leave it out.
    """
    return f"""
with recursive line (depth, agent, name, parent, forked_at, upto) as (
  select 0, id, name, parent, forked_at, null::bigint from agents where id = {agent}
  union all
  select depth + 1, agents.id, agents.name, agents.parent, agents.forked_at, least(line.upto, line.forked_at)
  from line join agents on agents.id = line.parent
) cycle agent set looped using path"""
