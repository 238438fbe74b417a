"""This module reads the metered stream of one request: collects the reply, its last event and its usage."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import aclosing

from ikigai.agent.redacted_reply import RedactedReply
from ikigai.agent.usage_meter import UsageMeter
from ikigai.core.events import UsageReported
from ikigai.core.messages import ReplyBlock
from ikigai.core.redaction import Redactor
from ikigai.core.request.reply import Accumulator, Delta, RetryScheduled, StreamFailed, StreamFinished, UsageUpdate

NO_SECRETS = Redactor({}, formats=False)


class ReplyReader:
    """The reply to the request of `meter`, read once by `events`; `redactor` replaces ikigai's own keys in it.

    `last` is the event that ended the stream, `usage` the row of the last attempt. Both are None until then, `usage`
    also if nothing was sent.
    """

    def __init__(self, meter: UsageMeter, redactor: Redactor = NO_SECRETS) -> None:
        self.reply = Accumulator()
        self.last: StreamFinished | StreamFailed | None = None
        self.usage: UsageReported | None = None
        self.meter, self._redacted = meter, RedactedReply(redactor)

    async def events(self) -> AsyncGenerator[Delta | RetryScheduled | UsageReported, None]:
        """Yield each delta once it is in `reply`, and a usage row for every attempt, before its retry or at the end."""
        async with aclosing(self.meter.events()) as events:
            async for event in events:
                match event:
                    case UsageUpdate():
                        pass
                    case StreamFinished() | StreamFailed():
                        self.last = event
                        for delta in self._added(self._redacted.rest()):
                            yield delta
                    case UsageReported():
                        self.usage = event if self.last else None
                        yield event
                    case RetryScheduled():
                        yield event
                    case _:
                        for delta in self._added(self._redacted.deltas(event)):
                            yield delta

    def blocks(self) -> tuple[ReplyBlock, ...]:
        """Return the reply so far as it is stored; nothing can follow it."""
        for _ in self._added(self._redacted.rest(stopped=True)):  # yields nothing after the end
            pass
        return self._redacted.stored(self.reply.blocks())

    def _added(self, deltas: Iterable[Delta]) -> Iterator[Delta]:
        for delta in deltas:
            self.reply.add(delta)
            yield delta
