"""One request to a model: its stream, its draft, its usage, and the provider's cache."""

# Imports inside functions: the fallback of a model that is down.
