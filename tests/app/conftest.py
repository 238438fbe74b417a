"""Fixtures of the store for the tests of what is built on it."""

from tests.store.conftest import role

__all__ = ["role"]
