"""Usage and its cost: reports, the price of the next request, and spending caps."""

# Imports inside functions: the caps and the report of caches, when they are asked for.
#   csv, io    a table for spreadsheets
