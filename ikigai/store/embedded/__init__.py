"""Make, start and stop the PostgreSQL server that comes with ikigai."""
