"""This package holds the memory of an agent: the fold, the window, and the decisions."""
