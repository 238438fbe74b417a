"""Side calls: one question to a model beside the conversation (a summary, a match, a title), and what it took."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ikigai.agent.usage_meter import Meter, Price, unpriced
from ikigai.core.events import UsageReported
from ikigai.core.messages import Message, Role, StopReason, Text
from ikigai.core.model import Provider
from ikigai.core.record import Record
from ikigai.core.request.build import Request
from ikigai.core.request.reply import Accumulator, Broke, Counted, Finished, Waiting
from ikigai.core.views.usage_totals import INTERRUPTED


class Completed(Record, frozen=True):
    """What came of a side call. `usage` has a row for each request that was sent, to be stored by the caller (`Used`).

    With a `failure` the text is what had come until then. `stop` tells a whole answer from one that was cut at
    `max_output` tokens, or refused.
    """

    text: str
    usage: tuple[UsageReported, ...]
    failure: Broke | None = None
    stop: StopReason = StopReason.END


async def complete(
    provider: Provider,
    model: str,
    system: str,
    text: str,
    *,
    purpose: str,
    max_output: int,
    level: str = "",
    schema: str = "",
    price: Price = unpriced,
    tell: Callable[[UsageReported], None] = lambda usage: None,
) -> Completed:
    """Ask `model` ("provider/name") of this provider once, without tools; tried again as the provider does.

    `purpose` names the call in the ledger, `max_output` is in tokens, `level` a thinking level. With a JSON
    `schema` the vendor is asked to keep to it, where it can; the text is to be checked all the same. Never raises but
    for cancellation; `tell` hears of every row as it comes, also of that of a request which that ends.
    """
    asked = Request(
        model.partition("/")[2],
        (Message(Role.USER, (Text(text),)),),
        system=system,
        level=level,
        max_output=max_output,
        schema=schema,
    )
    return await answered(provider, model, asked, purpose=purpose, price=price, tell=tell)


async def answered(
    provider: Provider,
    model: str,
    asked: Request,
    *,
    purpose: str,
    price: Price = unpriced,
    tell: Callable[[UsageReported], None] = lambda usage: None,
) -> Completed:
    """The same of a whole request."""
    reply, usage = Accumulator(), list[UsageReported]()
    last: Finished | Broke | None = None
    meter = Meter(provider, asked, model, price, purpose)
    try:
        async for event in meter.events():
            match event:
                case UsageReported():
                    usage.append(event)
                    tell(event)
                case Finished() | Broke():
                    last = event
                case Counted() | Waiting():
                    pass
                case _:
                    reply.add(event)
    except asyncio.CancelledError:
        if lost := await meter.stop(INTERRUPTED):
            tell(lost)
        raise
    failure = last if isinstance(last, Broke) else None
    return Completed(reply.text, tuple(usage), failure, last.stop if isinstance(last, Finished) else StopReason.END)
