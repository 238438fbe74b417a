"""Tell addresses on the public internet from addresses of this machine, its network, or reserved ones."""

from __future__ import annotations

import asyncio
import ipaddress
import socket

_NAT64 = ipaddress.ip_network("64:ff9b::/96")
"""IPv6 for a public IPv4 address, in networks without IPv4 (RFC 6052)."""
_TUNNELS = tuple(map(ipaddress.ip_network, ("2002::/16", "2001::/32", "64:ff9b:1::/48", "fec0::/10")))
"""6to4 and Teredo, which wrap any IPv4 address; local NAT64 (RFC 8215); site-local."""
_MORE = tuple(map(ipaddress.ip_network, ("0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "198.18.0.0/15", "240.0.0.0/4")))
"""Not public in every version of Python's tables: this network, carrier-grade NAT, IETF's, benchmarks, reserved."""


def is_public(address: str) -> bool:
    """Return True if this IP address can belong to a server on the internet; False also for an invalid address."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.ipv4_mapped:
            return is_public(str(ip.ipv4_mapped))
        if ip in _NAT64:
            return is_public(str(ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)))
        if any(ip in network for network in _TUNNELS):
            return False
    elif any(ip in network for network in _MORE):
        return False
    return ip.is_global and not (ip.is_multicast or ip.is_reserved or ip.is_unspecified)


def describe_private(host: str) -> str:
    """Return whose address this host is, if its name alone says that it is not public; else ""."""
    name = host.lower().rstrip(".")
    if name == "localhost" or name.endswith(".localhost"):
        return "your own machine"
    try:
        ip = ipaddress.ip_address(name)
    except ValueError:
        return ""
    if is_public(name):
        return ""
    ip = (isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped) or ip
    if ip.is_loopback or ip.is_unspecified:
        return "your own machine"
    if ip.is_link_local:
        return "a link-local address, where clouds give out keys"
    return "a private address" if ip.is_private else "a reserved address"


async def resolve_host(host: str, port: int) -> tuple[str, ...]:
    """Return the addresses of a host, in the order in which to try them. Raise OSError if it has none."""
    entries = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(each[4][0]) for each in entries))
