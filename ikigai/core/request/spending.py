"""Decide under the user's caps if a request may start, and how long its reply may be.

    bound = the input at its dearest + the output limit at its price
    a request starts if spent + reserved + bound fits under every cap
    where it does not fit, its output limit is lowered to what is left, to 1,024 tokens at least; else it is refused

`spent` is what requests have cost at most, `reserved` what those under way can still cost. A cap in tokens counts input
and output. A request without a known price is checked by caps in tokens alone, and needs one wherever one in dollars is
set. Everything here is a function of its arguments.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Literal, TypeAlias, get_args

from ikigai.core.events.record import Record

CapScope: TypeAlias = Literal["turn", "run", "day", "agent"]
CAP_SCOPES: tuple[CapScope, ...] = get_args(CapScope)
RUN_USD_KEY = "limits.run_usd"
"""The key that --max-usd sets."""
SCOPE_WORDS: dict[CapScope, str] = {
    "turn": "this turn",
    "run": "this run",
    "day": "today",
    "agent": "this agent and its subagents",
}

INPUT_MARGIN = 1.25
"""A request may have this many times the tokens that ikigai counted."""
MIN_OUTPUT_TOKENS = 1_024
"""The shortest output limit with which a request starts; also what a reply may have beyond what was seen of it."""
UNKNOWN_OUTPUT_TOKENS = 4_096
"""The output limit of a request under a cap whose model has no known one: what even small servers accept."""
WARNING_SHARE = Decimal("0.8")
"""The share of a cap from which the user is told."""
ZERO = Decimal(0)


class Money(Record, frozen=True):
    """An amount in US dollars and in tokens, input and output added."""

    usd: Decimal = ZERO
    tokens: int = 0

    def __add__(self, other: "Money") -> "Money":
        return Money(self.usd + other.usd, self.tokens + other.tokens)


NOTHING = Money()


class ReservedAmount(Record, frozen=True):
    """All that an agent has under way: the `most` that it can take, the part that is `sent` even if the writer dies
    now, and dollars for a token of output.
    """

    model: str
    most: Money
    sent: Money
    output_usd: Decimal = ZERO


class SpendingQuery(Record, frozen=True):
    """The sums to read: for a request in the turn that begins with event `turn` (None: in none), of the day since
    `since` in seconds since 1970; with `agents` also the sums of the whole agent. `writer` is the id of this run.
    """

    writer: str
    since: float
    turn: int | None = None
    agents: bool = False
    turns: bool = False


class Cap(Record, frozen=True):
    """A cap of one scope; 0 is no cap in that unit."""

    usd: Decimal = ZERO
    tokens: int = 0

    def __bool__(self) -> bool:
        return self.usd > 0 or self.tokens > 0


class Caps(Record, frozen=True):
    """The caps of all scopes."""

    turn: Cap = Cap()
    run: Cap = Cap()
    day: Cap = Cap()
    agent: Cap = Cap()

    def of(self, scope: CapScope) -> Cap:
        return getattr(self, scope)

    def __bool__(self) -> bool:
        return any(self.of(scope) for scope in CAP_SCOPES)

    @property
    def scopes(self) -> tuple[CapScope, ...]:
        """The scopes that have a cap."""
        return tuple(scope for scope in CAP_SCOPES if self.of(scope))


class RequestBound(Record, frozen=True):
    """The most that a request can take: tokens of input, their price at its dearest, and the price of a token of
    output.

    Both prices are None if one is unknown. `output` is the output limit, `fixed` says that it cannot be lowered.
    """

    input: int
    output: int
    input_usd: Decimal | None = None
    output_usd: Decimal | None = None
    fixed: bool = False

    def at(self, output: int) -> Money:
        """Return the bound with this output limit; without a known price it has no dollars."""
        usd = ZERO if self.input_usd is None or self.output_usd is None else self.input_usd + output * self.output_usd
        return Money(usd, self.input + output)

    @property
    def has_price(self) -> bool:
        return self.input_usd is not None and self.output_usd is not None

    @property
    def min_output(self) -> int:
        return self.output if self.fixed else min(self.output, MIN_OUTPUT_TOKENS)


class Admission(Record, frozen=True):
    """A request may start with this output limit; `reserved` is the most that it can take."""

    output: int
    reserved: Money


class Refusal(Record, frozen=True):
    """The cap that a request does not fit under: `spent` of it, reservations included, and the `need` of the request.

    With `is_unpriced` the cap is in dollars, and the model has no known price.
    """

    scope: CapScope
    cap: Cap
    spent: Money
    need: Money
    in_tokens: bool = False
    is_unpriced: bool = False


def admit(
    bound: RequestBound, caps: Caps, spent: Mapping[CapScope, Money], waived: Iterable[CapScope] = ()
) -> Admission | Refusal:
    """Return the output limit with which the request fits under every cap outside the scopes `waived`.

    `spent` has, for each scope of this request, what was spent and is reserved by others; a scope that is missing does
    not apply to it.
    """
    output = bound.output
    for scope in caps.scopes:
        if scope in waived or scope not in spent:
            continue
        cap, used, need = caps.of(scope), spent[scope], bound.at(bound.min_output)
        if cap.usd > 0 and not bound.has_price and not cap.tokens:
            return Refusal(scope, cap, used, need, is_unpriced=True)
        if cap.usd > 0 and bound.has_price:
            left = _output_for(cap.usd - used.usd, bound)
            if left < bound.min_output:
                return Refusal(scope, cap, used, need)
            output = min(output, left)
        if cap.tokens:
            left = cap.tokens - used.tokens - bound.input
            if left < bound.min_output:
                return Refusal(scope, cap, used, need, in_tokens=True)
            output = min(output, left)
    return Admission(output, bound.at(output))


def _output_for(dollars: Decimal, bound: RequestBound) -> int:
    """Return the tokens of output that `dollars` pay for beside the input."""
    assert bound.input_usd is not None and bound.output_usd is not None
    left = dollars - bound.input_usd
    if left < 0:
        return -1
    if not bound.output_usd:
        return bound.output
    return int((left / bound.output_usd).to_integral_value(ROUND_FLOOR))


def input_bound(size: int, tokens_per_byte: float) -> int:
    """Return the most tokens that a request of `size` bytes may have by the rate that the provider's figures show."""
    return math.ceil(size * tokens_per_byte * INPUT_MARGIN)


def priced_bound(
    input: int, output: int, price: Callable[[int, int, int], Decimal | None], fixed: bool = False
) -> RequestBound:
    """Return the bound of a request. `price` takes tokens of input, how many of them are written to a cache, and of
    output; it returns dollars, fees for each use included, or None.
    """
    fresh, written = price(input, 0, 0), price(input, input, 0)
    full = price(input, 0, output)
    if fresh is None or written is None or full is None:
        return RequestBound(input, output, fixed=fixed)
    dearest = max(fresh, written)
    return RequestBound(input, output, dearest, (full - fresh) / output if output else ZERO, fixed)


def reply_bound(bound: RequestBound, reserved: Money, input: int, output: int) -> Money:
    """Return the most that a request can have cost whose reply was cut off: its `input` as the provider counted it, or
    the input of the bound, and `output` tokens seen, with a margin for what was under way.
    """
    most = math.ceil(output * INPUT_MARGIN) + MIN_OUTPUT_TOKENS
    least = bound.at(most)
    counted = Money(least.usd, (input or bound.input) + most)
    return Money(min(counted.usd, reserved.usd), min(counted.tokens, reserved.tokens))


def format_money(cap: Cap, amount: Money, in_tokens: bool) -> str:
    """Return "$0.12 of $5.00", or the same in tokens."""
    if in_tokens:
        return f"{amount.tokens:,} of {cap.tokens:,} tokens"
    return f"{dollars(amount.usd)} of {dollars(cap.usd)}"


def dollars(amount: Decimal) -> str:
    """Format an amount, rounded up to the cent; below one cent, exactly."""
    cents = amount.quantize(Decimal("0.01"), ROUND_CEILING)
    if cents == amount or amount >= 1:
        return f"${cents:,.2f}"
    return f"${amount.quantize(Decimal('0.0001'), ROUND_CEILING):,.4f}"


def refusal_words(refusal: Refusal, model: str, takes_commands: bool) -> tuple[str, str]:
    """Return the sentence about a refused request and the one that says what to do.

    Where the program `takes_commands`, one of them raises the cap.
    """
    key = f"limits.{refusal.scope}_{'tokens' if refusal.in_tokens or refusal.is_unpriced else 'usd'}"
    where = SCOPE_WORDS[refusal.scope]
    if refusal.is_unpriced:
        cap = dollars(refusal.cap.usd)
        return (
            f"The price of {model} is not known, so a request cannot be checked against the cap of {cap} for {where}.",
            f"Set {key}, or input_price and output_price of the model.",
        )
    used = format_money(refusal.cap, refusal.spent, refusal.in_tokens)
    need = f"{refusal.need.tokens:,} tokens" if refusal.in_tokens else dollars(refusal.need.usd)
    if takes_commands:
        remedy = f"/limit {refusal.scope} AMOUNT raises the cap for this run; {key} is its key."
    else:
        flag = "--max-usd, or " if key == RUN_USD_KEY else ""
        remedy = f"Raise {flag}{key} in the configuration."
    return (
        f"The spending cap stops this request: {used} are used for {where}, and it could take {need} more.",
        remedy,
    )


def is_near(cap: Cap, used: Money) -> bool | None:
    """Return True if four fifths of the cap in tokens are used, False if four fifths of the cap in dollars are, None if
    neither.
    """
    if cap.usd > 0 and used.usd >= WARNING_SHARE * cap.usd:
        return False
    if cap.tokens and used.tokens >= WARNING_SHARE * cap.tokens:
        return True
    return None


def larger_cap(refusal: Refusal) -> Cap:
    """Return the cap that is offered where one stops a request: twice as much, or what the request needs."""
    cap, needed = refusal.cap, refusal.spent + refusal.need
    if refusal.in_tokens:
        return Cap(cap.usd, max(2 * cap.tokens, needed.tokens))
    cents = (needed.usd * 100).to_integral_value(rounding="ROUND_CEILING") / 100
    return Cap(max(2 * cap.usd, cents), cap.tokens)
