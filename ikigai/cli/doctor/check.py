"""Result of a check: a finding with its state and remedy."""

from typing import NamedTuple

OK, WARN, BAD = "ok", "warn", "bad"


class Finding(NamedTuple):
    """The result of a check of the thing `about`.

    `state` is OK, WARN (something could be better) or BAD (something does not work). `remedy` says what to do, "" for
    nothing.
    """

    about: str
    state: str
    said: str
    remedy: str = ""
