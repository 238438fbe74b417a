"""Keep the variables of libpq from connections to the embedded server: they are meant for another one.

libpq reads some of them whatever the address says (PGSERVICE, PGTZ, PGDATESTYLE). So they are taken from the
environment that C code of this process sees. `os.environ` keeps them, for commands of tools that the user passes them
to.
"""

import os

_hidden = set[str]()


def hide_libpq_variables() -> None:
    """Hide the variables from libpq in this process, and from `visible_environment`."""
    for name in os.environ:
        if is_libpq_variable(name):
            _hidden.add(name)
            os.unsetenv(name)


def visible_environment() -> dict[str, str]:
    """Return the environment for a program of PostgreSQL: without the variables that are hidden."""
    return {name: value for name, value in os.environ.items() if name not in _hidden}


def is_libpq_variable(name: str) -> bool:
    """Return True for PGHOST and its like, and False for PG_COLOR, which is of programs alone."""
    return name.startswith("PG") and not name.startswith("PG_")
