"""Recognize variables that hold secrets, and build the environment without them for programs that ikigai starts."""

import re
from collections.abc import Mapping

SECRET_WORD = re.compile(
    r"[^_]*(TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIAL)S?[0-9]*(_|$)"  # also ACCESSTOKEN, DBPASSWORD
    r"|(?!([A-Z]*MONKEY|TURKEY|DONKEY|HOTKEY|HOCKEY|JOCKEY|WHISKEY|TURNKEY)S?(_|$))[^_]*KEYS?[0-9]*(_|$)"
    r"|[^_]*SECRETKEY"  # SECRETKEYBASE
    r"|(?!(COM|ENCOM|BY|TRES|SUR|OVER|UNDER|MULTI|ASK)PASS)[^_]*PASS[0-9]*(_|$)"  # SSHPASS; not GIT_ASKPASS, a program
    r"|(AUTH|CREDS?|PAT|PGPASSWORD)(_|$)"
    r"|(AUTHORIZATION|BEARER|COOKIES?|JWTS?|WEBHOOKS?(_UR[LI])?)$"  # COOKIE_DOMAIN only names one
    r"|[^_]*(DATABASE|DB|REDIS|MONGO|POSTGRES|POSTGRESQL|MYSQL|AMQP|RABBITMQ|BROKER)_UR[LI]$"
    r"|[^_]*CONN(ECTION)?(STR|_?STRING)S?(_|$)|CONN(ECTION)?_STR$"
    r"|(?<=_)(SK|PRIVATE|DSN|PWD)$|(?!OLD)[^_]+PWD$",
    re.IGNORECASE,
)
"""The beginning of a word of a name whose variable holds a key, a password or an address that may contain one."""
TOKEN_LIMIT_NAME = re.compile(r"(^|_)(MAX|MIN|NUM)_?([A-Z]+_)*TOKENS$", re.IGNORECASE)
"""Names of limits for models, as MAX_OUTPUT_TOKENS: tokens that are counted and open nothing."""
HARMLESS_NAMES = frozenset({"SSH_AUTH_SOCK", "XAUTHORITY", "GPG_AGENT_INFO"})
"""Names that match and hold no secret: editors and pagers may need them."""


def is_secret(name: str) -> bool:
    """Return True if a variable of this name holds a secret, as far as its name tells."""
    if name in HARMLESS_NAMES or TOKEN_LIMIT_NAME.search(name):
        return False
    starts = (0, *(found.end() for found in re.finditer("_", name)))
    return any(SECRET_WORD.match(name, start) for start in starts)


def without_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that hold no secrets; a program of the user's own choosing needs no more."""
    return {name: value for name, value in environment.items() if not is_secret(name)}
