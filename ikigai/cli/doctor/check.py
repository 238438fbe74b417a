"""What a check comes to."""

from typing import NamedTuple

OK, WARN, BAD = "ok", "warn", "bad"


class Finding(NamedTuple):
    """`about` is the thing; `state` is OK, WARN (something could be better) or BAD (something does not work).

    `remedy` says what to do, "" where there is nothing to do.
    """

    about: str
    state: str
    said: str
    remedy: str = ""
