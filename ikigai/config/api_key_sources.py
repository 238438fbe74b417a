"""Decide where the API key of each provider comes from: its environment variable, else `ikigai login`.

A source is "environment VARIABLE" or "login". A configured `api_key_env` takes the place of the vendor's own variables.
"""

import os
from collections.abc import Iterable, Mapping

from ikigai.config.records import ProviderSettings
from ikigai.core.vendors import CLOUDS, VENDORS, sellers
from ikigai.system import paths

LOGIN = "login"


def find_sources(
    servers: Mapping[str, ProviderSettings], environ: Mapping[str, str], logins: Iterable[str]
) -> dict[str, str]:
    """Return the source of each provider that has a key, in the order in which default models are looked for."""
    usual = {name: seller.key_variables for name, seller in sellers().items()}
    usual |= {name: CLOUDS[server.api].key_variables for name, server in servers.items() if server.api in CLOUDS}
    own = {name: (server.api_key_env,) for name, server in servers.items() if server.api_key_env}
    found = {provider: first_set(names, environ) for provider, names in {**usual, **own}.items()}
    sources = {provider: f"environment {variable}" for provider, variable in found.items() if variable}
    sources |= {provider: LOGIN for provider in logins if provider not in sources}
    return {name: sources[name] for name in sorted(sources, key=lambda name: (_rank(name), name))}


def stored_logins() -> list[str]:
    """Return the providers whose key `ikigai login` has stored. Raise ConfigError when the file cannot be read."""
    file = paths.keys_file()
    if not os.path.lexists(file):
        return []
    from ikigai.config import login_keys

    return login_keys.providers_with_key(file)


def variable_of(source: str) -> str:
    """Return the environment variable of a source; "" for the key of a login, and where there is no source."""
    kind, _, variable = source.partition(" ")
    return variable if kind == "environment" else ""


def read_key(source: str, provider: str, environ: Mapping[str, str]) -> str:
    """Return the key of a provider as it is now, or "". Raise ConfigError when the file of logins cannot
    be read.
    """
    from ikigai.config import login_keys

    if variable := variable_of(source):
        return environ.get(variable, "").strip()
    return login_keys.find(paths.keys_file(), provider)


def first_set(names: Iterable[str], environ: Mapping[str, str]) -> str:
    """Return the first of these variables that is set and not blank, "" if none is."""
    return next((name for name in names if environ.get(name, "").strip()), "")


def _rank(provider: str) -> int:
    return [*VENDORS, provider].index(provider)
