"""Remove ikigai's own keys from imported rows."""

from collections.abc import Callable

import msgspec

from ikigai.core.events import codec
from ikigai.core.events.events import AssistantMessage
from ikigai.core.events.messages import Text, Thinking
from ikigai.core.relocation.renumber import RawRow


def redact_row(row: RawRow, own: Callable[[str], str]) -> RawRow:
    """Return the row with `own` applied to all its texts; the identical one where that changes nothing.

    Signed thinking that is changed loses its signature: its vendor would refuse it.
    """
    content, data = row.content and own(row.content), row.data and own(row.data)
    if (content, data) == (row.content, row.data):
        return row
    event = codec.decode(row.kind, row.content, row.data)
    if isinstance(event, AssistantMessage):  # its data counts the characters of its content
        blocks = tuple(_block(block, own) for block in event.blocks)
        _, content, data = codec.encode(msgspec.structs.replace(event, blocks=blocks))
    return row._replace(content=content, data=data)


def _block(block: Text | Thinking, own: Callable[[str], str]) -> Text | Thinking:
    if isinstance(block, Text):
        return msgspec.structs.replace(block, text=own(block.text))
    text = own(block.text)
    return Thinking(text, block.signature if text == block.text else "", block.vendor)
