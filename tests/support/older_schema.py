"""This module makes the tables as an earlier version of the schema had them."""

import psycopg

from ikigai.store import schema
from tests.conftest import MIGRATIONS


def make_older_schema(connection: psycopg.Connection, version: int) -> None:
    """Make the tables of this version in an empty database, and have the connection find them by their plain names."""
    connection.execute("create schema ikigai")
    connection.execute("set search_path = ikigai")
    apply_migrations(connection, version)


def apply_migrations(connection: psycopg.Connection, version: int) -> None:
    """Make the tables of this version where the connection makes tables."""
    for number, file in schema.read_migrations(MIGRATIONS)[:version]:
        connection.execute(file.read_bytes())
        connection.execute("insert into ikigai_migrations (version, name) values (%s, %s)", (number, file.stem[5:]))
