"""This module builds the next request ahead: while the user pauses in typing, and while its events are being stored.

A request is a function of memory without the ids and times that the log gives. So it is built for memory as it will be,
and sent as soon as the events that lead there are stored, before they are folded and shown.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import NamedTuple

from ikigai.core.events import Event
from ikigai.core.model import PreparedRequest, Provider
from ikigai.core.ports import Appended
from ikigai.core.request.build import Request
from ikigai.core.state.fold import expect
from ikigai.core.state.inputs import Input, Submitted
from ikigai.core.state.memory import Memory

MAX_REQUEST_AGE_SECONDS = 60.0
"""Seconds for which a request is taken that was built ahead: its cache's lifetime depends on the pause before it."""

log = logging.getLogger(__name__)


class TurnPrompt(NamedTuple):
    """The default system prompt and the tools of MCP servers, as a turn that begins now would have them."""

    default_system: str
    mcp_tools: str


class ExpectedEvents(NamedTuple):
    """Events that may follow on `memory`, and memory behind them. They begin a turn with `message`, if that is known,
    and `prompt`.
    """

    memory: Memory
    events: tuple[Event, ...]
    after: Memory
    message: Submitted | None = None
    prompt: TurnPrompt | None = None


class RequestAhead:
    """The request that was built ahead. `wanted` returns the request of the model call that a memory wants."""

    def __init__(self, provider: Callable[[str], Provider], wanted: Callable[[Memory], Request | None]) -> None:
        self._provider, self._wanted = provider, wanted
        self._expected: ExpectedEvents | None = None
        self._built: tuple[Memory, Request | None, float] | None = None  # a memory, the request that it wants, when
        self._prepared: tuple[Memory, Request, PreparedRequest] | None = None  # with the memory that was expected
        self._sent: Request | None = None  # the prepared request, until its job has begun

    def expect(self, memory: Memory, events: tuple[Event, ...], message: Submitted, prompt: TurnPrompt | None) -> None:
        """Have the request built that follows from the events of `message`, as far as that goes without sending."""
        expected = self._expect(memory, events)
        request = self._wanted(expected.after)
        self._built = expected.after, request, time.monotonic()
        if request:
            self._provider(expected.after.model).expect(request)
        self._expected = expected._replace(message=message, prompt=prompt)

    def decided(self, memory: Memory, message: Input, prompt: TurnPrompt | None) -> tuple[Event, ...]:
        """Return the events that were decided for this message while the user paused; () if they were not."""
        expected = self._expected
        is_known = expected and expected.memory is memory and expected.message == message and expected.prompt == prompt
        return expected.events if expected and is_known else ()

    async def prepare(self, memory: Memory, events: tuple[Event, ...]) -> None:
        """Prepare the request that follows from these events, while they are being stored."""
        try:
            await self._prepare(self._expect(memory, events).after)
        except Exception:  # the request itself meets the error again, and tells the user
            log.debug("No request was prepared", exc_info=True)

    async def _prepare(self, after: Memory) -> None:
        self._prepared = None
        built = self._built
        if built is None or built[0] is not after or time.monotonic() - built[2] > MAX_REQUEST_AGE_SECONDS:
            self._built = built = after, self._wanted(after), time.monotonic()
        request = built[1]
        if request and (prepared := await self._provider(after.model).prepare(request)):
            self._prepared = after, request, prepared

    def send(self, memory: Memory, events: tuple[Event, ...], appended: Appended) -> bool:
        """Send the request that was prepared for these events, now that they are stored.

        Return True if it is sent with the next turn of the event loop: its job takes it.
        """
        expected = self._expected
        if expected is None or expected.memory is not memory:
            return False
        if not expected.events == events == tuple([row.event for row in appended.rows]):
            return False
        prepared, self._prepared = self._prepared, None
        if prepared is None or prepared[0] is not expected.after or not prepared[2].send():
            return False
        self._sent = prepared[1]
        return True

    @property
    def is_sending(self) -> bool:
        """True from when a prepared request is sent until its job has taken it."""
        return self._sent is not None

    def take_sent(self) -> Request | None:
        """Return the request that was sent, for its job; None for none."""
        sent, self._sent = self._sent, None
        return sent

    def _expect(self, memory: Memory, events: tuple[Event, ...]) -> ExpectedEvents:
        """Return the events with memory as it will be behind them; the identical value if it was asked for before."""
        expected = self._expected
        if expected is None or expected.memory is not memory or expected.events != events:
            self._expected = expected = ExpectedEvents(memory, events, expect(memory, events))
        return expected
