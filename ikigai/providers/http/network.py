"""Set up the way to a server: its address, connections, certificates and proxy.

The HTTP client finds certificates itself, from the environment's variables. Here they are named so that an error
message can say which one is to blame.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ikigai.core.errors import ConfigError
from ikigai.providers.http.answer_limits import ACCEPTED_ENCODINGS
from ikigai.system import proxies
from ikigai.system.proxies import find_proxy, is_loopback

if TYPE_CHECKING:
    import ssl

CERTIFICATES_VARIABLE = "SSL_CERT_FILE"
CONNECT_TIMEOUT = 10.0
"""Seconds for a connection to open."""
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
    """Return the certificates that a client of this address trusts: the machine's, or the variables'.

    An address without TLS gets none, and so no TLS at all: to read them takes 35 ms of the processor.
    """
    if urlsplit(base_url).scheme != "https":
        import ssl

        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    import httpx2

    return httpx2.create_ssl_context()


def client_options(base_url: str) -> dict[str, Any]:
    """Return the options of an httpx2 client of this address, whose module is loaded by then. Raise ConfigError for a
    proxy that cannot be used.
    """
    import httpx2

    keeps = keeps_connections(base_url)
    kept_for = KEEP_ALIVE_SECONDS if keeps else UNUSED_CONNECTION_SECONDS
    return {
        "verify": tls_context(base_url),
        "timeout": httpx2.Timeout(None, connect=CONNECT_TIMEOUT),
        **proxies.client_options(base_url),
        "limits": httpx2.Limits(max_keepalive_connections=MAX_KEPT_CONNECTIONS, keepalive_expiry=kept_for),
        "headers": {"Accept-Encoding": ACCEPTED_ENCODINGS} | ({} if keeps else {"Connection": "close"}),
        "follow_redirects": False,  # neither key nor conversation goes to another address
    }


def bracket_ipv6(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def check_address(name: str, base_url: str) -> tuple[str, str]:
    """Return the host, and the address fit for display (without user and password)."""
    remedy = "Write the complete address, such as http://localhost:8080/v1."
    try:
        url = urlsplit(base_url)
        host, port = url.hostname or "", url.port
    except ValueError:
        raise ConfigError(f"The address of {name} is not a URL.", remedy) from None
    if url.scheme not in ("http", "https") or not host or not base_url.isprintable() or " " in base_url:
        raise ConfigError(f"The address of {name} does not begin with http:// or https:// and a host.", remedy)
    if url.fragment:
        raise ConfigError(f"The address of {name} has a fragment after its path.", remedy)
    return host, f"{url.scheme}://{bracket_ipv6(host)}{f':{port}' if port else ''}{url.path}"


def proxy_for(address: str) -> str:
    """Return the proxy between here and this address, "host:port (VARIABLE)", without its user and password; "" for
    none.
    """
    proxy = find_proxy(address)
    try:
        url = urlsplit(proxy.url)
        port = f":{url.port}" if url.port else ""
    except ValueError:
        return f"in {proxy.place}"
    return f"{bracket_ipv6(url.hostname or '')}{port} ({proxy.place})" if proxy.url else ""


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
