"""Which addresses are on the public internet, and which are this machine, its network, or nobody's."""

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


def public(address: str) -> bool:
    """Whether this IP address can be that of a server on the internet; False also for what is no address."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address):
        if found.ipv4_mapped:
            return public(str(found.ipv4_mapped))
        if found in _NAT64:
            return public(str(ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)))
        if any(found in network for network in _TUNNELS):
            return False
    elif any(found in network for network in _MORE):
        return False
    return found.is_global and not (found.is_multicast or found.is_reserved or found.is_unspecified)


async def resolved(host: str, port: int) -> tuple[str, ...]:
    """The addresses of a host, in the order in which they should be tried. OSError when it has none."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(each[4][0]) for each in found))
