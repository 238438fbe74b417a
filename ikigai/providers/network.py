"""This module names the proxy and the certificates on the way to a server.

The HTTP client finds them itself, from the environment's variables. Here they are named so that an error message can
say which one is to blame.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import ssl

CERTIFICATES_VARIABLE = "SSL_CERT_FILE"
MAX_KEPT_CONNECTIONS = 8
"""Connections kept open for later requests."""
KEEP_ALIVE_SECONDS = 60.0
"""Seconds that they are kept: people read an answer before they ask again. With the HTTP client's own five seconds
nearly every message would pay for a new TLS connection. An earlier end by the server is noticed.
"""
UNUSED_CONNECTION_SECONDS = 4.0
"""Seconds that an unused connection waits for its first request if connections are not kept: many servers (llama.cpp's,
say) give a client five seconds to speak.
"""


def is_loopback(host: str) -> bool:
    """Return True if a server is on this machine, so that a proxy from the environment is not meant for it."""
    return host in ("localhost", "::1", "0.0.0.0") or host.startswith("127.")


def is_local_address(address: str) -> bool:
    """Return True if an address is one of this machine."""
    try:
        return is_loopback(urlsplit(address).hostname or "")
    except ValueError:
        return False


def keeps_connections(base_url: str) -> bool:
    """Return False for servers without TLS or on this machine.

    A new connection costs little there, and llama.cpp closes one after its second answer, sometimes just when the next
    request is on its way.
    """
    url = urlsplit(base_url)
    return url.scheme == "https" and not is_loopback(url.hostname or "")


def tls_context(base_url: str) -> ssl.SSLContext:
    """Return the certificates that a client of this address trusts: those of the machine, or of the variables.

    An address without TLS gets none, and so no TLS at all: to read them takes 35 ms of the processor.
    """
    if urlsplit(base_url).scheme != "https":
        import ssl

        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    import httpx2

    return httpx2.create_ssl_context()


def bracket_ipv6(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def proxy_for(address: str) -> str:
    """Return the proxy between here and this address, "host:port (VARIABLE)", without its user and password; "" for
    none.
    """
    from urllib.request import proxy_bypass  # seldom needed, and slow to import

    url = urlsplit(address)
    host = url.hostname or ""
    if is_loopback(host) or proxy_bypass(host):
        return ""
    names = [name for scheme in (url.scheme, "all") for name in (f"{scheme}_proxy", f"{scheme}_proxy".upper())]
    variable = next((name for name in names if os.environ.get(name)), "")
    value = os.environ.get(variable, "")
    try:
        proxy = urlsplit(value if "://" in value else f"http://{value}")
        port = f":{proxy.port}" if proxy.port else ""
    except ValueError:
        return variable and f"in {variable}"
    return f"{bracket_ipv6(proxy.hostname or '')}{port} ({variable})" if variable else ""


def unreadable_certificates() -> tuple[str, str]:
    """Return the file of certificates that the environment names (CERTIFICATES_VARIABLE) and why it cannot be read; ""
    twice if it can.
    """
    path = os.environ.get(CERTIFICATES_VARIABLE, "")
    try:
        if path:
            with Path(path).open("rb") as file:
                file.read(1)
    except (OSError, ValueError) as error:
        return path, getattr(error, "strerror", "") or "it is not a path"
    return "", ""
