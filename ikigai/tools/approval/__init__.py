"""Decide if a tool call may run, and ask the user where necessary."""
