"""What this machine says of the way to a server: whether a proxy stands in between, and who vouches for servers.

Proxies and certificates are found by the HTTP client itself, from these variables; here they are only named, so that a
sentence about a failure can say which one is to blame.
"""

import os
from pathlib import Path
from urllib.parse import urlsplit

CERTIFICATES = "SSL_CERT_FILE"
KEPT = 8
"""Connections kept open for later requests."""
KEPT_FOR = 60.0
"""Seconds that they are kept: people read an answer before they ask again. The HTTP client's own five would have nearly
every message pay for a new TLS connection; a server that hangs up earlier is noticed."""


def loopback(host: str) -> bool:
    """Whether a server is on this machine, so that a proxy from the environment is not meant for it."""
    return host in ("localhost", "::1", "0.0.0.0") or host.startswith("127.")


def bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def proxy(address: str) -> str:
    """The proxy between here and this address, "host:port (VARIABLE)", without its user and password; "" for none."""
    from urllib.request import proxy_bypass  # seldom needed, and slow to import

    url = urlsplit(address)
    host = url.hostname or ""
    if loopback(host) or proxy_bypass(host):
        return ""
    names = [name for scheme in (url.scheme, "all") for name in (f"{scheme}_proxy", f"{scheme}_proxy".upper())]
    variable = next((name for name in names if os.environ.get(name)), "")
    value = os.environ.get(variable, "")
    try:
        found = urlsplit(value if "://" in value else f"http://{value}")
        port = f":{found.port}" if found.port else ""
    except ValueError:
        return variable and f"in {variable}"
    return f"{bracketed(found.hostname or '')}{port} ({variable})" if variable else ""


def unreadable() -> tuple[str, str]:
    """The file of certificates that the environment names (CERTIFICATES) and why it cannot be read; "" where it can."""
    path = os.environ.get(CERTIFICATES, "")
    try:
        if path:
            with Path(path).open("rb") as file:
                file.read(1)
    except (OSError, ValueError) as error:
        return path, getattr(error, "strerror", "") or "it is no path"
    return "", ""
