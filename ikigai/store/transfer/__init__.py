"""Histories and databases on their way out and in: export, import, dump and restore."""
