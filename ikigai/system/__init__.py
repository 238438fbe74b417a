"""Wrappers of this process and this machine: paths, private files, stdout, progress."""
