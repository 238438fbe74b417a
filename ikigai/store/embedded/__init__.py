"""This package makes, starts and stops the PostgreSQL server that comes with ikigai."""
