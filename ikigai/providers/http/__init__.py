"""HTTP to the servers of models: connections, limits of answers, streams, and failures in words."""

# Imports inside functions:
#   httpx2, ssl    the first connection
#   email          the seconds to wait that a server names
