"""State the defect of a reply: a pause too many, tools that do not exist, calls cut off, no text."""

from itertools import islice

from ikigai.core.events.events import Event
from ikigai.core.events.messages import ReplyBlock, Role, Text, ToolCall, ToolResult
from ikigai.core.request.reply import NO_TEXT, SHORT_REPLY_REASONS, is_cut_off
from ikigai.core.state.inputs import Replied
from ikigai.core.state.memory import Memory, offered_tools, output_reserve
from ikigai.core.tools.vendor_search import MAX_PAUSED_CALLS

MAX_UNKNOWN_TOOL_ROUNDS = 3
"""Rounds after which a model that got the list of tools each time will not find one."""
MAX_LISTED_TOOLS, MAX_TOOL_NAME = 5, 40
"""Unknown tools that the reason names, and characters of each name."""
MAX_CUT_REPLIES = 3
"""Replies that are cut within a call before the turn ends: each may cost as much as the limit allows."""


def can_continue(memory: Memory, blocks: tuple[ReplyBlock, ...]) -> bool:
    """Return True if a paused reply goes on with another request: it has come further, and not too far."""
    turn = memory.open
    earlier = turn.messages[-1].blocks if turn and turn.messages and turn.messages[-1].role is Role.ASSISTANT else ()
    count = sum(isinstance(block, ToolResult) for block in (*earlier, *blocks))
    return any(isinstance(block, ToolCall | ToolResult) for block in blocks) and count < MAX_PAUSED_CALLS


def unknown_tools_reason(memory: Memory, calls: tuple[ToolCall, ...]) -> str:
    """Return why a turn ends after MAX_UNKNOWN_TOOL_ROUNDS replies that call only unknown tools; "" if it goes on."""
    known = {tool.name for tool in offered_tools(memory)}
    turn = memory.open
    if turn is None or turn.requests < MAX_UNKNOWN_TOOL_ROUNDS - 1:
        return ""
    sent = (message.calls for message in reversed(turn.messages) if message.role is Role.ASSISTANT)
    replies = list(islice(sent, MAX_UNKNOWN_TOOL_ROUNDS - 1))  # a turn may have made 1,000
    earlier = [call for reply in replies for call in reply]
    if len(replies) < MAX_UNKNOWN_TOOL_ROUNDS - 1:  # older ones had to make room
        earlier = [call for _, call in turn.calls]
    if any(call.name in known for call in (*earlier, *calls)):
        return ""
    names = ", ".join(dict.fromkeys(call.name[:MAX_TOOL_NAME] for call in calls[:MAX_LISTED_TOOLS]))
    return f"{memory.model} keeps calling tools that do not exist ({names}). /model chooses another."


def no_text_reason(memory: Memory, replied: Replied) -> str:
    """Return the remark about a turn that ends completed with a reply without text; "" if there is some, or another
    reason. A planning talk needs none.
    """
    has_text = any(isinstance(block, Text) and block.text.strip() for block in replied.blocks)
    is_planning = bool(memory.open and memory.open.planning)
    return "" if has_text or is_planning or replied.stop in SHORT_REPLY_REASONS else NO_TEXT


def cut_calls_reason(memory: Memory, reply: tuple[Event, ...]) -> str:
    """Return why a turn ends after MAX_CUT_REPLIES in a row that reached the output limit within a call; "" if it goes
    on.
    """
    messages = reversed(memory.open.messages) if memory.open else ()
    results = (message.blocks[-1] for message in messages if message.role is Role.TOOL)
    last = [event for event in reply if isinstance(event, ToolResult)][-1:]
    newest = (*islice(results, MAX_CUT_REPLIES - 1), *last)
    if not last or len(newest) < MAX_CUT_REPLIES or not all(map(is_cut_off, newest)):
        return ""
    return (
        f"{memory.model} reached its output limit of {output_reserve(memory.limits):,} tokens within a tool call"
        f" {MAX_CUT_REPLIES} times in a row. Ask for smaller steps, or raise max_output under [models] in the"
        " configuration."
    )
