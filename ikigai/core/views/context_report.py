"""Report the parts of the window, as /context shows them in numbers and text, and warn if they fill it.

The parts of a request add up to its size. A turn that was counted by something better than bytes is shared out among
its messages by their bytes.
"""

from collections.abc import Iterable
from itertools import groupby
from typing import Any

import msgspec

from ikigai.core.events.events import UsageReported
from ikigai.core.events.messages import Document, Image, Message, Role, Text, ToolResult, ToolSpec
from ikigai.core.events.record import Count, Record
from ikigai.core.request.pins import list_pins, without_pins
from ikigai.core.request.system_prompt import system_prompt
from ikigai.core.state.decisions.settings import MIN_CONVERSATION_TOKENS
from ikigai.core.state.memory import Memory, measure, notice_size, request_frame, summary_messages
from ikigai.core.state.window import Turn
from ikigai.core.text import tokens
from ikigai.core.tools.mcp_tools import CALL_TOOL, MCP_SET, MCP_TOOLS_KEY, SEARCH_TOOL, SEPARATOR, read_offer
from ikigai.core.views.next_price import UNKNOWN_PRICE, NextPrice
from ikigai.core.views.usage_totals import Dollars

replace = msgspec.structs.replace

PART_BAR_CELLS = 8
"""Width of a part's bar."""
MAX_PART_CHARACTERS = 13
"""Characters of a part's name in the table."""
COUNTER_NAMES = {
    "bytes": "4 bytes per token",
    "provider": "each turn by its provider, the rest by bytes",
    "calibrated": "bytes, at the rate the provider's figures show",
}


class RequestPart(Record, frozen=True):
    """One part of the next request; `share` is of the ceiling."""

    name: str
    tokens: int
    share: float


class CountComparison(Record, frozen=True):
    """The counted tokens of the last request of which both are known, and the tokens that its provider reported."""

    model: str
    counted: int
    reported: int


class ContextRecord(Record, frozen=True, tag="context"):
    """The window in numbers, in tokens: /context.

    `price` is the price of the next request's input without a cache, `cached_price` with one. `cache_seconds` is how
    long the provider's cache is kept from now on: 0 if it has expired, null without a cache.
    """

    model: str
    used: Count
    ceiling: Count
    budget: Count
    budget_from: str
    context: Count
    """The model's own."""
    learned: bool
    """True if the provider has corrected it."""
    room: int
    parts: tuple[RequestPart, ...]
    turns: Count
    """Those that are sent whole; the next two are not."""
    turns_out: Count
    messages_out: Count
    pictures: Count
    images: Count
    """The size of all pictures in the parts."""
    documents: Count
    """Attached files, folders and pages."""
    documents_size: Count
    """Their size in the parts."""
    prune_fraction: float
    keep_first_turn: bool
    max_history_tokens: Count
    counter: str
    takes_tools: bool
    """False for a model that can be offered none."""
    compared: CountComparison | None
    mcp_deferred: tuple[str, ...]
    """The MCP servers whose tools are found by a search."""
    price: Dollars
    cached_price: Dollars
    cache_seconds: Count | None


def build_report(
    memory: Memory,
    learned: bool = False,
    last: UsageReported | None = None,
    price: NextPrice = UNKNOWN_PRICE,
) -> ContextRecord:
    """Return the report of this memory; `last` is the agent's newest request with a provider's count, `price` the price
    of its next one.
    """
    older, rules = memory.window.older, memory.run.rules
    pictures, images = _attached(memory, Image)
    documents, documents_size = _attached(memory, Document)
    turns = len(memory.window.turns) + (memory.window.first is not None)
    return ContextRecord(
        model=memory.model,
        used=memory.used,
        ceiling=memory.ceiling,
        budget=memory.budget,
        budget_from=memory.run.origin("budget", memory.own),
        context=memory.limits.context,
        learned=learned,
        room=memory.room,
        parts=_parts(memory),
        turns=turns,
        turns_out=older.turns,
        messages_out=older.messages,
        pictures=pictures,
        images=_tokens(memory, images),
        documents=documents,
        documents_size=_tokens(memory, documents_size),
        prune_fraction=rules.prune_fraction,
        keep_first_turn=rules.keep_first_turn,
        max_history_tokens=rules.max_history,
        counter=memory.run.counter,
        takes_tools=memory.limits.tools,
        compared=_compared(memory, last),
        mcp_deferred=read_offer(str(memory.settings.get(MCP_TOOLS_KEY) or "")).deferred,
        price=price.cold,
        cached_price=price.warm,
        cache_seconds=price.seconds,
    )


def _parts(memory: Memory) -> tuple[RequestPart, ...]:
    sizes = {name: size for name, size in _sizes(memory).items() if size}
    made, total, before = list[RequestPart](), 0, 0
    for name, size in sizes.items():
        total += size
        upto = _tokens(memory, total)  # rounded as they add up, so that the parts are the whole
        made.append(RequestPart(name, upto - before, _share(upto - before, memory.ceiling)))
        before = upto
    return tuple(made)


def _sizes(memory: Memory) -> dict[str, int]:
    """Return the bytes of each part, in the order of the request; the frame is common to all requests: model,
    limits.
    """
    encoder, request = memory.run.encoder(memory.model), request_frame(memory)
    bare = encoder.envelope(replace(request, system="", tools=()))
    unpinned = replace(request, system=system_prompt(without_pins(memory.settings)), tools=())
    system = encoder.envelope(unpinned) - bare
    pinned = encoder.envelope(replace(request, tools=())) - bare - system
    window, first = memory.window, memory.window.first
    summary = measure(memory, summary_messages(memory))
    foreign = _sizes_of_servers(memory, request.tools)
    first_words, first_results = _split(memory, first.messages, first.size) if first else (0, 0)
    words = results = recalled = 0
    for turn in window.turns:
        turn_words, turn_results = _split(memory, turn.messages, turn.size)
        quoted = _recalled(memory, turn)
        words, results, recalled = words + turn_words - quoted, results + turn_results, recalled + quoted
    open_words, open_results = _split(memory, memory.open.messages, memory.open.size) if memory.open else (0, 0)
    return {
        "overhead": bare,
        "system prompt": system,
        "pins": pinned,
        "tools": memory.envelope - bare - system - pinned - summary - sum(foreign.values()),
        **foreign,
        "summary": summary,
        "first turn": first_words + first_results,
        "notice": notice_size(memory, window.older.messages),
        "messages": words,
        "recalled": recalled,
        "tool results": results,
        "open turn": open_words,
        "its results": open_results,
    }


def _sizes_of_servers(memory: Memory, tools: Iterable[ToolSpec]) -> dict[str, int]:
    """Return the bytes of each MCP server's tools, and of the pair of tools that stands for deferred ones."""
    encoder, sizes = memory.run.encoder(memory.model), dict[str, int]()
    request = replace(request_frame(memory), tools=tuple(each for each in tools if each.set != MCP_SET))
    before = encoder.envelope(request)
    for part, found in groupby((each for each in tools if each.set == MCP_SET), key=_mcp_part):
        request = replace(request, tools=(*request.tools, *found))
        size = encoder.envelope(request)
        sizes[part], before = sizes.get(part, 0) + size - before, size
    return sizes


def _mcp_part(tool: ToolSpec) -> str:
    return "mcp search" if tool.name in (CALL_TOOL, SEARCH_TOOL) else f"mcp {tool.name.partition(SEPARATOR)[0]}"


def _split(memory: Memory, messages: tuple[Message, ...], size: int) -> tuple[int, int]:
    """Return the sizes of the words and of the tool results in a turn of `size` bytes."""
    plain = measure(memory, messages)
    results = measure(memory, [message for message in messages if message.role is Role.TOOL])
    results = results * size // plain if plain else 0
    return size - results, results


def _recalled(memory: Memory, turn: Turn) -> int:
    """Return the bytes of the excerpts that were recalled for a turn: the last block of its first message."""
    if not turn.recalled:
        return 0
    whole = turn.messages[0]
    return measure(memory, [whole]) - measure(memory, [Message(whole.role, whole.blocks[:-1])])


def count_images(memory: Memory) -> int:
    """Return the number of pictures in the context."""
    return sum(len(message.images) for message in _sent(memory))


def _sent(memory: Memory) -> tuple[Message, ...]:
    first, opened = memory.window.first, memory.open
    return (
        *(first.messages if first else ()),
        *(message for turn in memory.window.turns for message in turn.messages),
        *(opened.messages if opened else ()),
    )


def _attached(memory: Memory, kind: type[Image | Document]) -> tuple[int, int]:
    """Return the number of attachments of this kind, and the bytes they count for."""
    counts = [(message, _count(message, kind)) for message in _sent(memory)]
    found = [message for message, count in counts if count]
    bare = [Message(each.role, _without(each, kind)) for each in found]
    return sum(count for _, count in counts), measure(memory, found) - measure(memory, bare)


def _count(message: Message, kind: type[Image | Document]) -> int:
    return len(message.images) if kind is Image else sum(isinstance(block, kind) for block in message.blocks)


def _without(message: Message, kind: type[Image | Document]) -> tuple[Any, ...]:
    blocks = (block for block in message.blocks if not isinstance(block, kind))
    return tuple(
        msgspec.structs.replace(each, images=()) if kind is Image and isinstance(each, ToolResult) else each
        for each in blocks
    ) or (Text(""),)


def _tokens(memory: Memory, size: int) -> int:
    return tokens.count_tokens(memory.provider, memory.model, size)


def _share(part: int, whole: int) -> float:
    return round(part / whole, 4) if whole else 0.0


def _compared(memory: Memory, last: UsageReported | None) -> CountComparison | None:
    if last is None or not last.size or not last.usage.input:
        return None
    provider = last.model.partition("/")[0]
    return CountComparison(last.model, tokens.count_tokens(provider, last.model, last.size), last.usage.input)


def format_report(of: ContextRecord) -> str:
    """Return the text of /context: a table of the parts, then a line for each thing worth knowing; 38 columns do."""
    lines = [f"{_short(of.used)} of {_short(of.ceiling)} tokens in the next request", ""]
    free = max(0, of.ceiling - of.used)
    lines += [_row(part) for part in (*of.parts, RequestPart("free", free, _share(free, of.ceiling)))]
    rows = {
        "turns": _describe_turns(of),
        "budget": _budget(of),
        "model limit": f"{_short(of.context)}, including the reply" + " (counted by its provider)" * of.learned,
        "usable": f"{_short(of.room)} (model limit minus reply and 10 % margin)",
        "eviction": _describe_leaving(of),
        "estimate": COUNTER_NAMES[of.counter],
        "accuracy": _comparison(of.compared),
    }
    if not of.takes_tools:
        rows["tools"] = "none: the model does not support them"
    if of.mcp_deferred:
        rows["mcp"] = f"tools of {', '.join(of.mcp_deferred)} are found with {SEARCH_TOOL}"
    if of.pictures:
        rows["images"] = f"{of.pictures:,}, {_short(of.images)} tokens of the above"
    if of.documents:
        noun = "document" if of.documents == 1 else "documents"
        rows["attached"] = f"{of.documents:,} {noun}, {_short(of.documents_size)} tokens of the above"
    return "\n".join((*lines, "", *(f"{name:<12} {value}" for name, value in rows.items())))


def _row(part: RequestPart) -> str:
    filled = min(PART_BAR_CELLS, round(part.share * PART_BAR_CELLS))
    bar = "█" * filled + "░" * (PART_BAR_CELLS - filled)
    name, half = part.name, MAX_PART_CHARACTERS // 2
    if len(name) > MAX_PART_CHARACTERS:  # servers' names often differ at their ends
        name = f"{name[:half]}…{name[-half:]}"
    return f"{name:<{MAX_PART_CHARACTERS}} {_short(part.tokens):>6} {part.share * 100:>4.0f}% {bar}"


def _describe_turns(of: ContextRecord) -> str:
    if not of.turns_out:
        return f"{of.turns:,} in, none out"
    messages = "1 message" if of.messages_out == 1 else f"{of.messages_out:,} messages"
    return f"{of.turns:,} in, {of.turns_out:,} out ({messages})"


def _budget(of: ContextRecord) -> str:
    origin = "your choice" if of.budget_from == "agent" else f"from {of.budget_from}"
    if not of.budget:
        return f"off ({origin}): turns never leave the window"
    return f"{_short(of.budget)} ({origin})"


def _describe_leaving(of: ContextRecord) -> str:
    if not of.budget:
        return "never: the window is off"
    step = f"the oldest {of.prune_fraction:.0%} leave at once" if of.prune_fraction else "one turn leaves at a time"
    clauses = [f"when full, {step}"]
    if of.keep_first_turn:
        clauses.append("the first turn stays")
    if of.max_history_tokens:
        clauses.append(f"ended turns up to {_short(of.max_history_tokens)} at most")
    return "; ".join(clauses)


def _comparison(compared: CountComparison | None) -> str:
    if compared is None:
        return "no provider has counted a request yet"
    off = compared.counted / compared.reported - 1
    return f"estimated {_short(compared.counted)}, {compared.model} counted {_short(compared.reported)} ({off:+.0%})"


def cramped_notice(memory: Memory) -> str:
    """Return the warning that the fixed parts of a request take all of the ceiling; "" when they leave room
    for turns.
    """
    least = _tokens(memory, memory.envelope)
    if least < memory.ceiling:
        return ""
    request = request_frame(memory)
    system, tools = bool(request.system), bool(request.tools)
    subject = {
        (True, True): "System prompt and tools take",
        (True, False): "The system prompt takes",
        (False, True): "The tools take",
        (False, False): "An empty request takes",
    }[system, tools]
    budget = least + MIN_CONVERSATION_TOKENS
    advice = f"The smallest /budget that works is {budget}."
    if budget > memory.room:  # no budget helps
        unpin = "/unpin removes files, " * bool(list_pins(memory.settings))
        advice = unpin + "/system makes it shorter, " * system + "/model chooses a model with a larger context."
    return f"{subject} {_short(least)} tokens of {_short(memory.ceiling)}: only the newest turn will be sent. {advice}"


_short = tokens.format_tokens
