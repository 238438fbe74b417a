"""Retry a transaction that the server ended because it conflicted with another one, or whose answer was lost.

Two transactions that lock the same rows in different orders wait for each other: the server ends one of them, which
loses nothing by beginning anew. That need not reach the user.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, TypeVar, cast

import psycopg

from ikigai.core.errors import StoreError, Unavailable

RETRY_SECONDS = (0.05, 0.2, 0.8)
"""Pauses before such a transaction is run again: at once it might meet the other one while that still takes its locks.
"""
CONFLICTS = (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure)

F = TypeVar("F", bound=Callable[..., Awaitable[Any]])
log = logging.getLogger(__name__)


def retry_on_conflict(call: F) -> F:
    """Return `call` so that a conflict with another transaction runs it again. A failed run must leave nothing."""

    @wraps(call)
    async def retried(*arguments: Any, **named: Any) -> Any:
        for pause in RETRY_SECONDS:
            try:
                return await call(*arguments, **named)
            except StoreError as error:
                if not isinstance(error.__cause__, CONFLICTS):
                    raise
                log.debug("%s runs again: %s", getattr(call, "__qualname__", call), error.__cause__)
            await asyncio.sleep(pause)
        return await call(*arguments, **named)

    return cast("F", retried)


def retry_in_doubt(call: F) -> F:
    """Return `call` so that it runs once more where its answer was lost. Two runs must change no more than one."""

    @wraps(call)
    async def retried(*arguments: Any, **named: Any) -> Any:
        try:
            return await call(*arguments, **named)
        except Unavailable as lost:
            if not lost.in_doubt:
                raise
        return await call(*arguments, **named)

    return cast("F", retried)
