"""Read the address of the database, add ikigai's defaults, and describe it without its password."""

import os
import re
import socket
import zlib
from typing import NamedTuple

import psycopg
from psycopg import conninfo, pq

from ikigai.core.errors import BadDatabase

CONNECT_TIMEOUT = 5
"""Seconds for one attempt to connect to one host, unless `connect_timeout` of the DSN or PGCONNECT_TIMEOUT says
otherwise.
"""

DEFAULT_SCHEMA = "ikigai"
DEFAULT_PORT = "5432"
MAX_NAME_BYTES = 63
"""The server cuts longer names of databases and schemas, which then name others."""

KEEPALIVE_OPTIONS = {
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
}


class ServerAddress(NamedTuple):
    """Server, database and user of a connection, for people. `host` is a folder when the server is on a socket; `host`
    and `port` list several servers as the address does.
    """

    host: str
    port: str
    database: str
    user: str

    @property
    def servers(self) -> list[str]:
        """Host and port of each server."""
        hosts, ports = self.host.split(","), self.port.split(",")
        ports *= len(hosts) if len(ports) == 1 else 1  # libpq takes one port for all of them
        return [f"{host}:{port or DEFAULT_PORT}" for host, port in zip(hosts, ports, strict=False)]

    @property
    def short(self) -> str:
        """The host, of several the first and how many more there are; "local" on a socket."""
        host, *others = self.host.split(",")
        return "local" if not host or host.startswith("/") else f"{host} +{len(others)}" if others else host

    def __str__(self) -> str:
        if "," in self.host:
            return f"at {' or '.join(self.servers)}"
        if not self.host or self.host.startswith("/"):
            return f"on the socket in {self.host}" if self.host else "on the default socket"
        return f"at {self.host}:{self.port}"


def connection_parameters(dsn: str) -> dict[str, str]:
    """Return the parameters for libpq: parameters in `dsn` override ikigai's defaults. "" leaves all to libpq's
    variables and files.

    Raise BadDatabase if `dsn` cannot be read.
    """
    timeout = {} if "PGCONNECT_TIMEOUT" in os.environ else {"connect_timeout": str(CONNECT_TIMEOUT)}
    ours = {"client_encoding": "UTF8", "application_name": application_name()}
    return {**timeout, **KEEPALIVE_OPTIONS, **parse_dsn(dsn), **ours}


def parse_dsn(dsn: str) -> dict[str, str]:
    """Return the parameters that `dsn` itself has. Raise BadDatabase if it cannot be read."""
    try:
        parameters = {key: str(value) for key, value in conninfo.conninfo_to_dict(dsn).items()}
        if not re.fullmatch(r"(\d{1,5}(,|$)|,)*", parameters.get("port", "")):
            raise psycopg.ProgrammingError("the port is not a number")
        if len(parameters.get("dbname", "").encode()) > MAX_NAME_BYTES:
            raise psycopg.ProgrammingError(f"the name of the database is longer than {MAX_NAME_BYTES} bytes")
    except (psycopg.Error, UnicodeError) as error:
        # libpq quotes pieces of the text that it could not read, and a piece may belong to the password.
        text = "it is not text" if isinstance(error, UnicodeError) else str(error)
        reason = re.sub(r'"[^"]*"?', "…", text).partition("\n")[0].strip()
        raise BadDatabase(
            f"The address of the database cannot be read ({reason}).",
            "Write postgresql://USER:PASSWORD@HOST:PORT/DATABASE, with %XX for special characters in the password.",
        ) from None
    return parameters


def place(parameters: dict[str, str]) -> ServerAddress:
    values = {option.keyword.decode(): option.val.decode() for option in pq.Conninfo.get_defaults() if option.val}
    values.update(parameters)
    user = values.get("user", "")
    # A password with an @ in it that is not written as %40 ends up in front of the host.
    host = (values.get("host") or values.get("hostaddr") or "").rpartition("@")[2]
    return ServerAddress(host, values.get("port", DEFAULT_PORT), values.get("dbname") or user, user)


def schema_number(schema: str) -> int:
    """Return a signed number of 32 bits that keeps the advisory locks of a database's schemas apart."""
    return zlib.crc32(schema.encode()) - 2**31


def application_name() -> str:
    """Return the name of this process in the database; other processes identify the lock owner by it."""
    return f"ikigai/{this_host()}/{os.getpid()}"


def this_host() -> str:
    """Return the name of this machine, cut so that the pid fits into the 63 bytes that the server keeps of a name."""
    return socket.gethostname()[:40]
