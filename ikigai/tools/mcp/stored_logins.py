"""Keep the logins to MCP servers in one private file, without the SDK."""

from __future__ import annotations

from pathlib import Path

import msgspec

from ikigai.system import paths, private_json

CALLBACK_PORT = 33418
"""Port on which the browser is received; another free one if it is taken."""
CALLBACK_PATH = "/callback"
_DAMAGED = ("the logins of `ikigai mcp login`", "Delete it, and log in again.")


class StoredLogin(msgspec.Struct):
    """The login to one server: JSON of the SDK's records. It holds for this `url` alone. `redirect` is the address for
    which the client is registered. `expires` is in seconds since 1970, 0 for unknown.
    """

    url: str
    tokens: str = ""
    client: str = ""
    redirect: str = f"http://127.0.0.1:{CALLBACK_PORT}{CALLBACK_PATH}"
    metadata: str = ""
    expires: float = 0


def read_login(file: Path, server: str, url: str) -> StoredLogin:
    """Return the login to a server, an empty one without a login for this address. Raise ConfigError."""
    stored = private_json.read(file, StoredLogin, *_DAMAGED).get(server)
    return stored if stored and stored.url == url else StoredLogin(url)


def change_login(file: Path, server: str, url: str, **values: str | float) -> None:
    """Store these fields of the login to a server. Raise IkigaiError."""
    paths.make_private(file.parent)
    with private_json.open_for_change(file, StoredLogin, *_DAMAGED) as kept:
        before = kept.get(server)
        login = before if before and before.url == url else StoredLogin(url)
        kept[server] = msgspec.structs.replace(login, **values)


def forget_login(file: Path, server: str) -> bool:
    """Remove the login to a server; return False if there was none. Raise IkigaiError."""
    if not file.exists():
        return False
    with private_json.open_for_change(file, StoredLogin, *_DAMAGED) as kept:
        return kept.pop(server, None) is not None
