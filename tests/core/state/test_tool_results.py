"""These tests check capped and masked tool results, and the limits that providers name."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikigai.core.state.decisions.overflow import stated_limit
from ikigai.core.state.tool_results import ToolResultLimits, cap_result, ends_to_read, mask_result, masked_edge
from tests.core.vectors import cases

NOT_WORTH_IT = {
    "duragent/tool_result_truncation/013",
    "duragent/tool_result_truncation/014",
    "duragent/tool_result_truncation/015",
    "duragent/tool_result_truncation/016",
}
"""Results that the peer cuts although the line about it is about as long as the saving; ikigai keeps them whole."""

caps = st.builds(
    ToolResultLimits,
    st.integers(1, 60),
    st.sampled_from(["head", "tail", "both"]),
    st.integers(0, 4),
    st.integers(0, 6),
)


@pytest.mark.parametrize("case", cases("tool_result_truncation"), ids=lambda case: case["id"])
def test_result_is_cut_as_the_peer_does(case: dict[str, Any]) -> None:
    given = case["input"]
    cut = cap_result(given["content"], ToolResultLimits(given["max_tokens"], given["strategy"]))
    longer = len(case["expected"].encode()) >= len(given["content"].encode())
    assert cut == (given["content"] if case["id"] in NOT_WORTH_IT or longer else case["expected"])


@pytest.mark.parametrize("case", cases("safe_byte_truncate"), ids=lambda case: case["id"])
def test_cuts_lie_between_characters(case: dict[str, Any]) -> None:
    from ikigai.core.state.tool_results import _first, _last

    given = case["input"]
    cut = _last if given["side"] == "tail" else _first
    data = given["text"].encode()
    assert cut(data, min(given["max_bytes"], len(data))) == case["expected"]


@given(st.text(max_size=900), caps, st.sampled_from(["", " (read_result 12)"]))
def test_cutting_is_idempotent_and_never_makes_longer(text: str, caps: ToolResultLimits, whole: str) -> None:
    cut = cap_result(text, caps, whole)
    assert len(cut.encode()) <= len(text.encode())
    assert cap_result(cut, caps, whole) == cut
    if cut != text:
        assert f"({caps.part})]{whole}" in cut
        kept = cut.replace("\n\n", "")
        assert len(kept.encode()) <= caps.max_tokens * 4 + 120


@given(st.text(min_size=1, max_size=40), st.integers(66_000, 80_000), caps, st.sampled_from(["", " (read_result 12)"]))
def test_result_is_cut_as_well_when_only_its_ends_are_there(
    unit: str, size: int, caps: ToolResultLimits, whole: str
) -> None:
    text = unit * (size // len(unit.encode(errors="surrogatepass")))
    bytes_of_it = len(text.encode(errors="surrogatepass"))
    kept = ends_to_read(caps)
    if bytes_of_it > kept.max_bytes:
        abridged = text[: kept.head] + text[len(text) - kept.tail :]
        assert len(abridged) < bytes_of_it
        assert cap_result(abridged, caps, whole, bytes_of_it) == cap_result(text, caps, whole)


@given(st.text(max_size=400))
def test_masking_is_idempotent_and_never_makes_longer(text: str) -> None:
    mask = mask_result(text)
    assert len(mask.encode()) <= len(text.encode())
    assert mask_result(mask) == mask


def _results(case: dict[str, Any]) -> list[int]:
    start = case["input"]["conversation_end_idx"]
    messages = case["input"]["messages"]
    return [index for index, message in enumerate(messages) if index >= start and message["role"] == "tool"]


@pytest.mark.parametrize("case", cases("observation_masking"), ids=lambda case: case["id"])
def test_masked_ones_lie_between_first_and_last(case: dict[str, Any]) -> None:
    """The edge moves by the number of last results at a time, so fewer may be masked."""
    given, places = case["input"], _results(case)
    caps = ToolResultLimits(keep_first=given["keep_first"], keep_last=given["keep_last"])
    ours = places[caps.keep_first : masked_edge(len(places), caps)]
    theirs = case["expected"]["masked_indices"]
    if caps.keep_last <= 1:
        assert ours == theirs
    else:
        assert ours == theirs[: len(theirs) // caps.keep_last * caps.keep_last]


def test_mask_names_the_tokens_of_the_result() -> None:
    assert mask_result("x" * 48_000) == "[result masked — ~12000 tokens removed]"
    assert mask_result("result 1") == "result 1", "a mask would be longer"


@given(st.integers(0, 200), caps)
def test_edge_moves_in_steps_and_leaves_the_last_alone(results: int, caps: ToolResultLimits) -> None:
    now, then = masked_edge(results, caps), masked_edge(results + 1, caps)
    assert then - now in (0, max(1, caps.keep_last))
    if now > caps.keep_first:
        assert results - now >= caps.keep_last
    if not caps.keep_first and not caps.keep_last:
        assert now == 0


@pytest.mark.parametrize(
    ("message", "limit"),
    [
        ("prompt is too long: 210000 tokens > 200000 maximum", 200_000),
        ("This model's maximum context length is 128000 tokens. However, your messages resulted in 130000", 128_000),
        ("maximum context length of only 32,768 tokens", 32_768),
        ("The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", 1_048_576),
        ("request (9000 tokens) exceeds the available context size (8192 tokens), try increasing it", 8192),
        ("the model is loaded with context length of only 4096 tokens, which is not enough", 4096),
        ("Cannot truncate prompt with n_keep (15028) >= n_ctx (7424)", None),
        ('{"n_prompt_tokens": 9000, "n_ctx": 8192}', 8192),
        ("Range of input length should be [1, 204800]", 204_800),
        ("prompt token count of 514673 exceeds the limit of 128000", 128_000),
        ("Input length 72054 exceeds the maximum length 65536.", 65_536),
        ("Request body too large for gpt-4o model. Max size: 8000 tokens.", 8000),
        ("Input is too long for requested model.", None),
        ("context_length_exceeded", None),
        ("context length exceeded (413)", 413),
        ("the context window of this model has 5 parts", None),
    ],
)
def test_limit_that_a_provider_names(message: str, limit: int | None) -> None:
    assert stated_limit(message) == limit
