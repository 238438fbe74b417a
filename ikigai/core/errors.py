"""The errors ikigai raises on purpose, as one tree.

    IkigaiError              anything the user can be told in a sentence
    ├── ConfigError          flags, environment, configuration files          exit code 2
    ├── Refused              the user asked for what this state does not allow
    │   └── Opening          nothing is open yet to ask it of
    ├── Bug                  what nobody foresaw, told instead of a traceback
    └── StoreError           the database
        ├── BadDatabase      wrong DSN, schema newer, server too old          exit code 2
        │   ├── Broken       this agent's ancestors are not a line: reading only
        │   ├── NewerSchema  reading only, too
        │   └── Misconfigured  password, rights, role or database: may be mended while we run
        ├── Unavailable      unreachable, disk full, cut: may come back       exit code 75
        └── Busy             another program writes to this agent             exit code 75

Failures of models and tools are not here: they are data (`Broke`, a `ToolResult` with is_error).
Every other exception is a bug, logged where it ends, and told as `Bug`.
"""

from collections.abc import Iterable


def nearest(word: str, names: Iterable[str], most: int = 1) -> list[str]:
    """Of these names those that are written most like the word, the best first; what a remedy may ask to have meant."""
    from difflib import get_close_matches  # only somebody's mistake needs it

    return get_close_matches(word, list(names), n=most)


class IkigaiError(Exception):
    """One sentence that says what failed, and one that says what to do.

    `what` and `remedy` are shown to the user as they are: plain text, no control characters expected but
    sanitised like anything else. `exit_code` is what a program that cannot go on returns.
    """

    exit_code = 1

    def __init__(self, what: str, remedy: str = "") -> None:
        super().__init__(f"{what} {remedy}".strip())
        self.what = what
        self.remedy = remedy


class ConfigError(IkigaiError):
    """A flag, a variable or a configuration file holds what ikigai cannot use."""

    exit_code = 2


class Refused(IkigaiError):
    """The user asked for something that the present state does not allow; nothing was stored."""


class Opening(Refused):
    """The screen is there, and the conversation behind it not yet."""

    def __init__(self) -> None:
        super().__init__("The conversation is being opened.", "Ask again in a moment.")


class Bug(IkigaiError):
    """Told to the user where any other exception ends; the log file has that one."""

    def __init__(self, remedy: str = "") -> None:
        super().__init__("Something in ikigai itself went wrong.", f"The log file has the details{remedy}.")


class StoreError(IkigaiError):
    """The database did not do what it was asked."""


class BadDatabase(StoreError):
    """This database cannot be used until somebody changes something."""

    exit_code = 2


class Broken(BadDatabase):
    """The way from this agent to its root goes in a circle, or is cut: it can be read, and nothing is built on it."""


class NewerSchema(BadDatabase):
    """The schema is newer than this program: it may be read, not written."""


class Misconfigured(BadDatabase):
    """A password, a right, a role, a database or its tables are wrong or missing there.

    A start fails of it; a program that was connected waits until it has been mended.
    """


class Unavailable(StoreError):
    """The database is out of reach or out of room now; the same call may work later."""

    exit_code = 75


class Busy(StoreError):
    """Another program holds the pen of this agent; `holder` says which: "host, pid N"."""

    exit_code = 75

    def __init__(self, what: str, remedy: str = "", holder: str = "") -> None:
        super().__init__(what, remedy)
        self.holder = holder


WAITED_FOR = Unavailable, Misconfigured
"""What a program that was connected once waits out."""
