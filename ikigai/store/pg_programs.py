"""This module finds PostgreSQL's own programs, and passes them the database without showing its password."""

import shutil
from pathlib import Path

from psycopg import conninfo, pq

from ikigai.core.errors import BadDatabase
from ikigai.store import address


def find(name: str, binaries: Path | None) -> str:
    """Return the path of a program in the folder `binaries`, or on the PATH if that is None.

    Raise BadDatabase if it is missing.
    """
    if path := shutil.which(name, path=str(binaries) if binaries else None):
        return path
    raise BadDatabase(f"{name} is not installed.", "Install PostgreSQL's client programs (postgresql-client).")


def without_secrets(parameters: dict[str, str]) -> tuple[str, dict[str, str]]:
    """Return an address that all users may see in a list of processes, and the environment with the password."""
    secret = _secrets()
    public = {key: value for key, value in parameters.items() if key not in secret}
    password = parameters.get("password")
    return conninfo.make_conninfo(**public), {"PGPASSWORD": password} if password else {}


def has_secret(dsn: str) -> bool:
    """Return True if `dsn` is an address with a password or another secret in it."""
    try:
        return any(value for key, value in address.parse_dsn(dsn).items() if key in _secrets())
    except BadDatabase:  # a word like "embedded", or an address that is refused anyway
        return False


def _secrets() -> set[str]:
    return {option.keyword.decode() for option in pq.Conninfo.get_defaults() if option.dispchar == b"*"}
