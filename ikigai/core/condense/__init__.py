"""Decide when a summary replaces old turns, and which turns it replaces."""
