"""Check programs, ikigai's own files, versions, and the configuration."""

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
from ikigai.core.errors import IkigaiError
from ikigai.store.search import word_vectors
from ikigai.system import paths
from ikigai.system.install_command import extra_command
from ikigai.tools.files.search import ripgrep
from ikigai.tools.shell.sandbox import find_bwrap

LIBRARIES = ("prompt_toolkit", "rich", "psycopg", "msgspec", "httpx", "anthropic", "openai", "google-genai", "pillow")
CLUSTER_PREFIX = "postgres-"
"""Beginning of the name of the embedded server's folder; PostgreSQL checks its content."""
SANDBOX_REMEDY = "Install bubblewrap, or ikigai with the extra `sandbox`."
MAX_FILES, MAX_SHOWN = 20_000, 3


def check_machine() -> list[Finding]:
    return [*_versions(), _word_vectors(), *_programs(), _files()]


def check_configuration(config: Config) -> list[Finding]:
    """Return findings about the configuration file, and about what it requires of this machine."""
    settings = config.settings.values()
    places = {each.place.rpartition(":")[0] for each in settings if each.kind == "configuration"}
    text = f"{', '.join(sorted(places))} is valid" if places else "none: every key has its default"
    findings = [Finding("configuration", OK, text)]
    if config.unknown_variables:
        findings.append(Finding("variables", WARN, " ".join(config.unknown_variables), "Unset or correct them."))
    if config.tools.sandbox == "bwrap":
        if find_bwrap(os.environ.get("PATH")):
            findings.append(Finding("sandbox", OK, "bwrap is required, and installed"))
        else:
            remedy = f'{SANDBOX_REMEDY} Or set sandbox = "off" under [tools].'
            findings.append(Finding("sandbox", BAD, "bwrap is required, and not installed: no command can run", remedy))
    return findings


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


def _word_vectors() -> Finding:
    """Return the finding about the extra by which recall compares meanings."""
    try:
        vectors = word_vectors.load_installed()
    except IkigaiError as error:
        return Finding("recall", WARN, f"{error.what} It ranks by words alone.", error.remedy)
    if vectors is None:
        return Finding("recall", OK, f"ranks by words alone; by meaning, too, with: {extra_command('semantic')}")
    return Finding("recall", OK, f"ranks by words and meaning, wordllama {_version('wordllama')}")


# ── programs ──


def _programs() -> Iterator[Finding]:
    from ikigai.terminal import editor, pager

    try:
        yield Finding("rg", OK, f"{ripgrep.program()}: files can be searched")
    except OSError:
        yield Finding("rg", BAD, "not installed: grep, glob and @ find nothing", ripgrep.remedy())
    found = find_bwrap(os.environ.get("PATH"))
    yield _program("bwrap", "sandbox available", 'no sandbox ("bwrap" under [tools])', SANDBOX_REMEDY, found)
    yield _program("git", "found", "repositories cannot be inspected", "")
    yield _chosen_program("editor", "VISUAL or EDITOR", editor.editor_command)
    yield _chosen_program("pager", "PAGER", pager.pager_command)


def _program(name: str, good: str, missing: str, remedy: str, found: str | None = None) -> Finding:
    """Return the finding about an optional program, which is searched in PATH unless `found` is its path."""
    if found := shutil.which(name) if found is None else found:
        return Finding(name, OK, f"{found}: {good}")
    return Finding(name, OK, f"not installed: {missing}", remedy)


def _chosen_program(about: str, variables: str, command: Callable[[], list[str]]) -> Finding:
    """Return the finding about a program that the user chooses by variables."""
    try:
        words = command()
    except IkigaiError as error:
        return Finding(about, WARN, error.what, error.remedy)
    if words and shutil.which(words[0]):
        return Finding(about, OK, " ".join(words))
    return Finding(about, WARN, f"{' '.join(words)} is not installed", f"Set {variables} to an installed program.")


# ── files ──


def _files() -> Finding:
    """Return the finding about the owners and permissions of ikigai's own files."""
    exposed: list[Path] = []
    foreign: list[Path] = []
    for path in _own_files():
        try:
            status = path.lstat()
        except OSError:
            continue
        if stat.S_ISLNK(status.st_mode):
            continue
        if status.st_uid not in (os.geteuid(), *_server_owner(path)):
            foreign.append(path)
        elif status.st_mode & 0o077:
            exposed.append(path)
    if foreign:
        text = f"{_name_some(foreign)} {'belongs' if len(foreign) == 1 else 'belong'} to another user"
        return Finding("files", BAD, text, f"Run: chown {os.geteuid()} {_quoted(foreign)}")
    if exposed:
        state = BAD if any(map(_exposes_secret, exposed)) else WARN
        return Finding(
            "files", state, f"readable by others: {_name_some(exposed)}", f"Run: chmod go-rwx {_quoted(exposed)}"
        )
    existing = [str(folder) for folder in paths.own_folders() if folder.exists()]
    return Finding("files", OK, f"private: {', '.join(existing) or 'none yet'}")


def _exposes_secret(path: Path) -> bool:
    """Return True if the permissions of `path` expose a secret.

    Other users cannot reach the files of a private folder, and settings are no secret.
    """
    top = next(folder for folder in paths.own_folders() if path.is_relative_to(folder))
    secret = top != paths.config_dir() or path.name == paths.keys_file().name
    return secret and bool(top.stat().st_mode & 0o011)


def _own_files() -> Iterator[Path]:
    """Yield ikigai's folders and their content, except the content of the embedded server's."""
    seen = 0
    for top in paths.own_folders():
        if not top.is_dir():
            continue
        yield top
        for folder, folders, files in os.walk(top):
            within = [Path(folder, name) for name in (*folders, *files)]
            folders[:] = [name for name in folders if not name.startswith(CLUSTER_PREFIX)]
            yield from within
            if (seen := seen + len(within)) > MAX_FILES:
                return


def _server_owner(path: Path) -> list[int]:
    """Return the user ids that may own `path` besides: the account that runs root's embedded server."""
    return [path.parent.stat().st_uid] if path.name.startswith(CLUSTER_PREFIX) else []


def _name_some(files: list[Path]) -> str:
    more = f" and {len(files) - MAX_SHOWN} more" if len(files) > MAX_SHOWN else ""
    return ", ".join(map(str, files[:MAX_SHOWN])) + more


def _quoted(files: list[Path]) -> str:
    return " ".join(shlex.quote(str(path)) for path in files[:MAX_SHOWN])
