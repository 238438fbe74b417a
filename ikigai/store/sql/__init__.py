"""This package holds the SQL statements of the store."""
