"""Parse the arguments of /limit: a scope and an amount in dollars or tokens."""

from decimal import Decimal, InvalidOperation
from typing import NamedTuple

from ikigai.core.commands.arguments import parse_size, quoted
from ikigai.core.errors import WrongArgument
from ikigai.core.request.spending import CAP_SCOPES, Cap, Caps, CapScope

MAX_USD = Decimal(1_000_000)
MAX_TOKENS = 1_000_000_000


class CapChange(NamedTuple):
    """A change of one cap: both amounts None remove it, else the given one replaces the amount in its unit."""

    scope: CapScope
    usd: Decimal | None = None
    tokens: int | None = None

    def applied(self, caps: Caps) -> Caps:
        old = caps.of(self.scope)
        new = Cap(old.usd if self.usd is None else self.usd, old.tokens if self.tokens is None else self.tokens)
        if self.usd is None and self.tokens is None:
            new = Cap()
        return Caps(**{scope: new if scope == self.scope else caps.of(scope) for scope in CAP_SCOPES})


def parse_limit(argument: str) -> CapChange | None:
    """Return the change that an argument of /limit asks for; None to show the caps. Raise WrongArgument."""
    words = argument.lower().split()
    if not words:
        return None
    if words[0] not in CAP_SCOPES:
        raise WrongArgument(f"{quoted(words[0])} has no cap.", f"Caps are for: {', '.join(CAP_SCOPES)}.")
    scope = words[0]
    amount, unit = (words[1] if len(words) > 1 else ""), words[2] if len(words) > 2 else ""
    if amount in ("off", "none", "0") and not unit:
        return CapChange(scope)
    if len(words) <= 3 and (unit in ("tokens", "token") or (not unit and amount[-1:] in ("k", "m"))):
        tokens = parse_size(amount)
        if tokens and tokens <= MAX_TOKENS:
            return CapChange(scope, tokens=tokens)
    elif len(words) <= 3 and unit in ("", "usd", "dollars"):
        try:
            usd = Decimal(amount.removeprefix("$"))
        except InvalidOperation:
            usd = Decimal(0)
        if usd.is_finite() and 0 < usd <= MAX_USD:
            return CapChange(scope, usd=usd)
    raise WrongArgument(
        f"{quoted(' '.join(words[1:]))} is not an amount.", "Write dollars as 5 or $0.50, tokens as 200k, or off."
    )
