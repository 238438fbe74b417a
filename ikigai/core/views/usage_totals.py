"""Add up the usage of requests: exactly, and without a guess where the price is unknown."""

from collections.abc import Iterable
from decimal import Decimal
from typing import Annotated, TypeAlias

from msgspec import Meta

from ikigai.core.events.events import UsageReported
from ikigai.core.events.record import Record
from ikigai.core.text import tokens

Dollars: TypeAlias = Annotated[Decimal | float | None, Meta(description="US dollars; null if no price is known")]
INTERRUPTED_FAILURE = "interrupted"
"""The failure of a request that the user stopped."""

ZERO, CENT = Decimal(0), Decimal("0.01")
NO_PRICE = "no price known"
"""The words for a cost that cannot be computed."""


class UsageTotals(Record, frozen=True):
    """The sum of some rows of the ledger. Tokens and searches are as in `Usage`."""

    requests: int = 0
    failed: int = 0
    """Failed requests, without `interrupted` ones."""
    interrupted: int = 0
    """Requests that the user interrupted."""
    retried: int = 0
    """Requests that were sent again."""
    input: int = 0
    cached: int = 0
    written: int = 0
    output: int = 0
    thinking: int = 0
    searches: int = 0
    cost: Decimal = ZERO
    """US dollars."""
    unpriced: int = 0
    """Requests of unknown cost, which are not in `cost`."""
    at_least: int = 0
    """Requests whose replies were cut off before they were counted, so that `cost` is a lower bound."""
    prunes: int = 0
    """Requests before which turns had left the window. A sum over groups: no row of the ledger has it by itself."""
    pruned: int = 0
    """Turns that had left the window before `prunes` requests."""

    def __add__(self, other: "UsageTotals") -> "UsageTotals":
        return UsageTotals(*(getattr(self, name) + getattr(other, name) for name in UsageTotals.__struct_fields__))

    @property
    def known_cost(self) -> Decimal | None:
        """The known part of the cost; None if it is 0 beside requests of unknown price: that would read as free."""
        return None if self.unpriced and not self.cost else self.cost


def totals_of(report: UsageReported) -> UsageTotals:
    """Return the totals of one row of the ledger."""
    usage = report.usage
    return UsageTotals(
        requests=1,
        failed=int(report.failure not in ("", INTERRUPTED_FAILURE)),
        interrupted=int(report.failure == INTERRUPTED_FAILURE),
        retried=int(report.attempt > 1),
        input=usage.input,
        cached=usage.cached,
        written=usage.written,
        output=usage.output,
        thinking=usage.thinking,
        searches=usage.searches,
        cost=ZERO if report.cost is None else Decimal(repr(report.cost)),  # the digits that the log holds
        unpriced=int(report.cost is None),
        at_least=int(report.is_minimum),
    )


def sum_totals(of: Iterable[UsageTotals]) -> UsageTotals:
    return sum(of, UsageTotals())


MAX_WRITTEN = 10**12
"""Dollars and tokens from which a figure is written with an exponent: a log may come from anywhere."""


def format_count(count: int) -> str:
    """Return a number of tokens: 12,345."""
    return f"{count:,}" if count < MAX_WRITTEN else f"{Decimal(count):.1e}"


def format_dollars(cost: Decimal) -> str:
    """Return an amount as people read it: $12.30, below a dollar with four places: $0.0123, <$0.0001; $1.0e+308 for one
    that no request costs.
    """
    if cost >= MAX_WRITTEN:
        return f"${cost:.1e}"
    if 0 < cost <= CENT / 200:
        return "<$0.0001"
    return f"${cost:,.2f}" if cost >= 1 or not cost else f"${cost:.4f}"


def format_short(of: UsageTotals) -> str:
    """Return tokens and cost in a few characters, `↑12.3k ↓4.5k $0.12`; empty before the first token.

    With unpriced requests the known cost is a lower bound, `≥$0.12`, or unknown. A free request shows no price.
    """
    counts = f"↑{tokens.format_tokens(of.input)} ↓{tokens.format_tokens(of.output)}" if of.input or of.output else ""
    return " ".join(filter(None, (counts, format_money(of))))


def format_money(of: UsageTotals) -> str:
    """Return the cost alone, to the cent, as in `format_short`."""
    if of.cost <= CENT / 2:
        return NO_PRICE if of.unpriced else "<$0.01" * bool(of.cost)
    return at_least(format_dollars(of.cost) if of.cost >= 1 else f"${of.cost:.2f}", of)


def describe_unpriced(count: int) -> str:
    """Return the sentence about so many requests without a known price, and how to set one."""
    which = "1 request is" if count == 1 else f"{count:,} requests are"
    return f'{which} not in the cost: no price is known. [models."PROVIDER/NAME"] in the configuration sets one.'


def at_least(amount: str, of: UsageTotals) -> str:
    """Return the amount as the cost of these requests: a lower bound where the cost of some is not known whole."""
    return f"≥{amount}" if of.unpriced or of.at_least else amount
