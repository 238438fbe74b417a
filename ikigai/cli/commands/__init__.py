"""Subcommands of `ikigai` that need more than a few lines."""
