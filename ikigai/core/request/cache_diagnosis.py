"""Decide why a provider's cache served less of a request than it could have.

    could be read = what the request before read and wrote, or all of its input where writing is not counted
    missed        = could be read - read; less than MIN_MISSED_TOKENS is the rounding of caches

The first rule that holds names the cause: another model was asked before, the cache had expired, or a part of the
request changed. Parts are compared in the order in which a provider reads them. Everything here is a function of its
arguments.
"""

from typing import Literal, TypeAlias, get_args

from ikigai.core.events.events import CacheMiss, UsageReported
from ikigai.core.events.messages import Usage
from ikigai.core.events.record import Record
from ikigai.core.request.cache_lifetime import TTL_SECONDS

MissCause: TypeAlias = Literal["model", "expired", "tools", "system", "level", "history", "window", "unknown"]
MISS_CAUSES: tuple[MissCause, ...] = get_args(MissCause)
CAUSE_WORDS: dict[MissCause, str] = {
    "model": "another model was asked before",
    "expired": "the cache had expired",
    "tools": "the tools changed",
    "system": "the system prompt changed",
    "level": "the thinking level or form of the reply changed",
    "history": "the conversation was cleared, summarized, rewound or filtered",
    "window": "the window moved",
    "unknown": "nothing changed; the provider did not keep it",
}

MIN_MISSED_TOKENS = 1_024
"""The shortest beginning of a request that providers cache; they round what they keep, and less is no news."""

OTHER_TTL_SECONDS = 300
"""The shortest time for which providers without a choice say that they keep a cache."""
OPENAI_TTL_SECONDS = 1_800
"""The shortest time of OpenAI's models that charge for writing to a cache."""

PROVIDER_CAUSES: dict[str, MissCause] = {
    "model_changed": "model",
    "tools_changed": "tools",
    "system_changed": "system",
    "reasoning_effort_changed": "level",
    "text_format_changed": "level",
    "verbosity_changed": "level",
    "context_compacted": "history",
    "messages_changed": "history",
    "input_changed": "history",
    "prompt_cache_key_changed": "history",
}
"""The words of Anthropic and OpenAI. The last four are less exact than the facts known here about the conversation."""


class CacheUse(Record, frozen=True):
    """A request that was sent `at` seconds since 1970, as its row says."""

    report: UsageReported
    at: float


def find_miss(previous: CacheUse | None, present: CacheUse) -> CacheMiss | None:
    """Return how many tokens less than possible a request read from the cache, and why; None if it read all."""
    if previous is None or previous.report.prefix is None or present.report.prefix is None:
        return None
    before, now = previous.report.usage, present.report.usage
    if not (before.cached or before.written or now.cached or now.written):
        return None  # this provider tells of no cache
    missed = min(readable(before), now.input) - now.cached
    if missed < MIN_MISSED_TOKENS:
        return None
    return CacheMiss(_cause(previous, present), missed)


def readable(usage: Usage) -> int:
    """Return the tokens that the next request could read from the cache, if it begins as this one."""
    return usage.cached + usage.written if usage.written else usage.input


def _cause(previous: CacheUse, present: CacheUse) -> MissCause:
    before, now = previous.report.prefix, present.report.prefix
    assert before and now
    reported = PROVIDER_CAUSES.get(present.report.usage.diagnosis)
    if previous.report.model != present.report.model:
        return "model"
    if is_expired(previous, present.at):
        return "expired"
    if reported not in (None, "history"):
        return reported
    if before.tools != now.tools:
        return "tools"
    if before.system != now.system:
        return "system"
    if before.level != now.level:
        return "level"
    if before.base != now.base:
        return "history"
    if (before.start, before.cut) != (now.start, now.cut):
        return "window"
    return "history" if before.history != now.history else reported or "unknown"


def is_expired(use: CacheUse, at: float) -> bool:
    """Return True if the cache that a request used may be gone at this time, in seconds since 1970."""
    return seconds_left(use, at) == 0


def seconds_left(use: CacheUse, at: float) -> float | None:
    """Return the seconds for which the cache that a request used is kept from this time on at least.

    0 means that it may be gone, None that its lifetime is unknown.
    """
    ttl = use.report.prefix.ttl if use.report.prefix else 0
    return max(0.0, ttl - (at - use.at)) if ttl else None


def lifetime_seconds(model: str, cache_ttl: str) -> int:
    """Return the seconds for which the provider of "provider/name" keeps a cache at least; `cache_ttl` as in
    `Request`.
    """
    if chosen := TTL_SECONDS.get(cache_ttl):  # type: ignore[call-overload]
        return int(chosen)
    provider, _, name = model.partition("/")
    return OPENAI_TTL_SECONDS if provider == "openai" and has_paid_cache(name) else OTHER_TTL_SECONDS


def has_paid_cache(name: str) -> bool:
    """Return True if OpenAI charges for writing to the cache of this model: gpt-5.6 and later."""
    family, _, version = name.partition("-")
    digits = version.partition("-")[0].split(".")
    if family != "gpt" or not all(part.isdecimal() for part in digits):
        return False
    return [int(part) for part in digits] >= [5, 6]
