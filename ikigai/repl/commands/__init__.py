"""Slash commands that need more than the agent on screen, and completions of their arguments."""

# Imports inside functions: the module of a command is loaded when the command is typed or completed.
