"""Collect ikigai's own secrets, API keys and database passwords, and provide their redactor."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from ikigai.config import login_keys
from ikigai.core.errors import ConfigError
from ikigai.core.vendors import sellers
from ikigai.system import paths

if TYPE_CHECKING:
    from ikigai.config import Config
    from ikigai.core.secrets.redaction import Redactor

BRAVE_KEY = "BRAVE_API_KEY"
"""The variable that holds the key of the web search."""
CLOUD_SECRETS = ("AZURE_OPENAI_AD_TOKEN", "AZURE_CLIENT_SECRET", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
"""Variables with credentials of clouds that are no keys."""


class Redaction:
    """Provides the redactor of this run, and rebuilds it when a key has changed.

    `passwords` returns the passwords of the database by name.
    """

    def __init__(self, config: Config, passwords: Callable[[], Mapping[str, str]] = dict) -> None:
        self._config, self.passwords = config, passwords
        self._file = paths.keys_file()
        self._cached: tuple[object, Redactor] | None = None

    def redactor(self) -> Redactor:
        """Return the redactor of the current secrets; with `redact = "off"` it replaces nothing."""
        # Each message asks for it four times: to read and decode the file of keys each time takes 0.4 ms.
        version = self._file_version(), self.passwords()
        if self._cached is None or self._cached[0] != version:
            from ikigai.core.secrets.redaction import Redactor

            mode = self._config.tools.redact
            self._cached = version, Redactor(self.secrets() if mode != "off" else {}, formats=mode == "patterns")
        return self._cached[1]

    def _file_version(self) -> tuple[int, ...]:
        """Return what changes with the content of the file of keys, or ()."""
        try:
            status = self._file.stat()
        except OSError:
            return ()
        return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns

    def own(self, text: str) -> str:
        """Return the text without ikigai's own keys."""
        return self.redactor().own(text) if text else ""

    def secrets(self) -> dict[str, str]:
        """Return ikigai's own secrets by the name that replaces them."""
        secrets = dict(self._in_environment)
        with contextlib.suppress(ConfigError):  # a damaged file is reported when a key is needed
            secrets |= {f"{provider} key": key for provider, key in login_keys.read_keys(self._file).items()}
        secrets |= self.passwords()
        return {name: secret for name, secret in secrets.items() if secret}

    @cached_property
    def _in_environment(self) -> dict[str, str]:
        """The secrets in variables, which do not change in a run."""
        found = {name: os.environ.get(name, "").strip() for name in self.variables()}
        addresses = ("IKIGAI_DATABASE_URL", "DATABASE_URL")
        return found | {name: _password(os.environ.get(name, "")) for name in addresses}

    def withholds(self, name: str) -> bool:
        """Return True for a variable that no project gets: it may hold a key by its name, or seems to hold one."""
        from ikigai.tools.shell.environment import holds_secret

        value = os.environ.get(name, "")
        if holds_secret(name, value, self.variables()) or value.strip() in self.secrets().values():
            return True
        return bool(self.redactor().key_in(value))

    def variables(self) -> tuple[str, ...]:
        """Return the variables that may hold a key of ikigai's own."""
        servers = [server.api_key_env for server in self._config.providers.values()]
        standard = [name for seller in sellers().values() for name in seller.key_variables]
        return (*standard, *filter(None, servers), BRAVE_KEY, *CLOUD_SECRETS, "PGPASSWORD", *self._passed_on())

    def _passed_on(self) -> set[str]:
        """Return the variables whose values go along with requests."""
        tables = [server.headers for server in self._config.providers.values()]
        tables += [model.body for model in self._config.models.values()]
        if not any(tables):
            return set()
        from ikigai.config import extra_fields

        return {name for table in tables for name in extra_fields.variables(table)}

    def warnings(self) -> list[str]:
        """Return a sentence for each secret that is too short to be replaced."""
        if self._config.tools.redact == "off":
            return []
        from ikigai.core.secrets.redaction import MIN_OWN_SECRET

        return [
            f"{name} has fewer than {MIN_OWN_SECRET} characters: it is not redacted in requests and in the log."
            for name, secret in self.secrets().items()
            if len(secret) < MIN_OWN_SECRET
        ]


def _password(address: str) -> str:
    """Return the password in the address of a database, or ""."""
    if "password" not in address and "@" not in address:
        return ""
    from ikigai.core.errors import BadDatabase
    from ikigai.store.connection.address import parse_dsn

    try:
        return parse_dsn(address).get("password", "")
    except BadDatabase:  # reported when it is used
        return ""
