"""Tests of the choice of a cache's lifetime by pauses."""

import pytest

from ikigai.core.request.cache_lifetime import choose_ttl


@pytest.mark.parametrize(
    "pauses, ttl",
    [
        ([], "5m"),
        ([30.0] * 20, "5m"),
        ([1_200.0] * 3, "1h"),
        ([30.0] * 19 + [1_200.0], "1h"),
        ([8_000.0] * 5, "5m"),
        ([30.0] * 9 + [50_000.0], "5m"),
    ],
)
def test_lifetime_is_what_would_have_cost_less(pauses: list[float], ttl: str) -> None:
    assert choose_ttl(pauses, 40) == ttl


def test_small_window_is_written_anew_rather_than_kept() -> None:
    assert choose_ttl([30.0] * 19 + [1_200.0], 1) == "5m"
