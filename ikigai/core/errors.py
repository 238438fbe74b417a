"""Errors that ikigai raises on purpose, as one tree.

    IkigaiError              anything that a sentence can tell the user
    ├── ConfigError          flags, environment, configuration files          exit code 2
    │   ├── ConfigErrors     several of them
    │   └── UsageError       words that the command line does not take
    ├── TimedOut             --timeout has passed                             exit code 124
    ├── Rejected             a request of the user that this state does not allow
    │   ├── NotReady         no conversation is open yet
    │   ├── NoModel          no model is chosen
    │   └── WrongArgument    an argument that a command does not take
    ├── Bug                  an unexpected exception, shown instead of a traceback
    ├── Stopped              a signal that ended the program             exit code 128 + its number
    └── StoreError           the database
        ├── BadDatabase      wrong DSN, schema newer, server too old          exit code 2
        │   ├── CorruptLineage  this agent's ancestors are not a line: reading only
        │   ├── NewerSchema  also reading only
        │   └── Misconfigured  password, rights, role or database: may be mended while we run
        ├── Unavailable      unreachable, disk full, cut: may come back       exit code 75
        └── AgentLocked      another program writes to this agent             exit code 75
            └── LogDiverged  and did so behind an event before the newest that this program knows

Failures of models and tools are not here: they are data (`StreamFailed`, a `ToolResult` with is_error).
Every other exception is a bug, logged where it ends, and shown as `Bug`.
"""

import contextlib
from collections.abc import Generator, Iterable, Sequence
from enum import IntEnum


class ExitCode(IntEnum):
    """The exit codes of the program; `EXIT_CODES` explains them."""

    OK = 0
    FAILED = 1
    UNUSABLE = 2
    SPENDING_LIMIT = 3
    TRY_AGAIN = 75
    TIMEOUT = 124
    HANGUP = 129
    INTERRUPTED = 130
    TERMINATED = 143


EXIT_CODES: dict[ExitCode, str] = {
    ExitCode.OK: "ok",
    ExitCode.FAILED: "no model, the provider or the model refuses, the turn failed, or the request is not possible",
    ExitCode.UNUSABLE: "wrong options or configuration, bad DSN, wrong password, unknown model",
    ExitCode.SPENDING_LIMIT: "a spending cap stopped the request",
    ExitCode.TRY_AGAIN: "try again later: unreachable, still failing after retries, or open in another ikigai",
    ExitCode.TIMEOUT: "the time of --timeout is over",
    ExitCode.HANGUP: "the terminal was closed (SIGHUP)",
    ExitCode.INTERRUPTED: "interrupted (SIGINT)",
    ExitCode.TERMINATED: "terminated (SIGTERM)",
}
"""The meaning of each exit code, as `--help` prints it. A command's page can replace one."""


def closest_names(word: str, names: Iterable[str], limit: int = 1) -> list[str]:
    """Return the names most like the word, the best first, at most `limit`: suggestions for a remedy."""
    from difflib import get_close_matches  # only a mistake needs it

    return get_close_matches(word, list(names), n=limit)


class IkigaiError(Exception):
    """An error with one sentence that says what failed, and one that says what to do.

    `what` and `remedy` are shown to the user as they are: plain text, without control characters, but sanitized like
    any text. `exit_code` is the one of the program if it cannot go on.
    """

    exit_code: int = ExitCode.FAILED

    def __init__(self, what: str, remedy: str = "") -> None:
        super().__init__(f"{what} {remedy}".strip())
        self.what = what
        self.remedy = remedy


class ConfigError(IkigaiError):
    """An unusable value in a flag, a variable or a configuration file."""

    exit_code = ExitCode.UNUSABLE


class UsageError(ConfigError):
    """Words that the command line does not take; `usage` is how to write them, `program` the command that says so."""

    def __init__(self, what: str, usage: str, program: str) -> None:
        super().__init__(what, f"`{program} --help` explains it.")
        self.usage, self.program = usage, program


MAX_ERRORS_TOLD = 20
"""Errors of one file that a message names."""


class ConfigErrors(ConfigError):
    """Several unusable values at once, a line each."""

    def __init__(self, errors: Sequence[ConfigError]) -> None:
        more = len(errors) - MAX_ERRORS_TOLD
        lines = [str(error) for error in errors[:MAX_ERRORS_TOLD]] + [f"And {more} more."] * (more > 0)
        super().__init__("\n".join(lines))
        self.errors = tuple(errors)


class TimedOut(IkigaiError):
    """A run of print mode that took longer than --timeout allows."""

    exit_code = ExitCode.TIMEOUT


class Rejected(IkigaiError):
    """A request of the user that the present state does not allow; nothing was stored."""


@contextlib.contextmanager
def as_config_error() -> Generator[None]:
    """Raise a Rejected from inside as a ConfigError: a command line asked for something refused."""
    try:
        yield
    except Rejected as refusal:
        raise ConfigError(refusal.what, refusal.remedy) from None


class NotReady(Rejected):
    """A request that came while the screen was ready and the conversation was not yet."""

    def __init__(self) -> None:
        super().__init__("The conversation is being opened.", "Try again in a moment.")


class NoModel(Rejected):
    """A message, or a question, for which no model is chosen."""

    def __init__(self) -> None:
        super().__init__(
            "No model yet.",
            "/login anthropic adds a key, /model PROVIDER/NAME chooses a model; in a shell: ikigai login anthropic",
        )


class WrongArgument(Rejected):
    """An argument that a command does not take. `CommandSpec.explaining_usage` adds the command's usage to it."""


class Bug(IkigaiError):
    """An unexpected exception, as the user is told of it; the log file has the exception itself."""

    def __init__(self, remedy: str = "") -> None:
        super().__init__("Something in ikigai itself went wrong.", f"The log file has the details{remedy}.")


class Stopped(IkigaiError):
    """A signal that ended the program. Its sender knows of it, so only JSON says so."""

    def __init__(self, signum: int) -> None:
        super().__init__(f"Stopped by signal {signum}.")
        self.exit_code = 128 + signum


class StoreError(IkigaiError):
    """An error of the database."""


class BadDatabase(StoreError):
    """A database that cannot be used until a person changes something."""

    exit_code = ExitCode.UNUSABLE


class CorruptLineage(BadDatabase):
    """An ancestry in a circle, or cut: the agent can be read, but nothing can be appended to it."""


class NewerSchema(BadDatabase):
    """A schema newer than this program: it may be read, not written."""


class Misconfigured(BadDatabase):
    """A password, a right, a role, a database or its tables are wrong or missing.

    A start fails of it. A program that was connected waits until it has been mended.
    """


class Unavailable(StoreError):
    """A database that is out of reach or out of room now; the same call may work later. `in_doubt` says that its answer
    was lost: it may have been carried out.
    """

    exit_code = ExitCode.TRY_AGAIN
    in_doubt = False


class AgentLocked(StoreError):
    """An agent whose write lock another program has; `owner` names that program: "host, pid N"."""

    exit_code = ExitCode.TRY_AGAIN

    def __init__(self, what: str, remedy: str = "", holder: str = "") -> None:
        super().__init__(what, remedy)
        self.owner = holder


class LogDiverged(AgentLocked):
    """An agent whose log lacks events that a lost server had confirmed, and has events of another program instead."""


WAITED_FOR = Unavailable, Misconfigured
"""The errors that a program waits out once it was connected."""
