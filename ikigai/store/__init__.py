"""The log in PostgreSQL: the only importer of psycopg."""

# Imports inside functions: a start connects, takes the write lock and reads one window, and loads no more than that.
#   search, usage, transfer, dump, purge              the command that asks, or the background work behind the prompt
#   embedded                                          the database that ikigai runs itself, with ctypes, hashlib,
#                                                     importlib, signal and tempfile
#   pwd                                               the same
#   numpy, safetensors, tokenizers, snowballstemmer   the index of words
#   users                                             roles that are added or removed
