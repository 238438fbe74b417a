"""Words for failures, without a server: what a full context is called, and how long a server asks to wait."""

import json
from pathlib import Path

import pytest

from ikigai.core.reply import Failure
from ikigai.providers.failures import Target, answered, reported, retry_after

TARGET = Target("openai", "m", "http://x")
ERRORS = json.loads((Path(__file__).parent.parent / "golden" / "context_exceeded.json").read_text())


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: f"{error['provider']}: {error['message'][:30]}")
def test_what_servers_say_when_the_context_is_exceeded(error: dict):
    body = {"error": {"message": error["message"], "code": error.get("code")}}
    kinds = {answered(TARGET, error["status"], body, {}, 0).kind, reported(TARGET, body).kind}
    assert (kinds == {Failure.CONTEXT}) is error["exceeded"]
    assert error["exceeded"] or Failure.CONTEXT not in kinds


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "0"}, None),
        ({"retry-after": "1"}, 1),
        ({"retry-after": " 1.5 "}, 1.5),
        ({"retry-after": "3600"}, 3600),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "Thu, 01 Jan 1970 00:02:00 GMT"}, 20),
        ({"retry-after": "Thu, 01 Jan 1970 00:02:00"}, 20),
        ({"retry-after": "Thu, 01 Jan 1970 00:01:00 GMT"}, None),
        ({"retry-after": "Thu, 01 Jan 99999 00:01:00 GMT"}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "abc"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "1" * 400}, None),
        ({"retry-after-ms": "nan"}, None),
        ({"retry-after-ms": "x"}, None),
    ],
)
def test_retry_after(headers: dict[str, str], seconds: float | None):
    assert retry_after(headers, now=100.0) == seconds
