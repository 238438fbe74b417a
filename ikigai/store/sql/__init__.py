"""SQL statements of the store."""
