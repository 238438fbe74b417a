"""Condensing: which turns a summary is to stand for, what a model is shown of them, and when its text will do.

covering   the oldest turns, up to a target; never the newest two, never half a one
parts      their text, in pieces that the model that is asked has room for
beside     the request that has the model that said them summarise them, read from its cache
failing    why an answer is no summary
listed     the summaries of an agent, as people read them
"""

from collections.abc import Iterable, Sequence
from typing import Any, cast

import msgspec

from ikigai.core import tokens
from ikigai.core.condense.prompt import ASIDE, ASKED
from ikigai.core.condense.threshold import DEFAULT_RESERVE, Decision, Options, pressed
from ikigai.core.events import Cleared, StoredEvent, Summarised, Undone
from ikigai.core.messages import Image, Message, Role, Text, ToolCall, ToolResult
from ikigai.core.model import Limits
from ikigai.core.record import Record
from ikigai.core.request.build import Request, summarised
from ikigai.core.state.lineage import Ancestor, Span, void
from ikigai.core.state.loading import AskAncestry, AskControls, Loading, Reading, filling, reaching
from ikigai.core.state.memory import Beginning, Memory, Summary, frame, measured, replace, summary_messages
from ikigai.core.state.run_config import Run
from ikigai.core.state.window import Turn

KEPT_TURNS = 2
"""The newest turns, which no summary covers."""
LONGEST, SHORTEST = 4_000, 100
"""Tokens that a summary is asked to take at the most, and is always allowed: a page or two, and a few sentences."""
SHARE = 20
"""A summary may take this part of what a request may: 5 %."""
WIDE = 2
"""Times the ceiling that is looked into where turns have left the window already; what is older goes unseen."""
GROWTH = 10
"""A summary that was no good is not tried again before a tenth of the window has been said since."""


class Covering(Record, frozen=True):
    """What a summary is to stand for: these turns, oldest first, and the `earlier` summary.

    It stands for `count` turns in all, of which `unseen` lie before those that are here. `replaced` are the bytes that
    all of it takes in a request, `allowance` the tokens that the summary may take.
    """

    turns: tuple[Turn, ...]
    earlier: Summary | None
    unseen: int
    count: int
    replaced: int
    allowance: int
    begins: Beginning

    @property
    def upto(self) -> int:
        return self.turns[-1].end


def whole(memory: Memory) -> int:
    """Tokens that percentages are of: the model's context or the budget, whichever is smaller."""
    return min(memory.limits.context, memory.budget) if memory.budget else memory.limits.context


def decided(memory: Memory, options: Options) -> Decision:
    """What is to be done behind a turn. What has left the window counts as if it had not: it is why one condenses."""
    limits = memory.limits
    used = memory.used + tokens.count(memory.provider, memory.model, memory.window.older.bytes)
    reserve = min(limits.max_output or DEFAULT_RESERVE, limits.context // 4)
    automatic, budget = options.mode == "auto", memory.budget
    return pressed(used, limits.context, reserve, threshold=options.at_percent, automatic=automatic, budget=budget)


def widened(run: Run, agent: str, ceiling: int) -> Loading:
    """The memory of an agent with as many turns as this ceiling has room for, in tokens; turns are as they are sent."""
    found = yield from reaching(run, agent)
    settled = found.settled
    rules = replace(settled.run.rules, prune_fraction=0.0, keep_first_turn=False, max_history=0)
    wide = replace(
        settled,
        run=replace(settled.run, rules=rules),
        settings={**settled.settings, "budget": ceiling},
        limits=Limits(2 * ceiling, 0),
    )
    return (yield from filling(replace(found, settled=wide)))


def covering(memory: Memory, wide: Memory, options: Options, by_hand: bool) -> Covering | None:
    """What to condense: as much as it takes to come to the target, `to_percent`; None where nothing can be.

    `wide` is memory with what has left its window, as far as that was looked into. Who asks by hand means something to
    happen: then the target is the same share of what there is, if that is less.
    """
    turns = (*((wide.full.first,) if wide.full.first else ()), *wide.full.turns)
    total, bare = whole(memory), memory.run.encoder(memory.model).envelope(frame(memory))
    percent = options.to_percent if options.to_percent < options.at_percent else options.at_percent // 2
    target = tokens.most_bytes(memory.provider, memory.model, total * percent // 100)
    if by_hand:
        target = min(target, (memory.envelope + sum(turn.size for turn in turns)) * percent // 100)
    allowed = allowance(total)
    left = target - bare - tokens.most_bytes(memory.provider, memory.model, allowed)
    kept = KEPT_TURNS
    left -= sum(turn.size for turn in turns[-kept:])
    while kept < len(turns) and turns[-kept - 1].size <= left:
        left -= turns[-kept - 1].size
        kept += 1
    if kept >= len(turns):
        return None
    return _covering(memory, turns[:-kept], wide.window.older.turns, allowed)


def everything(memory: Memory) -> Covering | None:
    """What a summary of all that the model still knew would stand for: of a conversation that is cleared."""
    turns = (*((memory.full.first,) if memory.full.first else ()), *memory.full.turns)
    return _covering(memory, turns, memory.window.older.turns, allowance(whole(memory))) if turns else None


def _covering(memory: Memory, turns: tuple[Turn, ...], unseen: int, allowed: int) -> Covering:
    earlier = memory.summary
    messages = [message for turn in turns for message in turn.messages]
    replaced = measured(memory, messages) + measured(memory, summary_messages(memory))
    count = len(turns) + unseen + (earlier.turns if earlier else 0)
    size = tokens.count(memory.provider, memory.model, replaced)
    most = max(SHORTEST, min(allowed, size // 2))
    return Covering(turns, earlier, unseen, count, replaced, most, memory.begins(turns[-1].end))


def allowance(total: int) -> int:
    """Tokens that a summary is asked to take at the most, where a request may have `total`."""
    return max(SHORTEST, min(LONGEST, total // SHARE))


def grown(since: Memory, now: Memory) -> bool:
    """Whether a tenth of the window that was has been said since then; also where memory begins anew."""
    more = now.full.total.bytes - since.full.total.bytes
    return now.cleared != since.cleared or GROWTH * more >= since.full.size


# ── what a model is shown ──


def told(turns: Iterable[Turn]) -> list[str]:
    """The messages of turns as text, one each, in order; what was only thought is left out."""
    return [text for turn in turns for message in turn.messages for text in _told(message)]


def _told(message: Message) -> Iterable[str]:
    for block in message.blocks:
        match block:
            case Text(text) if text:
                yield f"[{'user' if message.role is Role.USER else 'assistant'}]\n{text}"
            case Image():
                yield f"[user shows an image] {block.name or block.media_type}"
            case ToolCall(_, name, arguments):
                yield f"[assistant calls {name}]\n{arguments}"
            case ToolResult(_, content, is_error, name):
                yield f"[{'error' if is_error else 'result'} of {name}]\n{content}"
            case _:
                pass


def parts(texts: Sequence[str], most: int) -> list[str]:
    """The texts put together, into pieces that take `most` bytes of JSON each at the most; one too long is cut."""
    found: list[str] = []
    piece, size = list[str](), 0
    for text in texts:
        for cut in _cut(text, most):
            more = weight(cut) + len(r"\n\n")
            if piece and size + more > most:
                found.append("\n\n".join(piece))
                piece, size = [], 0
            piece.append(cut)
            size += more
    return [*found, "\n\n".join(piece)] if piece else found


def _cut(text: str, most: int) -> Iterable[str]:
    if weight(text) <= most:
        yield text
        return
    step = max(1, most // 12)  # characters; JSON makes twelve bytes of one at the most
    start = 0
    while start < len(text):
        end = start + step
        while end < len(text) and weight(text[start : end + step]) <= most:
            end += step
        yield text[start:end]
        start = end


def weight(text: str) -> int:
    """Bytes of a text in JSON."""
    return len(msgspec.json.encode(text))


def beside(memory: Memory, of: Covering, prompt: str, focus: str, allowance: int) -> Request | None:
    """The request as it stands up to the last turn that is covered, and the question behind it.

    What a provider has in its cache costs a tenth to be read again, and this is what it was sent before. None where the
    window begins with a notice of what has left, or where the question has no room in it.
    """
    if memory.window.older.turns or of.unseen:
        return None
    minded = f"\n\nKeep in mind above all: {focus}" if focus else ""
    asked = f"{ASIDE}\n\n{prompt}{minded}\n\n{ASKED.format(words=_words(allowance))}"
    turns = (message for turn in of.turns for message in turn.messages)
    messages = (*summary_messages(memory), *turns, Message(Role.USER, (Text(asked),)))
    framed = frame(memory)
    size = memory.run.encoder(memory.model).envelope(framed) + measured(memory, messages)
    fits = tokens.count(memory.provider, memory.model, size) <= memory.room
    return replace(framed, messages=messages) if fits else None


def question(part: str, earlier: str, focus: str, allowance: int, last: bool = True) -> str:
    """What the model is asked of one part; `earlier` is the summary of all before it."""
    before = f"The summary so far:\n\n{earlier}\n\n" if earlier else ""
    minded = f"The user asks to keep in mind above all: {focus}\n\n" if focus else ""
    more = "" if last else "More of the conversation follows later; only take it in now. "
    asked = ASKED.format(words=_words(allowance))
    return f"{before}The conversation:\n\n{part}\n\n[end of the conversation]\n\n{minded}{more}{asked}"


def _words(allowance: int) -> int:
    """How many words so many tokens are at the least: of some languages a word is more than one and a half."""
    return max(40, allowance * 3 // 5)


def failing(memory: Memory, text: str, of: Covering) -> str:
    """Why a text cannot stand for what it is to cover; "" where it can."""
    if not text.strip():
        return "said nothing"
    size = measured(memory, summarised(text, of.count))
    if 4 * size > 3 * of.replaced:
        sizes = " for ".join(
            tokens.short(tokens.count(memory.provider, memory.model, each)) for each in (size, of.replaced)
        )
        return f"gave a summary that is not shorter by a quarter than what it stands for ({sizes} tokens)"
    return ""


# ── what people see ──


class Listed(Record, frozen=True):
    """The summaries of an agent: the one in force, None without one, and those of cleared epochs, oldest first."""

    in_force: StoredEvent | None
    closed: tuple[StoredEvent, ...]


def listed(memory: Memory) -> Reading[Listed]:
    """Those of the agent and what it inherited, also from before the clear that its memory begins behind."""
    line = cast("tuple[Ancestor, ...]", (yield AskAncestry(memory.agent)))
    spans = tuple(Span(each.agent, 0, each.upto) for each in reversed(line))
    rows = cast("tuple[StoredEvent, ...]", (yield AskControls(spans)))
    out = void((row.id, row.event.of) for row in rows if isinstance(row.event, Undone))
    kept = [row for row in rows if isinstance(row.event, Summarised) and row.id not in out]
    current = memory.summary.id if memory.summary else 0
    in_force = next((row for row in kept if row.id == current), None)
    clears = {row.id for row in rows if isinstance(row.event, Cleared)}
    closed = (row for row in kept if isinstance(row.event, Summarised) and row.event.closed in clears)
    return Listed(in_force, tuple(closed))


def described(of: Listed) -> str:
    """What /summary prints."""
    lines = list[str]()
    if of.in_force and isinstance(event := of.in_force.event, Summarised):
        lines += [f"#{of.in_force.id} {_figures(event)}, {event.model}", "", event.text]
    else:
        lines.append('Nothing is condensed. /condense does it by hand, condense = "auto" by itself.')
    if of.closed:
        lines += ["", "Of what was cleared (/quote ID brings one back):"]
        for row in of.closed:
            if isinstance(row.event, Summarised):
                lines.append(f"#{row.id} {_turns(row.event.turns)}: {' '.join(row.event.text.split())[:100]}")
    return "\n".join(lines)


def figures(of: Listed) -> dict[str, Any]:
    """The same for programs."""

    def row(stored: StoredEvent) -> dict[str, Any]:
        fields = cast("dict[str, Any]", msgspec.to_builtins(stored.event))
        return {"id": stored.id, "at": stored.at, **fields}

    return {"in_force": row(of.in_force) if of.in_force else None, "cleared": [row(each) for each in of.closed]}


def _figures(event: Summarised) -> str:
    return f"{_turns(event.turns)}, {tokens.short(event.before)} → {tokens.short(event.after)} tokens"


def _turns(count: int) -> str:
    return f"{count:,} turn{'s' * (count != 1)}"
