"""Slash commands as data, and parsers of their arguments."""
