"""What statements share: the columns of a row of the log, the same without pictures, and an agent's ancestors."""

from typing import LiteralString

ROW = "id, seq, extract(epoch from created_at)::float8, kind, content, data::text"
"""As `reading.stored` takes them."""
ENDS = "(values (%s::integer, %s::integer, %s::integer)) as ends (most, head, tail)"
# Of a longer tool result its ends alone: all of 16 MiB would take a twelfth of a second. The tail is the dearer one,
# because the server unpacks all that is before it.
_LONG = "kind = 'tool_result' and octet_length(content) > ends.most"
_CONTENT = f"""case when {_LONG} then
         left(content, ends.head) || case when ends.tail > 0 then right(content, ends.tail) else '' end
       else content end"""
_DATA = f"case when {_LONG} then data || jsonb_build_object('whole', octet_length(content)) else data end"
ROW_OF_ENDS = f"id, seq, extract(epoch from created_at)::float8, kind, {_CONTENT}, ({_DATA})::text"
"""The same, beside ENDS."""


# What images are is enough to look back at them; reading and parsing megabytes of each would take the start's time.
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


def line(agent: LiteralString) -> LiteralString:
    """With this: the agent and its ancestors by their `depth` above it, each with the last event that counts as `upto`.

    `agent` is where its id goes. A row that is `looped` closes a circle, and is none of them.
    """
    return f"""
with recursive line (depth, agent, name, parent, forked_at, upto) as (
  select 0, id, name, parent, forked_at, null::bigint from agents where id = {agent}
  union all
  select depth + 1, agents.id, agents.name, agents.parent, agents.forked_at, least(line.upto, line.forked_at)
  from line join agents on agents.id = line.parent
) cycle agent set looped using path"""
