"""This package is the full-screen browser: of the history, and of a list to pick a row from."""
