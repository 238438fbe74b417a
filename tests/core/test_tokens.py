"""These tests check the conversion of bytes into tokens and back, and the formula of images."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikigai.core.text.tokens import count_tokens, format_tokens, image_tokens, max_bytes
from tests.core.vectors import cases

VECTORS = [case for case in cases("image_tokens", "image_tokens.json") if "base64_length" in case["input"]]
"""One is left out: an image given by its address, for which Roo-Code counts 450. Here every image has its data."""


@given(st.integers(0, 10**9))
def test_max_bytes_is_the_largest_size_of_a_token_count(tokens: int) -> None:
    most = max_bytes("openai", "gpt", tokens)
    assert count_tokens("openai", "gpt", most) <= tokens < count_tokens("openai", "gpt", most + 1)


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_more_bytes_are_never_fewer_tokens(one: int, more: int) -> None:
    assert count_tokens("", "", one) <= count_tokens("", "", one + more)


@pytest.mark.parametrize("case", VECTORS, ids=lambda case: case["id"])
def test_images_count_as_in_roo_code(case: dict[str, Any]) -> None:
    assert image_tokens("A" * case["input"]["base64_length"]) == case["expected"]


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
    assert format_tokens(tokens) == text
