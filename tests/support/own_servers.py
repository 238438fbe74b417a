"""PostgreSQL servers that tests start: the account that runs them, its programs, and ports that nobody else takes."""

import itertools
import os
from functools import cache
from ipaddress import IPv4Address
from pathlib import Path
from typing import TypedDict

from ikigai.store.embedded.account import server_account
from ikigai.store.embedded.binaries import server_binaries

HOST = str(IPv4Address((127 << 24) + os.getpid()))
"""The address of the loopback network that belongs to this process: its ports are free whatever other processes do."""
_ports = itertools.count(5433)


class Identity(TypedDict, total=False):
    """Arguments by which `subprocess` runs a program as the account of the servers."""

    user: int
    group: int
    extra_groups: list[int]


def identity() -> Identity:
    account = server_account()
    return {"user": account.uid, "group": account.gid, "extra_groups": []} if account.uid >= 0 else {}


@cache
def programs() -> Path:
    """Return the folder with PostgreSQL's programs, where the account can enter it: a checkout may lie in root's home.

    A copy is locked until this process ends.
    """
    folder, _ = server_binaries(server_account())
    return folder


def new_port() -> int:
    """Return a port of HOST that no server of this process has had."""
    return next(_ports)
