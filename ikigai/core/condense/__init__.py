"""This package decides when old turns are replaced by a summary, and which ones."""
