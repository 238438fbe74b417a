"""Connections to PostgreSQL: the address, the settings of a session, errors, retries, and replicas."""
