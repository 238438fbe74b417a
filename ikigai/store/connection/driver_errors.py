"""Translate the driver's errors into messages that say what failed and what the user can do."""

import re
from typing import NamedTuple

import psycopg

from ikigai.core.errors import BadDatabase, Misconfigured, StoreError, Unavailable
from ikigai.store.connection import sqlstate
from ikigai.store.connection.address import ServerAddress


class _Wording(NamedTuple):
    """The message for a failure. Sentences may name {place}, {database}, {user}, and {said}, the server's own words.

    `embedded` is the remedy for ikigai's own server where it differs.
    """

    kind: type[StoreError]
    what: str
    remedy: str
    embedded: str = ""


def _away(what: str, remedy: str, embedded: str = "") -> _Wording:
    return _Wording(Unavailable, what, remedy, embedded)


def _bad(what: str, remedy: str) -> _Wording:
    return _Wording(BadDatabase, what, remedy)


def _wrong(what: str, remedy: str) -> _Wording:
    return _Wording(Misconfigured, what, remedy)


_LOST = _away("The connection to the database {place} was lost.", "Try again: ikigai connects again.")
_FULL = _away(
    "The database {place} has no free connection.",
    "Close other programs that use it, or raise max_connections.",
    "Close other programs that use it.",
)
_NOT_READY = _away("The database {place} is not ready yet.", "Try again in a moment.")
CONNECT_DIRECTLY = "Connect to PostgreSQL directly, or to a pool in session mode."
_MIXED_UP = _bad("The pooler of the database {place} mixes up the sessions of programs: {said}.", CONNECT_DIRECTLY)
_REFUSED = _bad(
    "The database {place} reported an error: {said}.", "Check the log file; `ikigai db status` may say more."
)

_BY_STATE = {
    "25006": _away(
        "The database {place} is read-only now.",
        "Try again when it accepts writes, or use the primary server.",
    ),
    "25P03": _LOST,
    "25P04": _LOST,
    "26000": _MIXED_UP,
    "42501": _wrong(
        "The database user {user} may not do that: {said}.", "Ask the owner of the database for permission."
    ),
    "42P01": _wrong(
        "Tables are missing from the database {database}: {said}.",
        "Run: ikigai db migrate. If the schema is there already, restore a dump into another one: --schema NAME.",
    ),
    "42P05": _MIXED_UP,
    "53100": _away("The disk of the database {place} is full.", "Free some space there, then try again."),
    "53200": _away("The database {place} is out of memory.", "Try again in a moment."),
    "53300": _FULL,
    "54000": _bad("That is too large for the database: {said}.", "Store less at once."),
    "55P03": _away("The database {place} is locked by another program.", "Try again in a moment."),
    "57014": _away("The database {place} timed out.", "Try again in a moment."),
    "57P01": _away("The database {place} was shut down.", "Start it, then try again.", "Try again: ikigai starts it."),
    "57P02": _away("The database {place} crashed.", "Try again when it is back."),
    "57P03": _NOT_READY,
}

_BY_CLASS = {
    "08": _LOST,
    "40": _away("Another program held a conflicting lock: {said}.", "Try again."),
    "53": _away("The database {place} is out of a resource: {said}.", "Try again in a moment."),
    "55": _away("The database {place} cannot do that now: {said}.", "Try again in a moment."),
    "57": _away("The database {place} was stopped: {said}.", "Try again when it is back."),
    "58": _away("The database {place} cannot use its files: {said}.", "Check the server, then try again."),
}

_PASSWORD = _wrong(
    "The database {place} did not accept the password of user {user}.",
    "Set the right one in the address, in PGPASSWORD or in ~/.pgpass.",
)
_NO_DATABASE = _wrong('There is no database "{database}" {place}.', "Create it with createdb, or use another one.")
_NOT_LET_IN = _wrong(
    "The database {place} refused user {user}: {said}.",
    "Correct the address of the database, or allow the user in pg_hba.conf.",
)
_NOBODY_LET_IN = _away("The database {place} accepts no logins now: {said}.", "Try again in a moment.")

# Refusals that never pass by themselves, and those that a server words more exactly than their SQLSTATE says: 28000 is
# also a role that is not there, and 08P01 all that PgBouncer has to say, which speaks English alone.
_REFUSALS = (
    ("28|08", r'role ".*" does not exist|no such user', _wrong(
        'There is no user "{user}" in the database {place}.', "Write another user in the address."
    )),
    ("28P01", "", _PASSWORD),
    ("08", "password authentication failed", _PASSWORD),
    ("3D000", "", _NO_DATABASE),
    ("08", "no such database", _NO_DATABASE),
    ("28|22|42", "", _NOT_LET_IN),  # 22 and 42 are of parameters in the address
    ("08|0A|55P02", "parameter", _NOT_LET_IN),
    ("08", "authentication failed|not allowed", _NOT_LET_IN),
    ("53300", "", _FULL),
    ("08", "too many connections|no more connections allowed", _FULL),
)  # fmt: skip
_PASSING = {state: _BY_STATE[state] for state in ("53100", "53200", "57014", "57P01", "57P02", "57P03")}

_UNUSABLE = _wrong(
    "The address of the database cannot be used: {said}.",
    "Correct it: --db, IKIGAI_DATABASE_URL, [database] url, or libpq's variables and service file.",
)
_UNUSABLE_SAID = (
    r"definition of service|service file|could not match \d+|could not parse network address|bad value for \w"
    r"|too long \(maximum|invalid (port number|integer value|[\"\w]+ value)"
)
"""The words of libpq and the driver about parameters that no server needs to see: they never pass by themselves.
Compiled after a failure, not at every start.
"""

# Errors of libpq itself, without an answer of a server.
_CONNECTING = (
    (
        "session is read-only|server is in hot standby mode",  # perhaps of one server among others that are down
        _away(
            "The database {place} accepts no writes now.",
            "Try again in a moment: a standby may be taking over.",
        ),
    ),
    ("no password supplied", _PASSWORD),
    (r"SSL SYSCALL error|SSL connection has been closed|SSL error: unexpected eof", _LOST),
    (r"authentication failed|SSL|certificate|GSS", _NOT_LET_IN),
    (
        r"resolve host|translate host name",
        _away(
            "The database server {place} has an unknown host name.",
            "Check the host in the address, and the network.",
        ),
    ),
    (
        r"refused|No such file or directory",
        _away(
            "Cannot reach PostgreSQL {place}.",
            "Start it, or fix the address.",
            "Try again: ikigai starts it when it does not run.",
        ),
    ),
    (
        r"timeout expired",
        _away(
            "The database {place} did not answer in time.",
            "Check host and port in the address, and the network.",
            "Its processes may be stopped, or the machine is busy: try again in a moment.",
        ),
    ),
    (
        r"",
        _away(
            "The database {place} cannot be reached: {said}.",
            "Check the address, then try again.",
            "Try again in a moment.",
        ),
    ),
)


def connection_error(error: psycopg.Error, place: ServerAddress, embedded: bool) -> StoreError:
    """Return the error for a failed connection; `embedded` says that the server is ikigai's own."""
    text = str(error)
    if refusals := sqlstate.refusals(text):
        wording, said = _refused(refusals)
    elif all(re.search(_UNUSABLE_SAID, each) for each in re.findall("^- host: .*", text, re.MULTILINE) or [text]):
        wording, said = _UNUSABLE, text.removeprefix("connection is bad: ")
    else:
        wording = next(wording for pattern, wording in _CONNECTING if re.search(pattern, text))
        said = re.split(r"failed:\s*", text)[-1]
    return _format(wording, said, place, embedded)


def _refused(refusals: list[sqlstate.ConnectionRefusal]) -> tuple[_Wording, str]:
    """Return the wording for a refused connection, and the server's text: of several refusals the most lasting."""
    for states, pattern, wording in _REFUSALS:
        for state, text in refusals:
            if re.match(states, state) and re.search(pattern, text):
                return wording, text
    state, text = refusals[0]
    return _PASSING.get(state) or (_BY_CLASS["58"] if state.startswith("58") else _NOBODY_LET_IN), text


def statement_error(error: psycopg.Error, place: ServerAddress) -> StoreError:
    """Return the error for a failed statement."""
    state = error.sqlstate
    if state is None:
        # Without a state the server did not answer, unless the driver refused by itself.
        return _format(_LOST if isinstance(error, psycopg.OperationalError) else _REFUSED, str(error), place)
    said = error.diag.message_primary or str(error)
    return _format(_BY_STATE.get(state) or _BY_CLASS.get(state[:2]) or _REFUSED, said, place)


def no_answer(place: ServerAddress, seconds: float, replicated: bool = False) -> Unavailable:
    if replicated:
        what = f"The database {place} has not answered for {seconds:g} s; its standby may be away."
        return Unavailable(what, "Start the standby: ikigai tries again.")
    return Unavailable(f"The database {place} has not answered for {seconds:g} s.", "Try again: ikigai connects again.")


def is_mixed_up(error: Exception) -> bool:
    """Return True if a session lacks a statement that was prepared in it, or has one of another program."""
    return isinstance(error, psycopg.errors.InvalidSqlStatementName | psycopg.errors.DuplicatePreparedStatement)


def _format(wording: _Wording, said: str, place: ServerAddress, embedded: bool = False) -> StoreError:
    fields = {**place._asdict(), "place": place, "said": said.partition("\n")[0].strip().rstrip(".")}
    remedy = wording.embedded if embedded and wording.embedded else wording.remedy
    return wording.kind(wording.what.format(**fields), remedy.format(**fields))
