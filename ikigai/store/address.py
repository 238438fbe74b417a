"""Where the database is: a DSN with ikigai's defaults, and words for it that never hold a password."""

import os
import re
import socket
from typing import NamedTuple

import psycopg
from psycopg import conninfo, pq

from ikigai.core.errors import BadDatabase

CONNECT_TIMEOUT = 5
"""Seconds for one attempt to connect to one host; `connect_timeout` of the DSN or PGCONNECT_TIMEOUT say otherwise."""

KEEPALIVE = {
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
}


class Place(NamedTuple):
    """Server, database and user of a connection, for people. `host` is a folder when the server is on a socket."""

    host: str
    port: str
    database: str
    user: str

    def __str__(self) -> str:
        if not self.host or self.host.startswith("/"):
            return f"on the socket in {self.host}" if self.host else "on the default socket"
        return f"at {self.host}:{self.port}"


def parameters(dsn: str) -> dict[str, str]:
    """What libpq is given: the DSN's own parameters before ikigai's. "" leaves all to libpq's variables and files.

    Raises BadDatabase when the DSN cannot be read.
    """
    timeout = {} if "PGCONNECT_TIMEOUT" in os.environ else {"connect_timeout": str(CONNECT_TIMEOUT)}
    ours = {"client_encoding": "UTF8", "application_name": program()}
    return {**timeout, **KEEPALIVE, **given(dsn), **ours}


def given(dsn: str) -> dict[str, str]:
    """The DSN's own parameters. Raises BadDatabase when it cannot be read."""
    try:
        given = {key: str(value) for key, value in conninfo.conninfo_to_dict(dsn).items()}
        if not re.fullmatch(r"(\d{1,5}(,|$)|,)*", given.get("port", "")):
            raise psycopg.ProgrammingError("the port is no number")
    except (psycopg.Error, UnicodeError) as error:
        # libpq quotes pieces of what it could not read, and a piece may be of the password.
        told = "it is no text" if isinstance(error, UnicodeError) else str(error)
        reason = re.sub(r'"[^"]*"?', "…", told).partition("\n")[0].strip()
        raise BadDatabase(
            f"The address of the database cannot be read ({reason}).",
            "Write postgresql://USER:PASSWORD@HOST:PORT/DATABASE, with %XX for special characters in the password.",
        ) from None
    return given


def place(parameters: dict[str, str]) -> Place:
    found = {option.keyword.decode(): option.val.decode() for option in pq.Conninfo.get_defaults() if option.val}
    found.update(parameters)
    user = found.get("user", "")
    # A password with an @ in it that is not written as %40 ends up in front of the host.
    host = (found.get("host") or found.get("hostaddr") or "").rpartition("@")[2]
    return Place(host, found.get("port", "5432"), found.get("dbname") or user, user)


def program() -> str:
    """The name this program goes by in the database; the pen's holder is known by it."""
    return f"ikigai/{this_host()}/{os.getpid()}"


def this_host() -> str:
    """The name of this machine, short enough that the server, which keeps 63 bytes of a name, keeps the pid too."""
    return socket.gethostname()[:40]
