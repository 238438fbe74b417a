"""Ask the package index once a day if there is a newer version of the installed distribution."""

from __future__ import annotations

import logging
import os
import time
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import httpx
import msgspec
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import InvalidSdistFilename, InvalidWheelFilename, parse_sdist_filename, parse_wheel_filename
from packaging.version import Version

import ikigai
from ikigai.core.errors import IkigaiError
from ikigai.system import paths, private_json
from ikigai.system.install_command import DISTRIBUTION, install_command
from ikigai.system.proxies import client_options

DEFAULT_INDEX = "https://pypi.org/simple"
"""The index that pip asks by default; PIP_INDEX_URL names another one, for pip and for ikigai."""
SIMPLE_JSON = "application/vnd.pypi.simple.v1+json"
INDEX_TIMEOUT = 5.0
"""Seconds that the index has to answer."""
CHECK_INTERVAL = 24 * 3600
"""Seconds between two checks."""
MAX_ANSWER_BYTES = 4_000_000

log = logging.getLogger(__name__)


class _IndexFile(msgspec.Struct, rename="kebab"):
    """A file of the index; `yanked` may be the reason why it was withdrawn."""

    filename: str
    requires_python: str | None = None
    yanked: bool | str = False


class _IndexPage(msgspec.Struct):
    files: list[_IndexFile]


def index_address() -> str:
    """Return the address of the index: pip's by its variable, else the public one."""
    return os.environ.get("PIP_INDEX_URL", "").strip() or DEFAULT_INDEX


def installed_distribution() -> Distribution | None:
    """Return the distribution that runs; None for a checkout and for one that did not come from an index."""
    try:
        found = distribution(DISTRIBUTION)
    except PackageNotFoundError:
        return None
    module = Path(ikigai.__file__)
    is_running = Path(str(found.locate_file("ikigai/__init__.py"))).resolve() == module.resolve()
    return None if found.read_text("direct_url.json") or not is_running else found


async def find_update(found: Distribution | None, file: Path | None = None, index: str = "") -> str:
    """Return the notice about a newer version; "" for none, and when there was a check today. Errors are logged.

    `index` is the address of the index; "" for the result of `index_address`.
    """
    if found is None:
        return ""
    try:
        if not _begin_check(file or paths.state_dir() / "update.json", time.time()):
            return ""
        newest = await _newest_version(f"{(index or index_address()).rstrip('/')}/{DISTRIBUTION}/", found.version)
    except Exception as error:  # no failure of a mere notice may reach the user
        log.warning("no check for a newer version: %s", type(error).__name__, exc_info=not _is_expected(error))
        return ""
    if newest is None or newest <= Version(found.version):
        return ""
    command = install_command(f"{DISTRIBUTION}=={newest}")
    return f"ikigai {newest} is available; this is {found.version}. To update: {command}"


def _is_expected(error: Exception) -> bool:
    return isinstance(error, httpx.HTTPError | httpx.InvalidURL | IkigaiError | msgspec.MsgspecError)


def _begin_check(file: Path, now: float) -> bool:
    """Note a check at `now` in seconds since 1970; return False if the last one was less than a day ago."""
    with private_json.open_for_change(file, float, "the time of the last check", "Remove it.") as kept:
        if 0 <= now - kept.get("checked", 0.0) < CHECK_INTERVAL:
            return False
        kept["checked"] = now
    return True


async def _newest_version(address: str, running: str) -> Version | None:
    """Return the newest version that the index offers for this Python; None for none.

    Pre-releases count only if the running version is one. Raise HTTPError, DecodeError and ConfigError.
    """
    async with (
        httpx.AsyncClient(timeout=INDEX_TIMEOUT, follow_redirects=True, **client_options(address)) as client,
        client.stream("GET", address, headers={"Accept": SIMPLE_JSON}) as response,
    ):
        response.raise_for_status()
        content = b""
        async for part in response.aiter_bytes():
            content += part
            if len(content) > MAX_ANSWER_BYTES:
                raise httpx.DecodingError("the answer is too long")
    listing = msgspec.json.decode(content, type=_IndexPage)
    versions = (_version_of(each) for each in listing.files if not each.yanked and _fits_python(each))
    pre = Version(running).is_prerelease
    return max((each for each in versions if each and (pre or not each.is_prerelease)), default=None)


def _fits_python(file: _IndexFile) -> bool:
    import platform

    try:
        return SpecifierSet(file.requires_python or "").contains(platform.python_version(), prereleases=True)
    except InvalidSpecifier:
        return False


def _version_of(file: _IndexFile) -> Version | None:
    try:
        if file.filename.endswith(".whl"):
            return parse_wheel_filename(file.filename)[1]
        return parse_sdist_filename(file.filename)[1]
    except (InvalidWheelFilename, InvalidSdistFilename):
        return None
