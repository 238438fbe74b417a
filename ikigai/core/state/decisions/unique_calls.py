"""Give the calls of a reply ids of their own: results are matched by them, and vendors refuse an id twice."""

from ikigai.core.events.messages import ReplyBlock, ToolCall, ToolResult
from ikigai.core.request.build import call_ids
from ikigai.core.request.reply import storable_blocks
from ikigai.core.state.memory import Memory, replace


def with_unique_ids(memory: Memory, blocks: tuple[ReplyBlock, ...]) -> tuple[ReplyBlock, ...]:
    """Return the blocks, each call under an id that no other call in context has."""
    taken = _call_ids(memory) if any(isinstance(block, ToolCall) for block in blocks) else set[str]()
    unique: list[ReplyBlock] = []
    hosted: dict[str, str] = {}  # the ids of hosted calls, by those that they came with
    for block in storable_blocks(blocks):
        if isinstance(block, ToolResult):
            block = replace(block, call_id=hosted.get(block.call_id, block.call_id))
        elif isinstance(block, ToolCall):
            id, n = block.id or "call", 1
            while id in taken:
                n += 1
                id = f"{block.id or 'call'}_{n}"
            taken.add(id)
            if block.hosted:
                hosted[block.id] = id
            block = replace(block, id=id)
        unique.append(block)
    return tuple(unique)


def _call_ids(memory: Memory) -> set[str]:
    """Return the ids of all calls in context, and of the calls that were dropped from the open turn."""
    window, opened = memory.full_window, memory.open
    ids = {*window.turns.sent.call_ids, *(call_ids(window.first.messages) if window.first else ())}
    return ids.union(call_ids(opened.messages), [call.id for _, call in opened.calls]) if opened else ids
