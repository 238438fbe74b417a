"""Purge texts and ephemeral agents for good, with what the index has of them."""
