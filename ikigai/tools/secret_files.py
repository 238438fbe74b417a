"""Which files look by their names like ones that hold keys or passwords: they are not read without a question."""

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


def inside(folder: str, path: str) -> bool:
    """Return True if `path` is `folder` or lies below it; both absolute and normalised, nothing is resolved."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def below(root: str, path: str) -> str:
    """Return `path` as seen from `root`, or whole when it lies elsewhere.

    A project in ~/.config/x is thereby no configuration.
    """
    return path[len(root.rstrip("/")) + 1 :] if inside(root, path) else path


def secret(root: str, path: str) -> bool:
    """Return True if a file's name, or that of a folder above it, looks like one that holds keys or passwords."""
    parts = below(root, path).lower().split("/")
    return (
        _SECRET_NAMES.fullmatch(parts[-1]) is not None
        or any(_SECRET_FOLDERS.fullmatch(part) for part in parts)
        or any(pair in _SECRET_PAIRS for pair in pairwise(parts))
    )
