"""What requests took, added up: exactly, and never with a guess for what nobody knows the price of."""

from collections.abc import Iterable
from decimal import Decimal

from ikigai.core import tokens
from ikigai.core.events import UsageReported
from ikigai.core.record import Record

INTERRUPTED = "interrupted"
"""How a request failed that the user stopped."""

ZERO, CENT = Decimal(0), Decimal("0.01")


class Spent(Record, frozen=True):
    """The sum of some rows of the ledger. Tokens as in `Usage`; `cost` in US dollars.

    `failed` leaves out what the user `interrupted`; `retried` are requests that were sent again. `unpriced` are those
    whose cost nobody knows: they are not in `cost`. `prunes` says how often turns had left the window since the request
    before, `pruned` how many turns in all; both are sums over groups, and no row of the ledger has them by itself.
    """

    requests: int = 0
    failed: int = 0
    interrupted: int = 0
    retried: int = 0
    input: int = 0
    cached: int = 0
    written: int = 0
    output: int = 0
    thinking: int = 0
    cost: Decimal = ZERO
    unpriced: int = 0
    prunes: int = 0
    pruned: int = 0

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(*(getattr(self, name) + getattr(other, name) for name in Spent.__struct_fields__))

    @property
    def known_cost(self) -> Decimal | None:
        """The cost as far as it is known; None when it is not at all."""
        return None if self.unpriced and self.unpriced == self.requests else self.cost


def spent(report: UsageReported) -> Spent:
    """One row of the ledger."""
    usage = report.usage
    return Spent(
        requests=1,
        failed=int(report.failure not in ("", INTERRUPTED)),
        interrupted=int(report.failure == INTERRUPTED),
        retried=int(report.attempt > 1),
        input=usage.input,
        cached=usage.cached,
        written=usage.written,
        output=usage.output,
        thinking=usage.thinking,
        cost=ZERO if report.cost is None else Decimal(repr(report.cost)),  # the digits that the log holds
        unpriced=int(report.cost is None),
    )


def total(of: Iterable[Spent]) -> Spent:
    return sum(of, Spent())


def dollars(cost: Decimal) -> str:
    """An amount as people read it: $12.30, below a dollar with four places: $0.0123, <$0.0001."""
    if 0 < cost <= CENT / 200:
        return "<$0.0001"
    return f"${cost:,.2f}" if cost >= 1 or not cost else f"${cost:.4f}"


def short(of: Spent) -> str:
    """Tokens and cost in a few characters, `↑12.3k ↓4.5k $0.12`; empty before the first request.

    What has no price is a question mark: `$0.12+?`, or `$?` when nothing has one. What is free shows no price.
    """
    if not of.requests:
        return ""
    return " ".join(filter(None, (f"↑{tokens.short(of.input)} ↓{tokens.short(of.output)}", money(of))))


def money(of: Spent) -> str:
    """The cost alone, to the cent, as in `short`."""
    if not of.cost:
        return "$?" if of.unpriced else ""
    amount = f"${of.cost:,.2f}" if of.cost > CENT / 2 else "<$0.01"
    return amount + "+?" * bool(of.unpriced)
