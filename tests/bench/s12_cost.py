"""S12: what a full window costs with a provider's prompt cache, by the way in which turns leave it.

A conversation of 300 turns of about 1,200 tokens each, that begins with a full window under a ceiling of 100,000
tokens. One request a turn, as the core makes it. What a request shares with the one before, message by message from its
beginning, is read from the cache; the rest is written to it; system prompt and tools are always a breakpoint. Prices
are Anthropic's, in input tokens: read 0.1, written 1.25. Nothing is timed: the figures are the same on every machine.
"""

from collections.abc import Iterator
from random import Random
from typing import NamedTuple

from ikigai.core import tokens
from ikigai.core.events import AssistantMessage, Ending, Event, StoredEvent, UserMessage
from ikigai.core.memory import Memory, Rules, Run, blank, ended, evolve, request
from ikigai.core.messages import Message, Role, Text, ToolSpec
from ikigai.core.ports import Limits
from ikigai.core.request import Request
from ikigai.providers.chat import ChatEncoder
from tests.bench.figures import Figure
from tests.bench.prose import Prose

READ, WRITTEN = 0.1, 1.25
TURNS, CEILING = 300, 100_000
ASKED, SAID = 80, 710
"""Words of a question and of an answer: about 1,200 tokens together."""
RECOMMENDED = 0.25
SYSTEM = "You are a careful assistant. " * 40
TOOLS = tuple(ToolSpec(name, "Does a thing to a file. " * 10, '{"type":"object"}') for name in ("read", "write", "run"))
ENCODER = ChatEncoder()


class Cost(NamedTuple):
    """Of all requests together: `price` in input tokens at full price, the `share` a cache served, the mean size."""

    price: float
    share: float
    window: float


def measure(quick: bool) -> list[Figure]:
    return compare(60, 10_000) if quick else compare(TURNS, CEILING)


def compare(turns: int, ceiling: int) -> list[Figure]:
    talk = list(_talk(turns + ceiling // 1_000))
    costs = {
        f"prune_fraction {fraction:g}": _priced(_ours(talk, ceiling, Rules(fraction)), turns)
        for fraction in (0, 0.1, RECOMMENDED, 0.5)
    }
    costs["0.5, keep_first_turn"] = _priced(_ours(talk, ceiling, Rules(0.5, keep_first_turn=True)), turns)
    costs["Roo-Code's halving"] = roo = _priced(_halving(talk, ceiling), turns)
    costs["no window"] = _priced(_ours(talk, 0, Rules()), turns)
    bare, half = costs["prune_fraction 0"], costs["prune_fraction 0.5"]
    figures = [
        Figure("S12", "0.5: cost", "tokens", [half.price], "Roo-Code's halving", [roo.price], 1.0),
        Figure("S12", "halving: mean window", "tokens", [roo.window], "of 0.5", [half.window], 1.0),
    ]
    for name, cost in costs.items():
        bar = 0.2 if name == f"prune_fraction {RECOMMENDED:g}" else None
        figures += [
            Figure("S12", f"{name}: cost", "tokens", [cost.price], "prune_fraction 0", [bare.price], bar),
            Figure("S12", f"{name}: mean window", "tokens", [cost.window], "the ceiling", [ceiling]),
            Figure("S12", f"{name}: served by a cache", "%", [100 * cost.share], "everything", [100]),
        ]
    return figures


def _talk(turns: int) -> list[tuple[str, str]]:
    """Questions and answers, of lengths that differ as those of people do."""
    random = Random(12)
    prose = Prose(random)
    return [
        (
            f"{n} {prose.text(round(ASKED * random.uniform(0.5, 1.5)))}",
            prose.text(round(SAID * random.uniform(0.5, 1.5))),
        )
        for n in range(turns)
    ]


def _ours(talk: list[tuple[str, str]], budget: int, rules: Rules) -> Iterator[Request]:
    """The requests of this conversation, as memory makes them."""
    settings = {"model": "anthropic/x", "budget": budget, "system": SYSTEM, "level": ""}
    run = Run(settings, lambda _: Limits(2**40, 0), lambda _: ENCODER, tools=TOOLS, rules=rules)
    memory, id = blank(run, "a"), 0

    def stored(memory: Memory, event: Event) -> Memory:
        nonlocal id
        id += 1
        return evolve(memory, StoredEvent(id, "a", id, 0.0, event))

    for asked, said in talk:
        memory = stored(memory, UserMessage(asked))
        yield request(memory)
        memory = stored(memory, AssistantMessage((Text(said),)))
        memory = stored(memory, ended(memory, (), Ending.COMPLETED))


def _halving(talk: list[tuple[str, str]], ceiling: int) -> Iterator[Request]:
    """As Roo-Code does it: when the next request would be larger than may be, half of the visible messages are hidden.

    The first message stays, the number hidden is even, and a marker takes their place, which stays visible for ever.
    """
    frame = Request("x", (), SYSTEM, TOOLS)
    envelope = ENCODER.envelope(frame)
    markers, visible = list[Message](), list[Message]()
    for asked, said in talk:
        visible.append(Message(Role.USER, (Text(asked),)))
        size = envelope + sum(map(ENCODER.message, (*markers, *visible)))
        if tokens.count("", "", size) > ceiling:
            hidden = (len(visible) - 1) // 2 // 2 * 2
            del visible[1 : 1 + hidden]
            told = f"[Sliding window truncation: {hidden} messages hidden to reduce context]"
            markers.append(Message(Role.USER, (Text(told),)))
        first, *others = visible
        yield Request("x", (first, *markers, *others), SYSTEM, TOOLS)
        visible.append(Message(Role.ASSISTANT, (Text(said),)))


def _priced(requests: Iterator[Request], turns: int) -> Cost:
    """What the last `turns` of the requests cost; those before fill the window."""
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
        price=tokens.count("", "", round(READ * read + WRITTEN * written)),
        share=read / whole,
        window=tokens.count("", "", whole) / turns,
    )
