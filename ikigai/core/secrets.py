"""Which variables of an environment hold secrets, and the environment without them, for programs ikigai starts."""

import re
from collections.abc import Mapping

SECRET = re.compile(
    r"(_|^)(API_?KEY|KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|AUTH)(_|$)|^PGPASSWORD$|(^|_)DATABASE_URL$|_DSN$",
    re.IGNORECASE,
)
"""Names of variables that hold a key, a password or an address that may contain one."""
HARMLESS = frozenset({"SSH_AUTH_SOCK", "XAUTHORITY", "GPG_AGENT_INFO"})
"""Names that look so and are none: editors and pagers may need them."""


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """The same variables without those that hold secrets; a program of the user's own choosing needs no more."""
    return {name: value for name, value in environment.items() if name in HARMLESS or not SECRET.search(name)}
