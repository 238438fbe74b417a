"""Bytes become tokens by one division, and back; images by their formula."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikigai.core.tokens import count, image, most_bytes, short
from tests.core.vectors import cases

VECTORS = [case for case in cases("image_tokens", "image_tokens.json") if "base64_length" in case["input"]]
"""One is left out: an image given by its address, for which Roo-Code counts 450. Here every image has its data."""


@given(st.integers(0, 10**9))
def test_the_most_bytes_count_as_no_more_and_one_byte_more_does(tokens: int) -> None:
    most = most_bytes("openai", "gpt", tokens)
    assert count("openai", "gpt", most) <= tokens < count("openai", "gpt", most + 1)


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_more_bytes_are_never_fewer_tokens(one: int, more: int) -> None:
    assert count("", "", one) <= count("", "", one + more)


@pytest.mark.parametrize("case", VECTORS, ids=lambda case: case["id"])
def test_images_count_as_in_roo_code(case: dict[str, Any]) -> None:
    assert image("A" * case["input"]["base64_length"]) == case["expected"]


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
