"""This module tells the paths that need no question: inside the working directory, not secret, not protected."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from itertools import pairwise

from ikigai.core.record import Record
from ikigai.tools.secret_files import is_below, is_secret, relative_path


class PathScope(Record, frozen=True):
    """Scope of the model's work.

    `root` is the real path of the working directory; `own` the real paths of ikigai's configuration, data and log
    folders; `path` the PATH that commands are run with.
    """

    root: str
    own: tuple[str, ...] = ()
    path: str = ""


_PROTECTED_FOLDERS = re.compile(
    r".*\.git|\.(hg|svn|jj|ikigai|vscode|idea|zed|husky|githooks|devcontainer|circleci|buildkite|claude|codex|cursor"
    r"|gemini|direnv|config|woodpecker|windsurf|roo|clinerules|kiro|continue|mise|emacs\.d|vim|nvim)|autostart"
)
_PROTECTED_PAIRS = (
    *((".github", "workflows"), (".github", "actions"), (".github", "copilot-instructions.md")),
    *((".gitea", "workflows"), (".forgejo", "workflows"), (".local", "bin"), ("node_modules", ".bin")),
    *((".venv", "bin"), (".venv", "scripts"), ("venv", "bin"), ("venv", "scripts")),
    *((".cargo", "config"), (".cargo", "config.toml")),
)
_PROTECTED_NAMES = re.compile(
    r"\.(bashrc|bash_profile|bash_login|bash_logout|bash_aliases|profile|zshrc|zshenv|zprofile|zlogin|zlogout|kshrc|cshrc"
    r"|tcshrc|login|logout|mkshrc|xprofile|xinitrc|xsession|xsessionrc|inputrc|pam_environment|vimrc|exrc|nvimrc|emacs"
    r"|gdbinit|lldbinit|pythonrc|psqlrc|sqliterc|irbrc|tmux\.conf|screenrc|ripgreprc|curlrc|wgetrc|gemrc)"
    r"|\.gitconfig|\.gitmodules|\.gitattributes|\.envrc|\.mcp\.json|\.pre-commit-config\.ya?ml|lefthook\.ya?ml"
    r"|\.gitlab-ci\.yml|jenkinsfile|azure-pipelines\.yml|\.travis\.yml|\.drone\.ya?ml|\.woodpecker\.ya?ml"
    r"|bitbucket-pipelines\.yml|\.?appveyor\.yml|cloudbuild\.ya?ml|crontab"
    r"|agents?\.md|claude\.md|gemini\.md|\.cursorrules|\.windsurfrules|\.clinerules|\.roorules|\.aider\.conf\.yml"
    # Loaded by interpreters, editors and package managers by themselves.
    r"|.*\.pth|pyvenv\.cfg|(site|user)customize\.py|\.pdbrc(\.py)?|\.rprofile|\.nvim\.lua|\.nvimrc|\.lvimrc"
    r"|\.dir-locals(-2)?\.el|\.?mise(\..+)?\.toml|\.pnpmfile\.cjs|\.pnp\.(cjs|loader\.mjs)",
    re.IGNORECASE,
)


def overlaps(folders: Iterable[str], path: str) -> bool:
    """Return True if `path` is one of `folders`, lies in one or holds one."""
    return any(is_below(folder, path) or is_below(path, folder) for folder in folders)


def resolve_name(root: str, folder: str, name: str) -> str | None:
    """Return the real path of `name` in `folder`, None if it leaves `root`, as written or through a link."""
    written = os.path.normpath(os.path.join(folder, name))  # noqa: PTH118  (Path drops parts that have to be judged)
    try:
        real = os.path.realpath(os.path.join(folder, name))  # noqa: PTH118
    except (OSError, ValueError):
        return None
    return real if is_below(root, written) and is_below(root, real) else None


def protection_reason(scope: PathScope, path: str) -> str:
    """Return why a file is never changed without a question, as a clause; "" for an ordinary one."""
    if any(is_below(folder, path) for folder in scope.own):
        return "it belongs to ikigai itself"
    parts = relative_path(scope.root, path).lower().split("/")
    name = path.rpartition("/")[2]
    for part in parts:
        if _PROTECTED_FOLDERS.fullmatch(part):
            return f"other programs read {part} and may run its contents"
    if name == "HEAD" or (name == "config" and os.path.lexists(f"{path.rpartition('/')[0]}/HEAD")):
        return "git treats a folder with HEAD as a repository, and its config can name programs to run"
    if any(pair in _PROTECTED_PAIRS for pair in pairwise(parts)):
        return "other programs run the files in its folder"
    if _PROTECTED_NAMES.fullmatch(name):
        return f"other programs read {name} and may run its contents"
    if is_secret(scope.root, path):
        return "its name suggests keys or passwords"
    if any(is_below(os.path.realpath(entry), path) for entry in scope.path.split(":") if entry.startswith("/")):
        return "its folder is in PATH"
    return ""


def expand_wildcards(folder: str, pattern: str, max_files: int) -> Iterator[str]:
    """Yield the names that * and ? of `pattern` may stand for in `folder`, as the command would get them.

    ? counts as *, so that they are never fewer than in the shell. Raise LookupError for more than `max_files` scanned
    files, and for a pattern that begins a name with a dot before a wildcard, which finds `..` in old shells.
    """
    scanned = 0
    names = [""]
    for part in re.split("(/+)", pattern):
        if not part or part[0] == "/" or not re.search("[*?]", part):
            names = [name + part for name in names]
            continue
        if part[0] == ".":
            raise LookupError(pattern)
        pattern_of_part = re.compile("".join(".*" if sign in "*?" else re.escape(sign) for sign in part), re.DOTALL)
        longer: list[str] = []
        for name in names:
            for entry in _entries(os.path.join(folder, name or ".")):  # noqa: PTH118
                scanned += 1
                if scanned > max_files:
                    raise LookupError(pattern)
                if not entry.startswith(".") and pattern_of_part.fullmatch(entry):
                    longer.append(name + entry)
        names = longer
    yield from names


def _entries(folder: str) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208
    except (OSError, ValueError):
        return []
