"""What ikigai finds around it: programs, its own files, versions, and the configuration."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import stat
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

from ikigai import __version__
from ikigai.cli.doctor.check import BAD, OK, WARN, Finding
from ikigai.config import Config
from ikigai.config import api_keys as keys
from ikigai.core.errors import IkigaiError
from ikigai.system import paths
from ikigai.tools.shell.sandbox import program as sandbox_program

LIBRARIES = ("prompt_toolkit", "rich", "psycopg", "msgspec", "httpx", "anthropic", "openai", "google-genai", "pillow")
CLUSTER = "postgres-"
"""How the folder of the embedded server begins; PostgreSQL looks after what is in it."""
SANDBOX_REMEDY = "Install bubblewrap, or ikigai with the extra `sandbox`."
MOST_FILES, SHOWN = 20_000, 3


def findings() -> list[Finding]:
    return [*_versions(), *_programs(), _files()]


def configuration(config: Config) -> list[Finding]:
    """The file that was read, and what it asks of this machine."""
    places = {
        setting.place.rpartition(":")[0] for setting in config.settings.values() if setting.kind == "configuration"
    }
    said = f"{', '.join(sorted(places))} is sound" if places else "none: every key stands at its default"
    found = [Finding("configuration", OK, said)]
    if config.tools.sandbox == "bwrap":
        if sandbox_program(os.environ.get("PATH")):
            found.append(Finding("sandbox", OK, "bwrap is asked for, and installed"))
        else:
            remedy = f'{SANDBOX_REMEDY} Or set sandbox = "off" under [tools].'
            found.append(Finding("sandbox", BAD, "bwrap is asked for, and not installed: no command can run", remedy))
    return found


# ── versions ──


def _versions() -> Iterator[Finding]:
    system = f"Python {platform.python_version()}, {platform.system()} {platform.release()}"
    yield Finding("ikigai", OK, f"{__version__}, {system}")
    versions = {name: _version(name) for name in LIBRARIES}
    if missing := [name for name, version in versions.items() if not version]:
        yield Finding("libraries", BAD, f"{', '.join(missing)} not installed", "Install ikigai again.")
    else:
        yield Finding("libraries", OK, ", ".join(f"{name} {version}" for name, version in versions.items()))


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


# ── programs ──


def _programs() -> Iterator[Finding]:
    from ikigai.terminal import editor, pager

    yield _program("rg", "grep and glob are fast", "grep and glob are slower without it", "Install ripgrep.")
    found = sandbox_program(os.environ.get("PATH"))
    yield _program("bwrap", "commands can be shut in", 'no sandbox ("bwrap" under [tools])', SANDBOX_REMEDY, OK, found)
    yield _program("git", "repositories can be looked into", "repositories cannot be looked into", "", OK)
    yield _wanted("editor", "VISUAL or EDITOR", editor.command)
    yield _wanted("pager", "PAGER", pager.command)


def _program(name: str, good: str, missing: str, remedy: str, state: str = WARN, found: str | None = None) -> Finding:
    """Look for a program in PATH, unless `found` says where it is."""
    if found := shutil.which(name) if found is None else found:
        return Finding(name, OK, f"{found}: {good}")
    return Finding(name, state, f"not installed: {missing}", remedy)


def _wanted(about: str, variables: str, command: Callable[[], list[str]]) -> Finding:
    """A program of the user's choice."""
    try:
        words = command()
    except IkigaiError as error:
        return Finding(about, WARN, error.what, error.remedy)
    if words and shutil.which(words[0]):
        return Finding(about, OK, " ".join(words))
    return Finding(about, WARN, f"{' '.join(words)} is not there", f"Set {variables} to a program that is.")


# ── files ──


def _files() -> Finding:
    """Whether ikigai's own files are the user's alone."""
    open_ones: list[Path] = []
    foreign: list[Path] = []
    for path in _own():
        try:
            found = path.lstat()
        except OSError:
            continue
        if stat.S_ISLNK(found.st_mode):
            continue
        if found.st_uid not in (os.geteuid(), *_server(path)):
            foreign.append(path)
        elif found.st_mode & 0o077:
            open_ones.append(path)
    if foreign:
        said = f"{_some(foreign)} {'belongs' if len(foreign) == 1 else 'belong'} to somebody else"
        return Finding("files", BAD, said, f"Run: chown {os.geteuid()} {_quoted(foreign)}")
    if open_ones:
        state = BAD if any(map(_matters, open_ones)) else WARN
        return Finding("files", state, f"open to others: {_some(open_ones)}", f"Run: chmod go-rwx {_quoted(open_ones)}")
    there = [str(folder) for folder in paths.own() if folder.exists()]
    return Finding("files", OK, f"yours alone: {', '.join(there) or 'none yet'}")


def _matters(path: Path) -> bool:
    """Whether others get at something by it: what is in a private folder nobody reaches, and settings are no secret."""
    top = next(folder for folder in paths.own() if path.is_relative_to(folder))
    secret = top != paths.config_dir() or path.name == keys.FILE
    return secret and bool(top.stat().st_mode & 0o011)


def _own() -> Iterator[Path]:
    """ikigai's folders and what is in them, but not what is in the embedded server's."""
    seen = 0
    for top in paths.own():
        if not top.is_dir():
            continue
        yield top
        for folder, folders, files in os.walk(top):
            within = [Path(folder, name) for name in (*folders, *files)]
            folders[:] = [name for name in folders if not name.startswith(CLUSTER)]
            yield from within
            if (seen := seen + len(within)) > MOST_FILES:
                return


def _server(path: Path) -> list[int]:
    """Who else may own it: the account that runs root's embedded server."""
    return [path.parent.stat().st_uid] if path.name.startswith(CLUSTER) else []


def _some(found: list[Path]) -> str:
    more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return ", ".join(map(str, found[:SHOWN])) + more


def _quoted(found: list[Path]) -> str:
    return " ".join(shlex.quote(str(path)) for path in found[:SHOWN])
