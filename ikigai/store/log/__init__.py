"""The log of an agent: the write lock, appending, reading, following, and healing after a failover."""

# Imports inside functions: a start takes the write lock and reads one window. Pages, and what heals a log after the
# loss of a connection, are loaded when they are needed.
