"""Read errors of any vendor's server: the message, the error's codes, and how long to wait."""

import json
import re
from collections.abc import Iterator, Mapping
from datetime import UTC
from typing import Any

from ikigai.providers.http.json_shape import as_mapping, as_sequence

RETRY_IN = re.compile(r"retry in (\d+(?:\.\d+)?)s\b", re.IGNORECASE)


def parse_error_body(body: object) -> tuple[str, frozenset[str]]:
    """Return the message of an error body and its codes (code, type, quotas), whatever its shape."""
    if isinstance(body, list) and body:
        body = body[0]
    if isinstance(body, dict):
        inner: Any = body.get("error") or body
        if not isinstance(inner, dict):
            inner = {"message": inner}
        message = inner.get("message") or inner.get("detail") or ""
        quotas = (as_mapping(one) for detail in _details(body) for one in as_sequence(detail.get("violations")))
        names = (inner.get("code"), inner.get("type"), inner.get("status"), *(one.get("quotaId") for one in quotas))
        codes = frozenset(str(name) for name in names if isinstance(name, str | int))
        return message if isinstance(message, str) else json.dumps(message, default=str), codes
    text = str(body or "").strip()
    return "" if text.startswith("<") else text, frozenset()


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Return the seconds that a server asks to wait, from its headers: a number or an HTTP date; None if it
    names none.
    """
    try:
        if milliseconds := headers.get("retry-after-ms"):
            return _finite(float(milliseconds) / 1000)
        value = headers.get("retry-after") or ""
        return _finite(float(value)) if _number(value) else _finite(_seconds(value) - now)
    except (ValueError, TypeError, OverflowError):
        return None


def retry_delay(body: object) -> float | None:
    """Return the seconds that a server asks to wait, from the body of an error: google.rpc.RetryInfo, or its
    message.
    """
    delays = (detail.get("retryDelay") for detail in _details(body))
    delay = next((delay for delay in delays if isinstance(delay, str)), "")
    if _number(delay.removesuffix("s")):
        return _finite(float(delay.removesuffix("s")))
    match = RETRY_IN.search(parse_error_body(body)[0])
    return _finite(float(match[1])) if match else None


def _details(body: object) -> Iterator[dict[str, Any]]:
    """Yield the details of google.rpc.Status, the shape of errors on all of Google's servers."""
    if isinstance(body, list) and body:
        body = body[0]
    yield from map(as_mapping, as_sequence(as_mapping(as_mapping(body).get("error")).get("details")))


def _finite(seconds: float) -> float | None:
    return seconds if 0 < seconds < float("inf") else None


def _number(value: str) -> bool:
    return value.strip().replace(".", "", 1).isdecimal()


def _seconds(date: str) -> float:
    from email.utils import parsedate_to_datetime

    moment = parsedate_to_datetime(date)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
