"""Word how much of requests the providers' caches served, and why it was less than possible."""

from ikigai.core.events.record import Record
from ikigai.core.request.cache_diagnosis import CAUSE_WORDS
from ikigai.core.text import tokens


class MissCount(Record, frozen=True):
    """The `requests` that missed for one cause, and how many tokens they missed together."""

    cause: str
    requests: int
    missed: int

    @property
    def words(self) -> str:
        return CAUSE_WORDS.get(self.cause, self.cause)  # type: ignore[call-overload]


class MissRow(Record, frozen=True):
    """One request that missed, `at` seconds since 1970; tokens as in `Usage`. `provider_reason` is as it was sent."""

    at: float
    agent: str
    model: str
    input: int
    cached: int
    written: int
    missed: int
    cause: str
    provider_reason: str


class CacheReport(Record, frozen=True):
    """The sums over some rows of the ledger, the causes by missed tokens, and the newest requests that missed."""

    requests: int
    input: int
    cached: int
    written: int
    causes: tuple[MissCount, ...] = ()
    newest: tuple[MissRow, ...] = ()

    @property
    def missed(self) -> int:
        return sum(each.missed for each in self.causes)


def served_line(report: CacheReport) -> str:
    """Return the sentence about what caches served."""
    share = f" ({report.cached / report.input:.0%})" if report.input else ""
    return (
        f"Of {report.input:,} input tokens, {report.cached:,}{share} were read from a cache, "
        f"and {report.written:,} written to one."
    )


def cause_lines(report: CacheReport) -> list[str]:
    """Return a line for each cause, the one that missed the most first."""
    return [
        f"{tokens.format_tokens(each.missed)} tokens in {each.requests:,} request{'s' * (each.requests != 1)}: "
        f"{each.words}"
        for each in report.causes
    ]
