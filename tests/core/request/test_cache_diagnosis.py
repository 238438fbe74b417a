"""The cause of every miss of a cache, from the rows of two successive requests."""

import pytest
from msgspec.structs import replace

from ikigai.core.events.events import PromptPrefix, UsageReported
from ikigai.core.events.messages import Usage
from ikigai.core.request.cache_diagnosis import (
    CAUSE_WORDS,
    MIN_MISSED_TOKENS,
    MISS_CAUSES,
    CacheUse,
    find_miss,
    has_paid_cache,
    lifetime_seconds,
)

PREFIX = PromptPrefix(tools="t", system="s", level="high", base=3, start=17, history="h", ttl=300)
WROTE = Usage(10_100, cached=8_000, written=2_000)


def use(usage: Usage = WROTE, at: float = 1_000.0, model: str = "a/x", **changed: object) -> CacheUse:
    return CacheUse(UsageReported(model, usage, prefix=replace(PREFIX, **changed)), at)


def cause(present: CacheUse, previous: CacheUse | None = None) -> str:
    miss = find_miss(previous or use(), present)
    return miss.cause if miss else ""


MISSED = Usage(12_000, cached=500, written=11_000)


@pytest.mark.parametrize(
    ("present", "expected"),
    [
        (use(MISSED, model="a/y"), "model"),
        (use(MISSED, at=1_300.0), "expired"),
        (use(MISSED, at=1_299.0), "unknown"),
        (use(MISSED, tools="other"), "tools"),
        (use(MISSED, system="other"), "system"),
        (use(MISSED, level="low"), "level"),
        (use(MISSED, base=40), "history"),
        (use(MISSED, start=99), "window"),
        (use(MISSED, cut=2), "window"),
        (use(MISSED, history="other"), "history"),
        (use(MISSED, tools="other", system="other", start=99), "tools"),
        (use(MISSED, model="a/y", at=9_999.0), "model"),
        (use(MISSED, at=9_999.0, tools="other"), "expired"),
    ],
)
def test_what_changed_is_the_cause(present: CacheUse, expected: str):
    assert cause(present) == expected


@pytest.mark.parametrize(
    ("told", "changed", "expected"),
    [
        ("tools_changed", {}, "tools"),
        ("system_changed", {"start": 99}, "system"),
        ("messages_changed", {"start": 99}, "window"),
        ("messages_changed", {}, "history"),
        ("reasoning_effort_changed", {}, "level"),
        ("unavailable", {}, "unknown"),
        ("unavailable", {"tools": "other"}, "tools"),
        ("a word of next year", {}, "unknown"),
    ],
)
def test_providers_diagnosis_is_used_where_it_is_as_exact(told: str, changed: dict[str, object], expected: str):
    assert cause(use(Usage(12_000, cached=500, written=11_000, diagnosis=told), **changed)) == expected


def test_missed_tokens_are_those_that_could_have_been_read():
    miss = find_miss(use(), use(MISSED))
    assert miss and miss.tokens == 10_000 - 500
    counted = find_miss(use(Usage(9_000, cached=8_000)), use(Usage(9_500, cached=0)))
    assert counted and counted.tokens == 9_000, "where writing is not counted, all of the input could be read"
    smaller = find_miss(use(), use(Usage(4_000, cached=1_000), start=99))
    assert smaller and smaller.tokens == 3_000, "a request has no more to read than its own input"


@pytest.mark.parametrize(
    ("previous", "present"),
    [
        (None, use(MISSED)),
        (use(), use(Usage(10_500, cached=10_000, written=500))),
        (use(), use(Usage(10_500, cached=10_001 - MIN_MISSED_TOKENS))),  # the rounding of caches
        (use(Usage(9_000)), use(Usage(9_500), tools="other")),  # a provider that tells of no cache
        (CacheUse(UsageReported("a/x", WROTE), 1.0), use(MISSED)),  # a row of an earlier version
    ],
)
def test_nothing_is_claimed_without_evidence(previous: CacheUse | None, present: CacheUse):
    assert find_miss(previous, present) is None


def test_every_cause_has_words():
    assert CAUSE_WORDS.keys() == set(MISS_CAUSES)


@pytest.mark.parametrize(
    ("model", "ttl", "seconds"),
    [
        ("anthropic/claude-opus-5", "5m", 300),
        ("anthropic/claude-opus-5", "1h", 3_600),
        ("openai/gpt-5.6-terra", "", 1_800),
        ("openai/gpt-6", "", 1_800),
        ("openai/gpt-5.4", "", 300),
        ("google/gemini-3-pro", "", 300),
    ],
)
def test_cache_lives_as_long_as_its_provider_says(model: str, ttl: str, seconds: int):
    assert lifetime_seconds(model, ttl) == seconds


@pytest.mark.parametrize(
    ("name", "paid"), [("gpt-5.6", True), ("gpt-5.10-mini", True), ("gpt-4o", False), ("o3", False)]
)
def test_paid_cache_is_that_of_later_models(name: str, paid: bool):
    assert has_paid_cache(name) is paid
