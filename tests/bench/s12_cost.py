"""Compute S12: the cost of a full window with a provider's prompt cache, by the way in which turns leave.

A conversation of 300 turns of about 1,200 tokens each, that begins with a full window under a ceiling of 100,000
tokens. One request a turn, as the core makes it. The part that a request shares with the one before, message by message
from its beginning, is read from the cache; the rest is written to it; system prompt and tools are always a breakpoint.
Prices are Anthropic's, in input tokens: read 0.1, written 1.25. Nothing is timed: the figures are the same on every
machine.

Halving is compared over several conversations, because where in its saw-tooth one ends moves both figures by some
thousandths. Roo-Code keeps the first message, so it is set against keep_first_turn, at a fraction whose window is no
smaller on average (SAME). prune_fraction is a share of the ceiling, system prompt and tools included, while Roo-Code
halves messages alone: at 0.5 it keeps a little more on average, and pays for it. That is also shown, as it is and as
the same share of what messages may take; the difference of the windows beside the size of one turn.

With pauses between the turns a cache expires. Five patterns of pauses show what the choice of its lifetime by evidence
(`cache_ttl = "auto"`) costs, beside the better one of five minutes and an hour.
"""

import math
from collections.abc import Callable, Iterator
from random import Random
from typing import NamedTuple

from ikigai.core.events.events import AssistantMessage, Ending, Event, StoredEvent, UserMessage
from ikigai.core.events.messages import Message, Role, Text, ToolSpec
from ikigai.core.request.build import Request
from ikigai.core.request.cache_lifetime import READ_PRICE, TTL_SECONDS, WRITE_PRICES, CacheTtl, choose_ttl
from ikigai.core.request.model import ModelLimits
from ikigai.core.state.effective_settings import RunConfig, WindowRules
from ikigai.core.state.fold import empty_memory, end_turn, evolve
from ikigai.core.state.memory import Memory, next_request, replace
from ikigai.core.text import tokens
from ikigai.providers.openai.chat_api import ChatEncoder
from tests.bench.figures import Figure
from tests.bench.prose import Prose

READ, WRITTEN = 0.1, 1.25
TURNS, CEILING = 300, 100_000
ASKED, SAID = 80, 710
"""Words of a question and of an answer: about 1,200 tokens together."""
TALKS = 9
"""Conversations over which halving is compared; all other figures come from the first."""
RECOMMENDED = 0.25
SAME = 0.498
"""The fraction whose window is as large as with halving."""
SYSTEM = "You are a careful assistant. " * 40
TOOLS = tuple(ToolSpec(name, "Does a thing to a file. " * 10, '{"type":"object"}') for name in ("read", "write", "run"))
ENCODER = ChatEncoder()
FRAME = Request("x", (), SYSTEM, TOOLS)
SEED = 12


class Cost(NamedTuple):
    """The figures of all requests together: `price` in input tokens, the `share` that a cache served, the mean size."""

    price: float
    share: float
    window: float


def measure(quick: bool) -> list[Figure]:
    if quick:
        return [*against_halving(60, 10_000, 2), *ways(60, 10_000), *lifetimes(60, 10_000)]
    return [*against_halving(TURNS, CEILING, TALKS), *ways(TURNS, CEILING), *lifetimes(TURNS, CEILING)]


def against_halving(turns: int, ceiling: int, talks: int) -> list[Figure]:
    """Compare prune_fraction with Roo-Code's halving at the same ceiling, over the same conversations."""
    envelope = tokens.count_tokens("", "", ENCODER.envelope(FRAME))
    roos, sames, halves, alikes = list[Cost](), list[Cost](), list[Cost](), list[Cost]()
    for seed in range(SEED, SEED + talks):
        talk = _talk(turns + ceiling // 1_000, seed)
        roos.append(_priced(_halving(talk, ceiling), turns))
        sames.append(_priced(_ours(talk, ceiling, WindowRules(SAME, keep_first_turn=True)), turns))
        halves.append(_priced(_ours(talk, ceiling, WindowRules(0.5)), turns))
        alikes.append(_priced(_ours(talk, ceiling, WindowRules(0.5 * (1 - envelope / ceiling))), turns))

    def ratios(ours: list[Cost], theirs: list[Cost], of: Callable[[Cost], float]) -> list[float]:
        return [100 * of(one) / of(other) for one, other in zip(ours, theirs, strict=True)]

    def price(cost: Cost) -> float:
        return cost.price

    def window(cost: Cost) -> float:
        return cost.window

    turn = [len("".join(each)) / 4 for each in _talk(turns, SEED)]
    lead = [abs(roo.window - half.window) for roo, half in zip(roos, halves, strict=True)]
    halving, whole = "of halving's", [100.0]
    return [
        Figure("S12", f"{SAME}, first turn kept: cost", "%", ratios(sames, roos, price), halving, whole, 1.0),
        Figure("S12", "halving: mean window", "%", ratios(roos, sames, window), f"of that of {SAME}", whole, 1.0),
        Figure("S12", "0.5: cost", "%", ratios(halves, roos, price), halving, whole),
        Figure("S12", "halving: mean window", "%", ratios(roos, halves, window), "of that of 0.5", whole),
        Figure("S12", "the windows' difference", "tokens", lead, "one turn", turn),
        Figure("S12", "0.5 of messages: cost", "%", ratios(alikes, roos, price), halving, whole),
        Figure("S12", "halving: mean window", "%", ratios(roos, alikes, window), "of that of 0.5 of messages", whole),
    ]


def ways(turns: int, ceiling: int) -> list[Figure]:
    """Compare every way in which turns leave, over one conversation."""
    talk = _talk(turns + ceiling // 1_000, SEED)
    costs = {
        f"prune_fraction {fraction:g}": _priced(_ours(talk, ceiling, WindowRules(fraction)), turns)
        for fraction in (0, 0.1, RECOMMENDED, 0.5)
    }
    costs["0.5, keep_first_turn"] = _priced(_ours(talk, ceiling, WindowRules(0.5, keep_first_turn=True)), turns)
    costs["Roo-Code's halving"] = _priced(_halving(talk, ceiling), turns)
    costs["no window"] = _priced(_ours(talk, 0, WindowRules()), turns)
    bare, figures = costs["prune_fraction 0"], list[Figure]()
    for name, cost in costs.items():
        bar = 0.2 if name == f"prune_fraction {RECOMMENDED:g}" else None
        figures += [
            Figure("S12", f"{name}: cost", "tokens", [cost.price], "prune_fraction 0", [bare.price], bar),
            Figure("S12", f"{name}: mean window", "tokens", [cost.window], "the ceiling", [ceiling]),
            Figure("S12", f"{name}: served by a cache", "%", [100 * cost.share], "everything", [100]),
        ]
    return figures


def _short(draw: Random, turn: int) -> float:
    return draw.uniform(20, 120)


def _long(draw: Random, turn: int) -> float:
    return draw.uniform(600, 3_000)


def _work_hours(draw: Random, turn: int) -> float:
    """Forty turns a day, one of six after a break of minutes, and a night behind them."""
    if turn % 40 == 39:
        return 15 * 3_600
    return draw.uniform(400, 3_000) if draw.random() < 1 / 6 else draw.uniform(20, 200)


def _bursts(draw: Random, turn: int) -> float:
    return draw.uniform(20, 60) if turn % 8 else draw.uniform(500, 3_000)


def _random(draw: Random, turn: int) -> float:
    return math.exp(draw.uniform(math.log(5), math.log(3 * 3_600)))


PATTERNS: dict[str, Callable[[Random, int], float]] = {
    "short": _short,
    "long": _long,
    "work hours": _work_hours,
    "bursts": _bursts,
    "random": _random,
}
"""Seconds before a turn, by the pattern of the pauses."""


def lifetimes(turns: int, ceiling: int) -> list[Figure]:
    """Compare the choice of the cache's lifetime by evidence with the better one of the two fixed ones."""
    talk = _talk(turns + ceiling // 1_000, SEED)
    asked = list(_ours(talk, ceiling, WindowRules()))
    figures = list[Figure]()
    for name, pattern in PATTERNS.items():
        draw = Random(SEED)
        pauses = [pattern(draw, turn) for turn in range(len(asked))]
        auto, *fixed = (_timed(asked, pauses, ttl, turns) for ttl in (None, "5m", "1h"))
        figures.append(Figure("S12", f"auto, {name} pauses: cost", "tokens", [auto], "5m or 1h", [min(fixed)], 1.05))
    return figures


def _timed(requests: list[Request], pauses: list[float], fixed: CacheTtl | None, turns: int) -> int:
    """Return the cost of the last `turns` requests, each after its pause, with a fixed lifetime or the chosen one.

    A cache entry covers the request up to an end that was written. Reading it renews it; the rest is written anew.
    """
    sizes = {message: ENCODER.message(message) for request in requests for message in request.messages}
    envelope, now, cost = ENCODER.envelope(requests[0]), 0.0, 0.0
    entries = list[tuple[tuple[Message, ...], float, CacheTtl]]()  # beginning, end of its life, lifetime
    for number, (request, pause) in enumerate(zip(requests, pauses, strict=True)):
        now += pause
        ttl = fixed or choose_ttl(pauses[1 : number + 1], len(request.messages) // 2 + 1)
        entries = [each for each in entries if each[1] >= now]
        begins = [each for each in entries if request.messages[: len(each[0])] == each[0]]
        longest = max(begins, key=lambda each: len(each[0]), default=None)
        read = (envelope + sum(sizes[message] for message in longest[0])) if longest else 0
        whole = envelope + sum(sizes[message] for message in request.messages)
        if number >= len(requests) - turns:
            cost += READ_PRICE * read + WRITE_PRICES[ttl] * (whole - read)
        if longest:
            entries.remove(longest)
            entries.append((longest[0], now + TTL_SECONDS[longest[2]], longest[2]))
        entries += [(beginning, now + TTL_SECONDS[ttl], ttl) for beginning in {(), request.messages}]
    return tokens.count_tokens("", "", round(cost))


def _talk(turns: int, seed: int) -> list[tuple[str, str]]:
    """Return questions and answers, of lengths that differ as people's do."""
    random = Random(seed)
    prose = Prose(random)
    return [
        (
            f"{n} {prose.text(round(ASKED * random.uniform(0.5, 1.5)))}",
            prose.text(round(SAID * random.uniform(0.5, 1.5))),
        )
        for n in range(turns)
    ]


def _ours(talk: list[tuple[str, str]], budget: int, rules: WindowRules) -> Iterator[Request]:
    """Yield the requests of this conversation, as memory makes them."""
    settings = {"model": "anthropic/x", "budget": budget, "system": SYSTEM, "level": ""}
    run = RunConfig(settings, lambda _: ModelLimits(2**40, 0), lambda _: ENCODER, tools=TOOLS, rules=rules)
    memory, id = empty_memory(run, "a"), 0

    def stored(memory: Memory, event: Event) -> Memory:
        nonlocal id
        id += 1
        return evolve(memory, StoredEvent(id, "a", id, 0.0, event))

    for asked, said in talk:
        memory = stored(memory, UserMessage(asked))
        yield next_request(memory)
        memory = stored(memory, AssistantMessage((Text(said),)))
        memory = stored(memory, end_turn(memory, (), Ending.COMPLETED))


def _halving(talk: list[tuple[str, str]], ceiling: int) -> Iterator[Request]:
    """Yield Roo-Code's requests: it hides half of the visible messages when the next request would be too
    large.

    The first message stays, the number hidden is even, and a marker takes their place, which stays visible for ever.
    """
    envelope = ENCODER.envelope(FRAME)
    markers, visible = list[Message](), list[Message]()
    for asked, said in talk:
        visible.append(Message(Role.USER, (Text(asked),)))
        size = envelope + sum(map(ENCODER.message, (*markers, *visible)))
        if tokens.count_tokens("", "", size) > ceiling:
            hidden = (len(visible) - 1) // 2 // 2 * 2
            del visible[1 : 1 + hidden]
            told = f"[Sliding window truncation: {hidden} messages hidden to reduce context]"
            markers.append(Message(Role.USER, (Text(told),)))
        first, *others = visible
        yield replace(FRAME, messages=(first, *markers, *others))
        visible.append(Message(Role.ASSISTANT, (Text(said),)))


def _priced(requests: Iterator[Request], turns: int) -> Cost:
    """Return the cost of the last `turns` of the requests; those before fill the window."""
    every = list(requests)
    sizes = {message: ENCODER.message(message) for asked in every for message in asked.messages}
    envelope = ENCODER.envelope(every[0])
    read = written = 0
    for before, now in zip(every[-turns - 1 :], every[-turns:], strict=False):
        same = 0
        while same < min(len(before.messages), len(now.messages)) and before.messages[same] == now.messages[same]:
            same += 1
        read += envelope + sum(sizes[message] for message in now.messages[:same])
        written += sum(sizes[message] for message in now.messages[same:])
    whole = read + written
    return Cost(
        price=tokens.count_tokens("", "", round(READ * read + WRITTEN * written)),
        share=read / whole,
        window=tokens.count_tokens("", "", whole) / turns,
    )
