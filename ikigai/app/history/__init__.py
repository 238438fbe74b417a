"""The history of all agents: search, recall, export and import."""

# Imports inside functions: the command that asks loads the search or the format.
#   shutil, tempfile    an import that is read from a pipe
