"""Bytes become tokens by one division, and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikigai.core.tokens import count, most_bytes, short


@given(st.integers(0, 10**9))
def test_the_most_bytes_count_as_no_more_and_one_byte_more_does(tokens: int) -> None:
    most = most_bytes("openai", "gpt", tokens)
    assert count("openai", "gpt", most) <= tokens < count("openai", "gpt", most + 1)


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_more_bytes_are_never_fewer_tokens(one: int, more: int) -> None:
    assert count("", "", one) <= count("", "", one + more)


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        (0, "0"),
        (999, "999"),
        (1_000, "1k"),
        (42_123, "42.1k"),
        (100_000, "100k"),
        (999_949, "999.9k"),
        (999_950, "1M"),
        (1_250_000, "1.2M"),
    ],
)
def test_short(tokens: int, text: str) -> None:
    assert short(tokens) == text
