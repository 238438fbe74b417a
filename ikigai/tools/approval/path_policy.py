"""Tell which paths need no question: inside the working directory, not secret, not protected."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

from ikigai.core.events.record import Record
from ikigai.tools.secret_files import compile_group, find_in_path, is_below, is_secret, read_groups, relative_path


class PathScope(Record, frozen=True):
    """Scope of the model's work.

    `root` is the real path of the working directory; `own` the real paths of ikigai's configuration, data and log
    folders; `path` the PATH that commands are run with. `readable` returns the real paths of folders elsewhere that the
    user has given models to read, as those with skills; nothing in them is changed without a question.
    """

    root: str
    own: tuple[str, ...] = ()
    path: str = ""
    readable: Callable[[], Iterable[str]] = tuple

    def is_readable(self, path: str) -> bool:
        """Return True if the path lies in a folder of `readable`, and is no file of ikigai's around that folder."""
        is_own = overlaps(self.own, path)
        within = (folder for folder in self.readable() if is_below(folder, path))
        return any(not is_own or any(own != folder and is_below(own, folder) for own in self.own) for folder in within)


PROTECTED_NAMES = Path(__file__).parent / "protected_names.toml"


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


def reading_doubts(scope: PathScope, path: str, given: str = "") -> tuple[str, ...]:
    """Return why the file at this real path is not read without a question, each as "is …"; () for an ordinary one.

    `given` is the absolute path that the user wrote: a file that is named as one outside needs no question for that.
    """
    is_secret_name = is_secret(scope.root, path) or (given and is_secret(scope.root, given))
    is_outside, is_own = not is_below(scope.root, path), overlaps(scope.own, path)
    is_free = (is_outside or is_own) and scope.is_readable(path)
    doubts = (
        (is_outside and is_below(scope.root, given or scope.root) and not is_free, "is outside the working directory"),
        (is_own and not is_free, "is, or contains, a file of ikigai itself"),
        (is_secret_name, "looks like a file with keys or passwords"),
    )
    return tuple(why for is_doubtful, why in doubts if is_doubtful)


def protection_reason(scope: PathScope, path: str) -> str:
    """Return why a file is never changed without a question, as a clause; "" for an ordinary one."""
    if any(is_below(folder, path) for folder in scope.own):
        return "it belongs to ikigai itself"
    if scope.is_readable(path):
        return "it belongs to a skill or to a plugin"
    relative = relative_path(scope.root, path)
    folded = relative.casefold()
    for program, names in _protected_names():
        if found := names.search(folded):
            name = relative[found.start() : found.end()] if len(folded) == len(relative) else found[0]
            return f"{program} may run or obey {name.strip('/')}"
    name = path.rpartition("/")[2]
    if name == "HEAD" or (name == "config" and os.path.lexists(f"{path.rpartition('/')[0]}/HEAD")):
        return "git treats a folder with HEAD as a repository, and its config can name programs to run"
    if is_secret(scope.root, path):
        return "its name suggests keys or passwords"
    if any(is_below(os.path.realpath(entry), path) for entry in scope.path.split(":") if entry.startswith("/")):
        return "its folder is in PATH"
    if any(part.startswith("-") for part in relative.split("/")):  # of the allow-list's wildcards too
        return "where a wildcard stands for its name, programs take it for an option"
    with contextlib.suppress(OSError, ValueError):
        if (names := os.lstat(path).st_nlink) > 1 and not os.path.isdir(path):  # noqa: PTH112
            return f"it has {names} names (hard links), and an edit changes what all of them show"
    return ""


@cache
def _protected_names() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """Return the programs with their patterns."""
    groups = read_groups(PROTECTED_NAMES)
    return tuple((group.program, find_in_path(compile_group(group))) for group in groups)


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
