"""Rows of the ledger add up, and the sums have a short form."""

from decimal import Decimal

import pytest

from ikigai.core.events.events import UsageReported
from ikigai.core.events.messages import Usage
from ikigai.core.views.usage_totals import (
    UsageTotals,
    format_dollars,
    format_money,
    format_short,
    sum_totals,
    totals_of,
)

ROWS = (
    UsageReported("a/b", Usage(100, 20, 80, 5, 10), cost=0.1),
    UsageReported("a/b", failure="rate", cost=0.0),
    UsageReported("a/b", Usage(1), attempt=2, cost=0.2),
    UsageReported("a/c", Usage(2), failure="interrupted"),
)


def test_rows_add_up_exactly() -> None:
    assert sum_totals(map(totals_of, ROWS)) == UsageTotals(
        requests=4,
        failed=1,
        interrupted=1,
        retried=1,
        input=103,
        cached=80,
        written=10,
        output=20,
        thinking=5,
        cost=Decimal("0.3"),
        unpriced=1,
    )
    assert sum_totals([]) == UsageTotals()


def test_cost_that_nobody_knows_is_not_nothing() -> None:
    assert totals_of(ROWS[3]).known_cost is None
    assert sum_totals(map(totals_of, ROWS)).known_cost == Decimal("0.3")
    assert UsageTotals(requests=2, unpriced=1).known_cost is None, "a free request beside it"
    assert UsageTotals().known_cost == 0 and totals_of(ROWS[1]).known_cost == 0


@pytest.mark.parametrize(
    ("cost", "told"),
    [
        ("0", "$0.00"),
        ("0.00004", "<$0.0001"),
        ("0.00005", "<$0.0001"),
        ("0.00006", "$0.0001"),
        ("0.0123", "$0.0123"),
        ("0.99994", "$0.9999"),
        ("1", "$1.00"),
        ("12345.678", "$12,345.68"),
        ("999999999999", "$999,999,999,999.00"),
        ("1e12", "$1.0e+12"),
        ("1.79e308", "$1.8e+308"),
    ],
)
def test_dollars(cost: str, told: str) -> None:
    assert format_dollars(Decimal(cost)) == told


def of(cost: str, unpriced: int = 0) -> UsageTotals:
    return UsageTotals(requests=2, input=12_345, output=4_500, cost=Decimal(cost), unpriced=unpriced)


@pytest.mark.parametrize(
    ("some", "told"),
    [
        (of("0.1234"), "$0.12"),
        (of("0.1234", 1), "≥$0.12"),
        (of("0.004"), "<$0.01"),
        (of("0.005"), "<$0.01"),
        (of("0.005", 1), "no price known"),
        (of("0.006"), "$0.01"),
        (of("0", 1), "no price known"),
        (of("0"), ""),
        (of("1234.5"), "$1,234.50"),
        (of("1e308"), "$1.0e+308"),
    ],
)
def test_money(some: UsageTotals, told: str) -> None:
    assert format_money(some) == told and format_short(some) == f"↑12.3k ↓4.5k {told}".strip()


def test_nothing_is_said_before_the_first_token() -> None:
    assert format_short(UsageTotals()) == ""
    assert format_short(UsageTotals(requests=1, failed=1)) == ""
    assert format_short(UsageTotals(requests=1, unpriced=1)) == "no price known"
    assert format_short(UsageTotals(requests=1, input=1)) == "↑1 ↓0"
