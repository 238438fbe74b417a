"""Ask a model one question outside the conversation (a summary, a title) and report its usage."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ikigai.agent.request.usage_meter import PriceOf, UsageMeter, no_price, read_reply
from ikigai.core.events.events import UsageReported
from ikigai.core.events.messages import Message, Role, StopReason, Text
from ikigai.core.events.record import Record
from ikigai.core.request.build import Request
from ikigai.core.request.model import Provider
from ikigai.core.request.reply import Delta, RetryScheduled, StreamFailed, StreamFinished, TextDelta
from ikigai.core.request.reply_builder import NO_SECRETS, ReplyBuilder
from ikigai.core.secrets.redaction import Redactor
from ikigai.core.views.usage_totals import INTERRUPTED_FAILURE


class Completion(Record, frozen=True):
    """The result of a one-shot call. `usage` has a row for each request, to be stored by the caller (`UsageRecorded`).

    With a `failure` the text is the part received until then. `stop` distinguishes a whole answer from one that was
    cut at `max_output` tokens, or refused.
    """

    text: str
    usage: tuple[UsageReported, ...]
    failure: StreamFailed | None = None
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
    price: PriceOf = no_price,
    on_usage: Callable[[UsageReported], None] = lambda usage: None,
) -> Completion:
    """Ask `model` ("provider/name") of this provider one question without tools; the provider may retry.

    `purpose` names the call in the ledger, `max_output` is in tokens, `level` is a thinking level. With a JSON
    `schema` the vendor is asked to follow it where it can; the caller still checks the text. Raise only
    CancelledError. `on_usage` gets every usage row as it comes, also for a cancelled request.
    """
    request = Request(
        model.partition("/")[2],
        (Message(Role.USER, (Text(text),)),),
        system=system,
        level=level,
        max_output=max_output,
        schema=schema,
    )
    return await complete_request(provider, model, request, purpose=purpose, price=price, on_usage=on_usage)


async def complete_request(
    provider: Provider,
    model: str,
    request: Request,
    *,
    purpose: str,
    price: PriceOf = no_price,
    on_usage: Callable[[UsageReported], None] = lambda usage: None,
    on_text: Callable[[str], None] = lambda text: None,
    redactor: Redactor = NO_SECRETS,
) -> Completion:
    """Send a whole request as `complete` does; return its result.

    `on_text` gets the words of the answer as they come, `redactor` replaces ikigai's own keys in them.
    """
    meter, reply, usage = UsageMeter(request, model, price, purpose), ReplyBuilder(redactor), list[UsageReported]()

    def show(event: Delta | RetryScheduled) -> None:
        if isinstance(event, TextDelta):
            on_text(event.text)

    def report(row: UsageReported) -> None:
        usage.append(row)
        on_usage(row)

    try:
        if row := await read_reply(provider, meter, reply, show, report):
            report(row)
    except asyncio.CancelledError:
        if lost := await meter.stop(INTERRUPTED_FAILURE):
            on_usage(lost)
        raise
    if isinstance(reply.last, StreamFinished):
        return Completion(reply.text, tuple(usage), stop=reply.last.stop)
    return Completion(reply.text, tuple(usage), failure=reply.last)
