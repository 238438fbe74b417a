"""This package holds the tools that read, search, write and edit files."""
