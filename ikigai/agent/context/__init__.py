"""Take turns out of the context: summaries that are written in the background, and filters."""

# Imports inside functions: the code that condenses, when a context is full.
