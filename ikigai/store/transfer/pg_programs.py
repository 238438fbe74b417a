"""Find PostgreSQL's own programs, and pass them the database without showing its password."""

import re
import shutil
import subprocess
from pathlib import Path

import psycopg
from psycopg import conninfo, pq

from ikigai.core.errors import BadDatabase
from ikigai.store.connection import address
from ikigai.store.embedded.account import server_environment


def find(name: str, binaries: Path | None) -> str:
    """Return the path of a program in the folder `binaries`, or on the PATH if that is None.

    Raise BadDatabase if it is missing.
    """
    if path := _which(name, binaries):
        return path
    raise BadDatabase(f"{name} is not installed.", "Install PostgreSQL's client programs (postgresql-client).")


def find_newest(name: str, folder: Path | None) -> str:
    """Return the path of the newest program of this name, in `folder` and on the PATH.

    A program works with servers and archives of its own version and older ones. Raise BadDatabase if none exists.
    """
    found = [path for place in (folder, None) if (path := _which(name, place))] if folder else []
    return max(found, key=_version, default="") or find(name, None)


def _which(name: str, folder: Path | None) -> str | None:
    return shutil.which(name, path=str(folder) if folder else None)


def _version(program: str) -> tuple[int, ...]:
    """Return the version that the program reports; () if it reports none."""
    try:
        said = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=10, env=server_environment()
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ()
    number = re.search(r"\(PostgreSQL\) (\d+)(?:\.(\d+))?", said)
    return tuple(int(part or 0) for part in number.groups()) if number else ()


async def accepts_options(parameters: dict[str, str]) -> bool:
    """Return True if a connection with the `options` of these parameters can be made. Some poolers refuse them."""
    try:
        connection = await psycopg.AsyncConnection.connect(conninfo.make_conninfo(**parameters))
    except psycopg.OperationalError:
        return False
    await connection.close()
    return True


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
