"""Put the other packages together, and manage many agents in one program."""

# Imports inside functions, so that the first screen does not wait for what comes behind it or never: each folder says
# which. Here it is `platform`, for the notice of an update.
