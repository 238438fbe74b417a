"""The log in PostgreSQL: the only importer of psycopg."""
