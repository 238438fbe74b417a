"""Driver errors in plain words: what the database would not do, and what the user can do about it."""

import re
from typing import NamedTuple

import psycopg

from ikigai.core.errors import BadDatabase, Misconfigured, StoreError, Unavailable
from ikigai.store.address import Place


class _Words(NamedTuple):
    """How to tell a failure. The sentences may name {place}, {database}, {user}, and what the server {said}.

    `embedded` is the remedy where the server is ikigai's own, and another than elsewhere.
    """

    kind: type[StoreError]
    what: str
    remedy: str
    embedded: str = ""


def _away(what: str, remedy: str, embedded: str = "") -> _Words:
    return _Words(Unavailable, what, remedy, embedded)


def _bad(what: str, remedy: str) -> _Words:
    return _Words(BadDatabase, what, remedy)


def _wrong(what: str, remedy: str) -> _Words:
    return _Words(Misconfigured, what, remedy)


_LOST = _away("The connection to the database {place} was lost.", "Try again: it is made anew.")
_FULL = _away(
    "The database {place} has no connection left.",
    "Close other programs that use it, or raise its limit.",
    "Close other programs that use it.",
)
_NOT_READY = _away("The database {place} is not ready yet.", "Try again in a moment.")
_REFUSED = _bad("The database {place} refused: {said}.", "Look into the log file; `ikigai db status` may say more.")

_BY_STATE = {
    "25006": _away(
        "The database {place} only lets itself be read now.",
        "Try again when it takes writes, or name the primary server.",
    ),
    "25P03": _LOST,
    "25P04": _LOST,
    "3F000": _wrong(
        "There is no schema to work in: none of the search_path is there, or {user} may not use it.",
        "Create the schema, grant its use, or mend the search_path.",
    ),
    "42501": _wrong(
        "The database user {user} may not do that: {said}.", "Ask the owner of the database for the right."
    ),
    "42P01": _wrong("Tables are missing from the database {database}: {said}.", "Run: ikigai db migrate"),
    "53100": _away("The disk of the database {place} is full.", "Make room there, then try again: nothing is lost."),
    "53200": _away("The database {place} is out of memory.", "Try again in a moment."),
    "53300": _FULL,
    "54000": _bad("That is more than the database can hold: {said}.", "Store less at once."),
    "55P03": _away("The database {place} is locked by another program.", "Try again in a moment."),
    "57014": _away("The database {place} took too long and gave up.", "Try again in a moment."),
    "57P01": _away("The database {place} was shut down.", "Start it, then try again.", "Try again: ikigai starts it."),
    "57P02": _away("The database {place} broke down.", "Try again when it is back."),
    "57P03": _NOT_READY,
}

_BY_CLASS = {
    "08": _LOST,
    "40": _away("Another program was in the way: {said}.", "Try again."),
    "53": _away("The database {place} is short of something: {said}.", "Try again in a moment."),
    "55": _away("The database {place} cannot do that now: {said}.", "Try again in a moment."),
    "57": _away("The database {place} was stopped: {said}.", "Try again when it is back."),
    "58": _away("The database {place} cannot use its files: {said}.", "Look at the server, then try again."),
}

# While connecting libpq tells no SQLSTATE, only text. What never passes by itself is listed first; whatever else a
# server says (in another language, too) may pass.
_CONNECTING = (
    (
        r"password authentication failed|no password supplied",
        _wrong(
            "The database {place} does not take the password of user {user}.",
            "Give the right one in the address, in PGPASSWORD or in ~/.pgpass.",
        ),
    ),
    (
        r'database ".*" does not exist|no such database',
        _wrong('There is no database "{database}" {place}.', "Create it with createdb, or name another."),
    ),
    (
        r'role ".*" does not exist|no such user',
        _wrong('There is no user "{user}" in the database {place}.', "Name another user in the address."),
    ),
    (r"SSL SYSCALL error|SSL connection has been closed|SSL error: unexpected eof", _LOST),
    (
        r"pg_hba\.conf|authentication failed|not permitted to log in|permission denied|parameter|SSL|certificate|GSS",
        _wrong(
            "The database {place} does not let user {user} in: {said}.",
            "Correct the address of the database, or let the user in there.",
        ),
    ),
    (r"too many clients|connection slots|too many connections|no more connections allowed", _FULL),
    (r"starting up|shutting down|recovery|not yet accepting", _NOT_READY),
    (r"No space left on device", _BY_STATE["53100"]),
    (r"FATAL:\s+out of memory", _BY_STATE["53200"]),
    (r"due to administrator command", _BY_STATE["57P01"]),
    (r"due to timeout", _BY_STATE["57014"]),
    (r"Input/output error", _BY_CLASS["58"]),
    (r"FATAL", _away("The database {place} lets nobody in now: {said}.", "Try again in a moment.")),
    (
        r"resolve host|translate host name",
        _away(
            "The database server {place} cannot be found by that name.",
            "Check the host in the address, and the network.",
        ),
    ),
    (
        r"refused|No such file or directory",
        _away(
            "No database answers {place}.",
            "Start the server there, or correct the address.",
            "Try again: ikigai starts it when it does not run.",
        ),
    ),
    (
        r"timeout expired",
        _away(
            "The database {place} does not answer in time.",
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


def connecting(error: psycopg.Error, place: Place, embedded: bool) -> StoreError:
    """Why there is no connection; `embedded` says that the server is ikigai's own."""
    text = str(error)
    words = next(words for pattern, words in _CONNECTING if re.search(pattern, text))
    return _tell(words._replace(remedy=words.embedded) if embedded and words.embedded else words, error, place)


def using(error: psycopg.Error, place: Place) -> StoreError:
    """Why a statement was not carried out."""
    state = error.sqlstate
    if state is None:
        # Without a state it was no answer of the server's, unless the driver refused by itself.
        return _tell(_LOST if isinstance(error, psycopg.OperationalError) else _REFUSED, error, place)
    return _tell(_BY_STATE.get(state) or _BY_CLASS.get(state[:2]) or _REFUSED, error, place)


def no_answer(place: Place, seconds: float) -> Unavailable:
    return Unavailable(
        f"The database {place} has not answered for {seconds:g} s.", "Try again: the connection is made anew."
    )


def _tell(words: _Words, error: psycopg.Error, place: Place) -> StoreError:
    said = error.diag.message_primary or re.split(r"(?:FATAL|ERROR|failed):\s*", str(error))[-1]
    fields = {**place._asdict(), "place": place, "said": said.partition("\n")[0].strip().rstrip(".")}
    return words.kind(words.what.format(**fields), words.remedy.format(**fields))
