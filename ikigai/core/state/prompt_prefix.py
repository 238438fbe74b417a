"""Digest the beginning of a request, by which a provider's cache tells it from others."""

import hashlib
from collections.abc import Iterable

from ikigai.core.events.events import PromptPrefix
from ikigai.core.request.build import Request
from ikigai.core.request.cache_diagnosis import lifetime_seconds
from ikigai.core.state.memory import Memory
from ikigai.core.state.open_turn import OpenTurn


def prompt_prefix(memory: Memory, request: Request) -> PromptPrefix:
    """Return the beginning of the request, which this memory made.

    It takes as long as to read tools and system prompt, so it is called when the reply is here.
    """
    first, opened = memory.first_after_rule, memory.open
    start = 0 if first is None else first.first if isinstance(first, OpenTurn) else first.id
    gone = sorted((low, high) for low, high in memory.excluded_intervals if high > start)
    removed = [id for id in memory.removed_ids if id >= start]
    removed += [turn.id for turn in memory.window.turns if turn.lacks_recalled]
    return PromptPrefix(
        tools=_digest(part for tool in request.tools for part in (tool.name, tool.description, tool.schema)),
        system=_digest((request.system,)),
        level=request.level + (f" {_digest((request.schema,))}" if request.schema else ""),
        base=max(memory.cleared or 0, memory.summary.id if memory.summary else 0),
        start=start,
        cut=opened.dropped + opened.edge if opened else 0,
        history=_digest((repr(gone), repr(removed), str(memory.window.older.messages))),
        ttl=lifetime_seconds(memory.model, request.cache_ttl),
    )


def _digest(texts: Iterable[str]) -> str:
    """Return 16 hexadecimal digits for these texts; "" for none."""
    digest, is_empty = hashlib.blake2b(digest_size=8), True
    for text in texts:
        is_empty = is_empty and not text
        digest.update(text.encode(errors="surrogatepass") + b"\0")
    return "" if is_empty else digest.hexdigest()
