"""The user's input: its way to the agent on screen, and what helps to write it."""

# Imports inside functions: what a message mentions, and what runs a !command, is loaded when it is sent.
