"""The environment of a command: the user's without secrets, and without what would make a program wait for somebody."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from ikigai.core.secrets import without_secrets

LEFT_OUT = re.compile(
    r"^PG[A-Z]+$|^IKIGAI_"  # where ikigai's own database is, and how it is reached
    r"|^(BASH_ENV|BASH_FUNC_.*|SHELLOPTS|BASHOPTS)$"  # bash would do something else than what was approved
)
"""Names that commands do not get, besides those that hold secrets by their names (`core/secrets.py`)."""
ADDRESS = re.compile(r"://[^/@\s]*:[^/@\s]+@")
"""An address with a password in it: DSNs of any name."""
PROXY = re.compile(r"^[a-z]+_proxy$", re.IGNORECASE)
"""Without its proxy a machine may reach nothing: the one address that keeps its password."""
FIXED = {
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    "SYSTEMD_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
}
"""What makes programs print instead of drawing, paging or asking."""


def for_commands(environment: Mapping[str, str], secret: Collection[str] = ()) -> dict[str, str]:
    """What a command gets of `environment`; `secret` are further names that hold keys (`api_key_env`)."""
    kept = {
        name: value
        for name, value in without_secrets(environment).items()
        if name not in secret and not LEFT_OUT.search(name) and (PROXY.match(name) or not ADDRESS.search(value))
    }
    return {**kept, **FIXED}
