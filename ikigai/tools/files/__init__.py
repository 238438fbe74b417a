"""Tools that read, search, write and edit files."""
