"""A spending cap allows for the searches that the vendor may make within a request."""

from typing import Any

import pytest

from ikigai.agent.spending_guard import GuardTerms, RunSpending, SpendingGuard, Ticket
from ikigai.core.events.events import UsageReported
from ikigai.core.events.messages import Message, Role, Text, Usage
from ikigai.core.request.build import Request
from ikigai.core.request.reply import FailureKind, StreamFailed
from ikigai.core.request.spending import Cap, Caps
from ikigai.core.tools.vendor_search import MAX_SEARCHES, SEARCH_INPUT_TOKENS, VENDOR_SEARCH_SPEC
from ikigai.providers.models.prices import price_request
from ikigai.providers.pool import FALLBACK_ENCODER
from ikigai.providers.scripted import ScriptedProvider
from tests.core.agent import Agent

MODEL = "anthropic/claude-sonnet-5-5"


class Loop:
    """The loop of an agent where nobody can be asked."""

    can_ask = False

    def __init__(self) -> None:
        self.memory = Agent().memory


def price(model: str, usage: Usage, at: float) -> tuple[float | None, str]:
    found = price_request(model, usage, at)
    return found.cost, found.priced_by


def guard(dollars: str) -> SpendingGuard:
    from decimal import Decimal

    async def nothing() -> UsageReported | None:
        return None

    caps = Caps(run=Cap(Decimal(dollars)))
    unused: Any = None
    terms = GuardTerms("a", unused, unused, lambda _: FALLBACK_ENCODER, lambda _: ScriptedProvider(), nothing)
    loop: Any = Loop()
    return SpendingGuard(RunSpending(caps), terms, price, loop)


def asked(**more: Any) -> Request:
    return Request(MODEL.partition("/")[2], (Message(Role.USER, (Text("News?"),)),), max_output=2_000, **more)


async def test_fees_and_pages_of_searches_are_reserved():
    plain = await guard("10").admit(asked(), MODEL)
    searching = await guard("10").admit(asked(tools=(VENDOR_SEARCH_SPEC,)), MODEL)
    assert isinstance(plain, Ticket) and isinstance(searching, Ticket)
    tokens = searching.reserved.tokens - plain.reserved.tokens
    assert MAX_SEARCHES * SEARCH_INPUT_TOKENS <= tokens <= 1.1 * MAX_SEARCHES * SEARCH_INPUT_TOKENS
    dearest, _ = price(MODEL, Usage(tokens, written=tokens), 1_795_000_000.0)
    assert dearest is not None
    more = float(searching.reserved.usd - plain.reserved.usd)
    assert more == pytest.approx(MAX_SEARCHES * 0.01 + dearest, rel=0.02)


async def test_request_that_could_cost_more_by_its_searches_is_not_sent():
    assert isinstance(await guard("0.06").admit(asked(), MODEL), Ticket)
    refused = await guard("0.06").admit(asked(tools=(VENDOR_SEARCH_SPEC,)), MODEL)
    assert isinstance(refused, StreamFailed) and refused.kind is FailureKind.LIMIT
