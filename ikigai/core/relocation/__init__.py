"""Rewrite events that move to another log or are purged."""
