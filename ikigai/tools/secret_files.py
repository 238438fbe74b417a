"""This module recognizes by its name a file that may hold keys or passwords: reading one needs approval."""

from __future__ import annotations

import re
from itertools import pairwise

_SECRET_FOLDERS = re.compile(r"\.(ssh|gnupg|aws|azure|kube|docker|oci|password-store|mozilla)")
_SECRET_PAIRS = ((".git", "config"), (".config", "gh"), (".config", "gcloud"))
_SECRET_NAMES = re.compile(
    r"\.env(?!.*\.(example|sample|template|dist)$)([-_.].*|rc)?|.*\.env|\.?netrc|_netrc|\.pgpass|\.my\.cnf|\.npmrc|\.pypirc"
    r"|\.yarnrc\.yml|\.git-credentials|\.htpasswd|\.vault-token|\.dockercfg|\.?secrets?|\.?credentials?"
    r"|\.?(secrets?|credentials?|service[-_]?account.*)\.(json|ya?ml|toml|ini|env|txt|xml|properties)"
    r"|id_(rsa|dsa|ecdsa|ed25519)(_sk)?(?!.*\.pub$).*|.*\.(pem|key|p12|pfx|jks|keystore|kdbx|ppk)"
    r"|.*\.tfstate(\.backup)?|\..*_history|\.lesshst|\.viminfo",
    re.IGNORECASE,
)


def is_below(folder: str, path: str) -> bool:
    """Return True if `path` is `folder` or lies below it; both absolute and normalized, links unresolved."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def relative_path(root: str, path: str) -> str:
    """Return `path` as seen from `root`, or whole when it lies elsewhere.

    So the files of a project in ~/.config/x do not count as configuration.
    """
    return path[len(root.rstrip("/")) + 1 :] if is_below(root, path) else path


def is_secret(root: str, path: str) -> bool:
    """Return True if a file's name, or that of a folder above it, looks like one that holds keys or passwords."""
    parts = relative_path(root, path).lower().split("/")
    return (
        _SECRET_NAMES.fullmatch(parts[-1]) is not None
        or any(_SECRET_FOLDERS.fullmatch(part) for part in parts)
        or any(pair in _SECRET_PAIRS for pair in pairwise(parts))
    )
