"""This package wraps this process and this machine: paths, private files, stdout, progress."""
