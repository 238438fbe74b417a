"""Derive texts for users from memory and stored events."""
