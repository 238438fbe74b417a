"""Usage from the log: sums of requests, and how full the window was."""

# Imports inside functions: the command that shows them.
