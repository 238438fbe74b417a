"""Events and outputs that the database did not take: files that keep them, and their way into the log."""

# Imports inside functions: a start without such files loads none of it.
