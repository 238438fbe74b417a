"""Find the proxy on the way to a server, as the environment or the system names it.

The HTTP clients would find it themselves, but refuse to be made where any variable has a proxy that they cannot use,
also one that is not on their way.
"""

import importlib.util
import os
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from ikigai.core.errors import ConfigError
from ikigai.system.install_command import extra_command

SOCKS_SCHEMES = ("socks5", "socks5h")
"""Schemes of proxies that need the package socksio."""
SCHEMES = ("http", "https", *SOCKS_SCHEMES)


class Proxy(NamedTuple):
    """A proxy, "" for none, and the environment variable that names it, "" for the system's settings."""

    url: str = ""
    variable: str = ""

    @property
    def place(self) -> str:
        """The words for where the proxy is named."""
        return self.variable or "the settings of the system"


def is_loopback(host: str) -> bool:
    """Return True if a server is on this machine, so that a proxy from the environment is not meant for it."""
    return host in ("localhost", "::1", "0.0.0.0") or (host.startswith("127.") and host.replace(".", "").isdecimal())


def find_proxy(address: str) -> Proxy:
    """Return the proxy for requests to this address."""
    from urllib.request import getproxies, proxy_bypass  # slow to import; the HTTP clients have done it

    url = urlsplit(address)
    host = url.hostname or ""
    if is_loopback(host) or proxy_bypass(host) or _is_excluded(host):
        return Proxy()
    proxies = getproxies()
    scheme = next((each for each in (url.scheme, "all") if proxies.get(each)), "")
    if not scheme:
        return Proxy()
    names = (f"{scheme}_proxy", f"{scheme}_proxy".upper())
    variable = next((name for name in names if os.environ.get(name) == proxies[scheme]), "")
    proxy = proxies[scheme].strip()
    return Proxy(proxy if "://" in proxy else f"http://{proxy}", variable)


def _is_excluded(host: str) -> bool:
    """Return True for a host that NO_PROXY names in a form that curl knows and Python does not: *.DOMAIN, a network."""
    import ipaddress  # few environments name networks

    for entry in (os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or "").lower().split(","):
        entry = entry.strip()
        if entry.startswith("*.") and host.endswith(entry[1:]):
            return True
        if "/" in entry:
            try:
                if ipaddress.ip_address(host) in ipaddress.ip_network(entry, strict=False):
                    return True
            except ValueError:
                continue
    return False


def client_options(address: str) -> dict[str, Any]:
    """Return the options of an HTTP client, of httpx or httpx2, for requests to this address: its proxy or none.

    Raise ConfigError for a proxy that cannot be used.
    """
    proxy = find_proxy(address)
    if proxy.url and (why := _reason_unusable(proxy.url)):
        host = urlsplit(address).hostname or ""
        without = f"Correct or unset {proxy.variable}" if proxy.variable else "Correct it there"
        install = f"Install it with: {extra_command('socks')}. Or set" if "socksio" in why else f"{without}, or set"
        raise ConfigError(
            f"The proxy in {proxy.place} cannot be used: {why}.",
            f"{install} NO_PROXY={host} to reach {host} without a proxy.",
        )
    return {"trust_env": False, "proxy": proxy.url or None}


def _reason_unusable(proxy: str) -> str:
    """Return why a proxy cannot be used, as the second half of a sentence without its password; "" if it can."""
    try:
        url = urlsplit(proxy)
        _, host = url.port, url.hostname
        if not proxy.isprintable() or " " in proxy:
            raise ValueError
        if "[" in url.netloc or (host or "").replace(".", "").isdecimal():
            import ipaddress

            ipaddress.ip_address(host or "")
    except ValueError:
        return "its address is not a URL"
    if url.scheme not in SCHEMES:
        return f"{url.scheme}:// is not a scheme of proxies for web servers; these are {', '.join(SCHEMES)}"
    if not host:
        return "its address has no host"
    if url.scheme in SOCKS_SCHEMES and importlib.util.find_spec("socksio") is None:
        return "a SOCKS proxy needs the package socksio, which is not installed"
    return ""
