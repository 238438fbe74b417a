"""Tests of the store, over a real PostgreSQL."""
