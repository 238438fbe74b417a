"""This package is the full-screen browser of the history."""
