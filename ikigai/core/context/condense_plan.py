"""Plan condensing: the turns of a summary, the requests to the model, and the check of its text.

choose_scope       the oldest turns, up to a target; never the newest two, never half a one
join_into_parts    their text, in pieces that fit into a request to the condensing model
appended_request   the request in which the agent's own model summarizes them, read from its cache
summary_defect     the reason why an answer is not a summary
format_summaries   the summaries of an agent, as people read them
"""

from collections.abc import Iterable, Sequence
from typing import cast

import msgspec

from ikigai.core.context.condense_prompt import ASIDE_PREFIX, QUESTION_ENDING
from ikigai.core.context.condense_threshold import DEFAULT_RESERVE, CondenseDecision, CondenseOptions, check_pressure
from ikigai.core.events.events import Cleared, StoredEvent, Summarized, Undone
from ikigai.core.events.messages import Document, Image, Message, Role, Text, ToolCall, ToolResult
from ikigai.core.events.record import Record
from ikigai.core.request.build import Request, summary_as_messages
from ikigai.core.request.model import ModelLimits
from ikigai.core.state.effective_settings import RunConfig
from ikigai.core.state.lineage import Ancestor, Span, undone_ids
from ikigai.core.state.loading import AskAncestry, AskControls, Loading, Reading, find_reach, load_reach
from ikigai.core.state.memory import Memory, MemoryStart, Summary, measure, replace, request_frame, summary_messages
from ikigai.core.state.window import Turn
from ikigai.core.text import tokens

MIN_KEPT_TURNS = 2
"""The number of the newest turns, which no summary covers."""
MAX_SUMMARY_TOKENS, MIN_SUMMARY_TOKENS = 4_000, 100
"""The largest and the smallest limit of a summary, in tokens: a page or two, and a few sentences."""
SUMMARY_SHARE = 20
"""The part of a request that a summary may take: one in 20, 5 %."""
WIDENED_CEILING = 2
"""The factor of the ceiling for turns that have left the window; older ones go unseen."""
RETRY_GROWTH = 10
"""The growth before a bad summary is tried again: a tenth of the window."""


class SummaryScope(Record, frozen=True):
    """The turns that a summary is to stand for, oldest first, and the `earlier` summary.

    It stands for `count` turns in all, of which `unseen` lie before those that are here. `replaced` is the size of all
    of it in a request, in bytes; `allowance` is the size of the summary at most, in tokens.
    """

    turns: tuple[Turn, ...]
    earlier: Summary | None
    unseen: int
    count: int
    replaced: int
    allowance: int
    begins: MemoryStart

    @property
    def upto(self) -> int:
        return self.turns[-1].end


def reference_tokens(memory: Memory) -> int:
    """Return the tokens that percentages refer to: the model's context or the budget, whichever is smaller."""
    return min(memory.limits.context, memory.budget) if memory.budget else memory.limits.context


def decide_condensing(memory: Memory, options: CondenseOptions) -> CondenseDecision:
    """Decide about condensing behind a turn. Turns that have left the window count as if they had not: they are the
    reason to condense.
    """
    limits = memory.limits
    used = memory.used + tokens.count_tokens(memory.provider, memory.model, memory.window.older.bytes)
    reserve = min(limits.max_output or DEFAULT_RESERVE, limits.context // 4)
    automatic, budget = options.mode == "auto", memory.budget
    return check_pressure(
        used, limits.context, reserve, threshold=options.at_percent, automatic=automatic, budget=budget
    )


def load_wider_window(run: RunConfig, agent: str, ceiling: int) -> Loading:
    """Load the memory of an agent with as many turns, in sent form, as a ceiling of so many tokens has room for."""
    found = yield from find_reach(run, agent)
    settled = found.settled
    rules = replace(settled.run.rules, prune_fraction=0.0, keep_first_turn=False, max_history=0)
    wide = replace(
        settled,
        run=replace(settled.run, rules=rules),
        settings={**settled.settings, "budget": ceiling},
        limits=ModelLimits(2 * ceiling, 0),
    )
    return (yield from load_reach(replace(found, settled=wide)))


def choose_scope(memory: Memory, wide: Memory, options: CondenseOptions, by_hand: bool) -> SummaryScope | None:
    """Return the turns to condense so that memory shrinks to the target, `to_percent`; None where nothing can be.

    `wide` is memory with the turns that have left its window, as far as they were loaded. A user who asks by hand
    expects an effect: then the target is the same share of the present size, if that is less.
    """
    turns = (*((wide.full_window.first,) if wide.full_window.first else ()), *wide.full_window.turns)
    total, bare = reference_tokens(memory), memory.run.encoder(memory.model).envelope(request_frame(memory))
    percent = options.to_percent if options.to_percent < options.at_percent else options.at_percent // 2
    target = tokens.max_bytes(memory.provider, memory.model, total * percent // 100)
    if by_hand:
        target = min(target, (memory.envelope + sum(turn.size for turn in turns)) * percent // 100)
    allowed = summary_allowance(total)
    left = target - bare - tokens.max_bytes(memory.provider, memory.model, allowed)
    kept = MIN_KEPT_TURNS
    left -= sum(turn.size for turn in turns[-kept:])
    while kept < len(turns) and turns[-kept - 1].size <= left:
        left -= turns[-kept - 1].size
        kept += 1
    if kept >= len(turns):
        return None
    return _choose_scope(memory, turns[:-kept], wide.window.older.turns, allowed)


def whole_scope(memory: Memory) -> SummaryScope | None:
    """Return the scope of a summary of all that the model still knew, for a conversation that is cleared."""
    turns = (*((memory.full_window.first,) if memory.full_window.first else ()), *memory.full_window.turns)
    return (
        _choose_scope(memory, turns, memory.window.older.turns, summary_allowance(reference_tokens(memory)))
        if turns
        else None
    )


def _choose_scope(memory: Memory, turns: tuple[Turn, ...], unseen: int, allowed: int) -> SummaryScope:
    earlier = memory.summary
    messages = [message for turn in turns for message in turn.messages]
    replaced = measure(memory, messages) + measure(memory, summary_messages(memory))
    count = len(turns) + unseen + (earlier.turns if earlier else 0)
    size = tokens.count_tokens(memory.provider, memory.model, replaced)
    limit = max(MIN_SUMMARY_TOKENS, min(allowed, size // 2))
    return SummaryScope(turns, earlier, unseen, count, replaced, limit, memory.start_up_to(turns[-1].end))


def summary_allowance(total: int) -> int:
    """Return the tokens that a summary is asked to take at the most, where a request may have `total`."""
    return max(MIN_SUMMARY_TOKENS, min(MAX_SUMMARY_TOKENS, total // SUMMARY_SHARE))


def has_grown(since: Memory, now: Memory) -> bool:
    """Return True if a tenth of the former window has been added since then, or if memory begins anew."""
    more = now.full_window.total.bytes - since.full_window.total.bytes
    return now.cleared != since.cleared or RETRY_GROWTH * more >= since.full_window.size


# ── what a model is shown ──


def format_turns(turns: Iterable[Turn]) -> list[str]:
    """Return the messages of turns as text, one each, in order, without thoughts."""
    return [text for turn in turns for message in turn.messages for text in _format_message(message)]


def _format_message(message: Message) -> Iterable[str]:
    for block in message.blocks:
        match block:
            case Text(text) if text:
                yield f"[{'user' if message.role is Role.USER else 'assistant'}]\n{text}"
            case Image():
                yield f"[user shows an image] {block.name or block.media_type}"
            case Document(name, text, kind):
                yield f"[user attaches {kind} {name}]\n{text}"
            case ToolCall(_, name, arguments):
                yield f"[assistant calls {name}]\n{arguments}"
            case ToolResult(_, content, is_error, name):
                yield f"[{'error' if is_error else 'result'} of {name}]\n{content}"
            case _:
                pass


def join_into_parts(texts: Sequence[str], max_size: int) -> list[str]:
    """Join the texts into pieces of at most `max_size` bytes of JSON each; cut a text that is too long."""
    parts: list[str] = []
    piece, size = list[str](), 0
    for text in texts:
        for cut in _cut(text, max_size):
            more = json_bytes(cut) + len(r"\n\n")
            if piece and size + more > max_size:
                parts.append("\n\n".join(piece))
                piece, size = [], 0
            piece.append(cut)
            size += more
    return [*parts, "\n\n".join(piece)] if piece else parts


def _cut(text: str, max_size: int) -> Iterable[str]:
    if json_bytes(text) <= max_size:
        yield text
        return
    step = max(1, max_size // 12)  # characters; one becomes twelve bytes of JSON at the most
    start = 0
    while start < len(text):
        end = start + step
        while end < len(text) and json_bytes(text[start : end + step]) <= max_size:
            end += step
        yield text[start:end]
        start = end


def json_bytes(text: str) -> int:
    """Return the bytes of a text in JSON."""
    return len(msgspec.json.encode(text))


def appended_request(memory: Memory, of: SummaryScope, prompt: str, focus: str, allowance: int) -> Request | None:
    """Return the request as it stands up to the last covered turn, with the question behind it.

    Text in a provider's cache costs a tenth to be read again, and this text was sent before. Return None where the
    window begins with a notice of turns that have left, or where the question has no room in it.
    """
    if memory.window.older.turns or of.unseen:
        return None
    focus_line = f"\n\nKeep in mind above all: {focus}" if focus else ""
    question = f"{ASIDE_PREFIX}\n\n{prompt}{focus_line}\n\n{QUESTION_ENDING.format(words=_words(allowance))}"
    turns = (message for turn in of.turns for message in turn.messages)
    messages = (*summary_messages(memory), *turns, Message(Role.USER, (Text(question),)))
    frame = request_frame(memory)
    size = memory.run.encoder(memory.model).envelope(frame) + measure(memory, messages)
    fits = tokens.count_tokens(memory.provider, memory.model, size) <= memory.room
    return replace(frame, messages=messages) if fits else None


def part_question(part: str, earlier: str, focus: str, allowance: int, last: bool = True) -> str:
    """Return the question to the model about one part; `earlier` is the summary of all before it."""
    before = f"The summary so far:\n\n{earlier}\n\n" if earlier else ""
    focus_line = f"The user asks to keep in mind above all: {focus}\n\n" if focus else ""
    more = "" if last else "More of the conversation follows later; only take it in now. "
    ending = QUESTION_ENDING.format(words=_words(allowance))
    return f"{before}The conversation:\n\n{part}\n\n[end of the conversation]\n\n{focus_line}{more}{ending}"


def _words(allowance: int) -> int:
    """Return the least number of words in so many tokens: of some languages a word is more than one and a half."""
    return max(40, allowance * 3 // 5)


def summary_defect(memory: Memory, text: str, of: SummaryScope) -> str:
    """Return the reason why a text cannot stand for its scope; "" where it can."""
    if not text.strip():
        return "returned no text"
    size = measure(memory, summary_as_messages(text, of.count))
    if 4 * size > 3 * of.replaced:
        sizes = " for ".join(
            tokens.format_tokens(tokens.count_tokens(memory.provider, memory.model, each))
            for each in (size, of.replaced)
        )
        return f"gave a summary that is not shorter by a quarter than what it stands for ({sizes} tokens)"
    return ""


# ── what people see ──


class SummaryList(Record, frozen=True):
    """Summaries of an agent: the one in force, or None, and the summaries of cleared epochs, oldest first."""

    in_force: StoredEvent | None
    closed: tuple[StoredEvent, ...]


def load_summaries(memory: Memory) -> Reading[SummaryList]:
    """Load the summaries of the agent and its ancestors, also those from before the clear that its memory begins
    behind.
    """
    line = cast("tuple[Ancestor, ...]", (yield AskAncestry(memory.agent)))
    spans = tuple(Span(each.agent, 0, each.upto) for each in reversed(line))
    rows = cast("tuple[StoredEvent, ...]", (yield AskControls(spans)))
    out = undone_ids((row.id, row.event.of) for row in rows if isinstance(row.event, Undone))
    summaries = [row for row in rows if isinstance(row.event, Summarized) and row.id not in out]
    current = memory.summary.id if memory.summary else 0
    in_force = next((row for row in summaries if row.id == current), None)
    clears = {row.id for row in rows if isinstance(row.event, Cleared)}
    closed = (row for row in summaries if isinstance(row.event, Summarized) and row.event.closed in clears)
    return SummaryList(in_force, tuple(closed))


def format_summaries(of: SummaryList) -> str:
    """Return the text of /summary."""
    lines = list[str]()
    if of.in_force and isinstance(event := of.in_force.event, Summarized):
        lines += [f"#{of.in_force.id} {_figures(event)}, {event.model}", "", event.text]
    else:
        lines.append('No summary yet. /condense makes one now; condense = "auto" makes them automatically.')
    if of.closed:
        lines += ["", "Summaries of cleared turns (/quote ID brings one back):"]
        for row in of.closed:
            if isinstance(row.event, Summarized):
                lines.append(f"#{row.id} {_count_turns(row.event.turns)}: {' '.join(row.event.text.split())[:100]}")
    return "\n".join(lines)


def _figures(event: Summarized) -> str:
    before, after = map(tokens.format_tokens, (event.before, event.after))
    return f"{_count_turns(event.turns)}, {before} → {after} tokens"


def _count_turns(count: int) -> str:
    return f"{count:,} turn{'s' * (count != 1)}"
