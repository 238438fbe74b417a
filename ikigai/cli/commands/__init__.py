"""This package holds the subcommands of `ikigai` that need more than a few lines."""
