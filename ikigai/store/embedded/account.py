"""Choose the account of the embedded server: PostgreSQL refuses root, so root uses a system account."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ikigai.core.errors import BadDatabase

if TYPE_CHECKING:
    import pwd

ACCOUNT_NAME = "ikigai"
SYSTEM_DIR = Path("/var/lib/ikigai")
"""The folder of all files when root runs ikigai: the server's account cannot enter root's home."""
OWN_SERVER = "set IKIGAI_DATABASE_URL to a server of your own."


class Account(NamedTuple):
    """The account of the server's processes; uid and gid are -1 for the account of this process."""

    uid: int = -1
    gid: int = -1

    def own(self, folder: Path) -> None:
        """Make the account the owner of a folder that this process has just made."""
        if self.uid >= 0:
            os.chown(folder, self.uid, self.gid, follow_symlinks=False)

    def admit(self, folder: Path) -> None:
        """Let this process use a folder and the account pass through it, and exclude all others."""
        if self.uid >= 0:
            os.chown(folder, 0, self.gid)
        folder.chmod(0o710 if self.uid >= 0 else 0o700)

    def run(self, command: list[str], fds: tuple[int, ...] = (), text: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command of PostgreSQL as this account with `text` as its input; `fds` stay open in it."""
        identity = {"user": self.uid, "group": self.gid, "extra_groups": []} if self.uid >= 0 else {}
        return subprocess.run(
            command, input=text, capture_output=True, text=True, errors="replace", cwd="/", umask=0o077,
            env=server_environment(), pass_fds=fds, **identity,
        )  # fmt: skip


def refuse_unnamed(account: Account) -> None:
    """Raise BadDatabase if initdb could not make a cluster as this account: its user id has no name on this system."""
    import pwd

    uid = os.geteuid() if account.uid < 0 else account.uid
    try:
        pwd.getpwuid(uid)
    except KeyError:
        raise BadDatabase(
            f"PostgreSQL cannot create its database for the user id {uid}, which has no entry in /etc/passwd.",
            f"Add one (as root: `useradd --uid {uid} NAME`), use ikigai as another user, or {OWN_SERVER}",
        ) from None


def server_environment() -> dict[str, str]:
    """Return the environment of the server, without the user's keys and PG* variables."""
    passed = {name: os.environ[name] for name in ("PATH", "TZ", "LD_LIBRARY_PATH") if name in os.environ}
    return passed | {"LC_ALL": "C"}


def server_account() -> Account:
    """Return the account that runs the server: this process's own, or for root the system user `ikigai`, made if
    missing.

    Raise BadDatabase if root has no such account and cannot make it, or if it is a person's.
    """
    if os.geteuid() != 0:
        return Account()
    nologin = shutil.which("nologin", path="/usr/sbin:/sbin") or "/bin/false"
    failure = "" if _entry() else _make(nologin)
    entry = _entry()
    if entry is None:
        raise BadDatabase(
            f"PostgreSQL does not run as root, and the account {ACCOUNT_NAME} could not be created for it ({failure}).",
            f"Run `useradd --system --shell {nologin} {ACCOUNT_NAME}`, use ikigai as an ordinary user, or {OWN_SERVER}",
        )
    if entry.pw_uid == 0 or not entry.pw_shell.endswith(("/nologin", "/false")):
        raise BadDatabase(
            f"The account {ACCOUNT_NAME} can log in, so root's database cannot run as that account.",
            f"If no user needs it, run `usermod --shell {nologin} {ACCOUNT_NAME}`; else use "
            "ikigai as an ordinary user, "
            f"or {OWN_SERVER}",
        )
    return Account(entry.pw_uid, entry.pw_gid)


def _entry() -> pwd.struct_passwd | None:
    import pwd

    try:
        return pwd.getpwnam(ACCOUNT_NAME)
    except KeyError:
        return None


def _make(shell: str) -> str:
    """Make the account; return why it failed, "" on success."""
    useradd = shutil.which("useradd", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin") or "useradd"
    options = ["--system", "--user-group", "--no-create-home", "--home-dir", str(SYSTEM_DIR), "--shell", shell]
    try:
        command = [useradd, *options, ACCOUNT_NAME]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", env=server_environment())
    except OSError as error:
        return f"{useradd}: {error.strerror}"
    return done.stderr.strip()
