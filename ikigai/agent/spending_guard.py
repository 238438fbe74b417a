"""Admit requests under the user's caps: reserve their greatest cost, ask at a cap, and settle their actual cost."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Awaitable, Callable
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

import msgspec

from ikigai.core.errors import IkigaiError, Unavailable
from ikigai.core.events.events import MostSpent, UsageReported
from ikigai.core.events.messages import Usage
from ikigai.core.request import spending
from ikigai.core.request.build import Request
from ikigai.core.request.reply import FailureKind, StreamFailed
from ikigai.core.request.spending import (
    Cap,
    Caps,
    CapScope,
    Money,
    Refusal,
    RequestBound,
    ReservedAmount,
    SpendingQuery,
)
from ikigai.core.state.inputs import UsageRecorded
from ikigai.core.tools.vendor_search import MAX_SEARCHES, SEARCH_INPUT_TOKENS
from ikigai.core.views.questions import Choice, Question

if TYPE_CHECKING:
    from ikigai.agent.loop import AgentLoop
    from ikigai.agent.request.usage_meter import PriceOf, RequestTicket
    from ikigai.core.ports import View
    from ikigai.core.request.model import Encoder, Provider

COUNT_TIMEOUT = 2.0
"""Seconds that a provider may take to count a request for which there is no rate of tokens to bytes yet."""
DEFAULT_TOKENS_PER_BYTE = 0.25
"""The rate where a provider has neither counted a request of this agent nor can count one."""
LOST_FAILURE = "lost"
"""The failure of a request whose program died before it ended."""

_T = TypeVar("_T")
log = logging.getLogger(__name__)
replace = msgspec.structs.replace


class ReservationStore(Protocol):
    """The reservations of one agent, under its write lock."""

    async def reserve(
        self, query: SpendingQuery, decide: Callable[[dict[CapScope, Money]], ReservedAmount | None]
    ) -> None: ...
    async def set_reserved(self, writer: str, amount: ReservedAmount) -> None: ...
    async def left_behind(self, writer: str) -> tuple[str, Money] | None: ...


class Ticket:
    """One admitted request: its bound, its reservation, and once it has ended its greatest possible cost."""

    def __init__(self, model: str, request: Request, bound: RequestBound, reserved: Money) -> None:
        self.model, self.request, self.bound = model, request, bound
        self.amount = self.reserved = reserved
        self.report: UsageReported | None = None

    @property
    def sent(self) -> Money:
        """The part of the amount that is spent even if the program dies now."""
        if self.report:
            return self.amount
        least = self.bound.at(min(self.bound.output, spending.MIN_OUTPUT_TOKENS))
        return Money(min(least.usd, self.amount.usd), min(least.tokens, self.amount.tokens))


class RunSpending:
    """The caps of one program run, and what all its agents have spent and reserved. `id` names the run."""

    def __init__(self, caps: Caps) -> None:
        self.caps, self.id = caps, str(uuid.uuid4())
        self.spent = spending.NOTHING  # by requests that have ended
        self.tickets: dict[str, list[Ticket]] = {}  # by agent: under way, or ended and not yet stored
        self.lock = asyncio.Lock()
        self.reported = set[tuple[CapScope, Cap, object]]()

    @property
    def used(self) -> Money:
        """The sum that the cap of the run counts."""
        under_way = (each.amount for tickets in self.tickets.values() for each in tickets if each.report is None)
        return sum(under_way, self.spent)

    def under_way(self, agent: str) -> Money:
        return sum((ticket.amount for ticket in self.tickets.get(agent, ())), spending.NOTHING)


class GuardTerms(NamedTuple):
    """The agent that a guard watches, and its services."""

    agent: str
    store: ReservationStore
    view: View
    encoder: Callable[[str], Encoder]
    provider: Callable[[str], Provider]
    last_counted: Callable[[], Awaitable[UsageReported | None]]


class SpendingGuard:
    """Admits the requests of one agent; `loop` is its loop, `price` the price function."""

    def __init__(self, run: RunSpending, terms: GuardTerms, price: PriceOf, loop: AgentLoop) -> None:
        self._run, self._terms, self._price, self._loop = run, terms, price, loop
        self._rates: dict[str, float] = {}  # tokens per byte, by model
        self._tickets = run.tickets.setdefault(terms.agent, [])
        self._sums: dict[CapScope, Money] = {}  # as of the newest admission
        self._tasks = set[asyncio.Task[None]]()
        self.refusal: StreamFailed | None = None  # of the newest request, if a cap stopped it

    async def admit(self, request: Request, model: str, fixed: bool = False) -> Ticket | StreamFailed | None:
        """Return the ticket of a request that may start, with the request as it has to be sent; None without caps.

        With `fixed` its output limit stays as it is. Return the failure of a request that a cap stops.
        """
        self.refusal = None
        if not self._run.caps:
            return None
        bound = await self._bound(request, model, fixed)
        waived = set[CapScope]()
        while True:
            try:
                outcome = await self._try(bound, model, request, waived)
            except Unavailable as error:
                return StreamFailed(FailureKind.OVERLOADED, f"{error.what} Caps cannot be checked.", error.remedy)
            if isinstance(outcome, Ticket):
                return outcome
            if not await self._is_allowed(outcome, model, waived):
                self.refusal = StreamFailed(
                    FailureKind.LIMIT, *spending.refusal_words(outcome, model, self._loop.can_ask)
                )
                return self.refusal

    async def _try(self, bound: RequestBound, model: str, request: Request, waived: set[CapScope]) -> Ticket | Refusal:
        """Reserve the bound of a request if it fits under the caps; else return the refusal."""
        outcome: Ticket | Refusal | None = None

        def decide(spent: dict[CapScope, Money]) -> ReservedAmount | None:
            nonlocal outcome
            own = self._run.under_way(self._terms.agent)
            self._sums = {scope: amount + own for scope, amount in spent.items()}
            self._sums["run"] = self._run.used
            admitted = spending.admit(bound, self._run.caps, self._sums, waived)
            if isinstance(admitted, Refusal):
                outcome = admitted
                return None
            sent = request
            if not bound.fixed:
                sent = replace(request, max_output=admitted.output, output_cap=admitted.output)
            outcome = Ticket(model, sent, replace(bound, output=admitted.output), admitted.reserved)
            return _total((*self._tickets, outcome))

        async with self._run.lock:
            if self._shares:
                await self._loop.until_available(lambda: self._terms.store.reserve(self.query(), decide))
            else:
                decide({})
            assert outcome
            if isinstance(outcome, Ticket):
                self._tickets.append(outcome)
        return outcome

    @property
    def _shares(self) -> bool:
        """True if there is a cap that other programs and earlier runs count for."""
        return any(scope != "run" for scope in self._run.caps.scopes)

    def query(self) -> SpendingQuery:
        """Return the sums that a request needs which starts now."""
        opened, caps = self._loop.memory.open, self._run.caps
        return SpendingQuery(
            self._run.id, day_start(), opened.first if opened else None, bool(caps.agent), bool(caps.turn)
        )

    async def _bound(self, request: Request, model: str, fixed: bool) -> RequestBound:
        """Return the most that a request can take."""
        tokens = await self._input_bound(request, model)
        output = request.max_output or spending.UNKNOWN_OUTPUT_TOKENS
        at = time.time()

        searches = MAX_SEARCHES if any(tool.hosted for tool in request.tools) else 0
        tokens += searches * SEARCH_INPUT_TOKENS

        def price(input: int, written: int, output: int) -> Decimal | None:
            hour = written if request.cache_ttl == "1h" else 0
            usage = Usage(input, output, written=written, written_1h=hour, searches=searches)
            cost, _ = self._price(model, usage, at)
            return None if cost is None else Decimal(repr(cost))

        return await asyncio.to_thread(spending.priced_bound, tokens, output, price, fixed)

    async def _input_bound(self, request: Request, model: str) -> int:
        """Return the most tokens of input: by the rate that the provider's figures show, else as it counts them."""
        encoder = self._terms.encoder(model)
        size = encoder.envelope(request) + sum(map(encoder.message, request.messages))
        if model not in self._rates:
            report = await self._terms.last_counted()
            if report and report.model == model:
                self._rates[model] = report.usage.input / report.size
        if model not in self._rates:
            try:
                async with asyncio.timeout(COUNT_TIMEOUT):
                    if count := await self._terms.provider(model).count(request):
                        return count
            except TimeoutError:
                pass
        return spending.input_bound(size, self._rates.get(model, DEFAULT_TOKENS_PER_BYTE))

    def settle(self, ticket: RequestTicket, report: UsageReported, streamed: int) -> UsageReported:
        """Return the row of a request that has ended, with the most that it can have cost where that is not certain.

        `streamed` are the tokens of its reply, as ikigai counts them.
        """
        assert isinstance(ticket, Ticket)
        amount, is_exact = _spent(ticket, report, streamed)
        if not is_exact:
            usd = float(amount.usd) if ticket.bound.has_price else None
            report = replace(report, most=MostSpent(usd, amount.tokens))
        ticket.amount, ticket.report = amount, report
        self._refresh()  # if the program dies before the row is stored, only the reservation tells the cost
        self._run.spent += amount
        if report.usage.input and report.size:
            self._rates[ticket.model] = report.usage.input / report.size
        self._tell_excess(ticket, report)
        self._tell_near(amount)
        return report

    def stored(self, report: UsageReported) -> None:
        """Release what was reserved for a request whose row is in the log now."""
        for ticket in self._tickets:
            if ticket.report == report:
                self._tickets.remove(ticket)
                self._refresh()
                return

    def cancel(self, ticket: RequestTicket) -> None:
        """Release what was reserved for a request that was not sent."""
        if isinstance(ticket, Ticket) and ticket in self._tickets and ticket.report is None:
            self._tickets.remove(ticket)
            self._refresh()

    def _refresh(self) -> None:
        if self._shares and not any(not task.done() for task in self._tasks):
            task = asyncio.create_task(self._write(), name="reservations")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _write(self) -> None:
        """Store what is under way now, until nothing changes meanwhile."""
        written: ReservedAmount | None = None
        while written != _total(self._tickets):
            async with self._run.lock:
                written = _total(self._tickets)
                try:
                    await self._terms.store.set_reserved(self._run.id, written)
                except IkigaiError:  # the next admission writes it, or the row ends with the write lock
                    log.debug("a reservation was not released", exc_info=True)
                    return

    async def close(self) -> None:
        """Wait until what was stored is released."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=COUNT_TIMEOUT)

    async def recover(self) -> None:
        """Record what a program that died in the middle of a request of this agent had sent of it."""
        if not self._shares:
            return
        left = await self._loop.until_available(lambda: self._terms.store.left_behind(self._run.id))
        if left is None:
            return
        model, amount = left
        report = UsageReported(
            model, failure=LOST_FAILURE, purpose=LOST_FAILURE, most=MostSpent(float(amount.usd), amount.tokens)
        )
        ticket = Ticket(model, Request(model), RequestBound(0, 0), amount)
        ticket.report = report
        self._tickets.append(ticket)
        # A row of the dead writer would count in full again, and only its own writer deletes it.
        await self._loop.until_available(lambda: self._terms.store.set_reserved(self._run.id, _total(self._tickets)))
        self._loop.put_input(UsageRecorded(report))

    async def _is_allowed(self, refusal: Refusal, model: str, waived: set[CapScope]) -> bool:
        """Ask the user at a cap; return False if the request must not start."""
        if not self._loop.can_ask:
            return False
        what, _ = spending.refusal_words(refusal, model, takes_commands=True)
        choices = [Choice("o", "send it once")]
        larger = spending.larger_cap(refusal)
        if not refusal.is_unpriced:
            amount = f"{larger.tokens:,} tokens" if refusal.in_tokens else spending.dollars(larger.usd)
            choices.append(Choice("r", f"raise the cap to {amount} for this run"))
        choices.append(Choice("s", "stop"))
        answer = await self._terms.view.ask(Question(what, (), tuple(choices), default="s"))
        if answer.key == "o":
            waived.add(refusal.scope)
        elif answer.key == "r":
            self._run.caps = replace(self._run.caps, **{refusal.scope: larger})
        return answer.key in ("o", "r")

    def _tell_excess(self, ticket: Ticket, report: UsageReported) -> None:
        """Tell the user if the vendor counted more than the margin allowed for."""
        over = ticket.amount.usd - ticket.reserved.usd
        if report.usage.input > ticket.bound.input:
            what = f"{ticket.model} counted {report.usage.input:,} input tokens where at most {ticket.bound.input:,}"
        elif report.usage.output > ticket.bound.output:
            what = f"{ticket.model} sent {report.usage.output:,} tokens where at most {ticket.bound.output:,}"
        elif over > 0:
            what = f"{ticket.model} charged {spending.dollars(ticket.amount.usd)} where less"
        else:
            return
        cost = f"; {spending.dollars(over)} more than was reserved" if over > 0 else ""
        self._terms.view.notice(f"{what} were expected{cost}. The next requests are measured by this count.")

    def _tell_near(self, amount: Money) -> None:
        """Tell the user once that four fifths of a cap are used."""
        opened = self._loop.memory.open
        periods: dict[CapScope, object] = {"day": date.today(), "turn": opened.first if opened else 0}
        for scope in self._run.caps.scopes:
            cap = self._run.caps.of(scope)
            used = self._run.used if scope == "run" else self._sums.get(scope, spending.NOTHING) + amount
            in_tokens = spending.is_near(cap, used)
            limit: tuple[CapScope, Cap, object] = scope, cap, periods.get(scope)
            if in_tokens is not None and limit not in self._run.reported:
                self._run.reported.add(limit)
                amounts = spending.format_money(cap, used, in_tokens)
                where = spending.SCOPE_WORDS[scope]
                self._terms.view.notice(f"80 % of the spending cap for {where} is used: {amounts}. /limit shows it.")


def _spent(ticket: Ticket, report: UsageReported, streamed: int) -> tuple[Money, bool]:
    """Return what a request cost at most, and True if that is certain."""
    usage, reserved = report.usage, ticket.reserved
    counted = usage.input + usage.output
    if report.failure and not counted and report.cost == 0 and not streamed:
        return spending.NOTHING, True  # nothing is charged for it
    if report.failure and (usage.input or report.usage.cost is not None):
        seen = spending.reply_bound(ticket.bound, reserved, usage.input, max(usage.output, streamed))
        known = Money(Decimal(repr(report.cost or 0)), counted)
        return Money(max(seen.usd, known.usd), max(seen.tokens, known.tokens)), False
    if report.failure or not counted:
        return reserved, False
    if report.cost is None:
        return Money(reserved.usd, counted), not ticket.bound.has_price
    return Money(Decimal(repr(report.cost)), counted), True


def _total(tickets: tuple[Ticket, ...] | list[Ticket]) -> ReservedAmount:
    """Return all that an agent has under way; settled requests count until their rows are stored."""
    most = sum((ticket.amount for ticket in tickets), spending.NOTHING)
    sent = sum((ticket.sent for ticket in tickets), spending.NOTHING)
    newest = tickets[-1] if tickets else None
    output = (newest.bound.output_usd if newest else None) or Decimal(0)
    return ReservedAmount(newest.model if newest else "", most, sent, output)


def day_start() -> float:
    """Return the beginning of this day in the user's time zone, in seconds since 1970."""
    today = date.today()
    return datetime(today.year, today.month, today.day).timestamp()
