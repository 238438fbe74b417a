"""Find the names that a shell offers when Tab is pressed: agents, models, profiles, providers, keys …

Agents come from the database if that is running; everything else from the configuration. Nothing is started for it,
and the database has only a moment.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable, Iterable, Sequence

from ikigai.config import Config
from ikigai.core.errors import ConfigError, IkigaiError
from ikigai.core.vendors import sellers
from ikigai.system import paths
from ikigai.system.output import print_lines

COMPLETION_TIMEOUT = 0.25
"""Seconds that the database may take to list agents while a user waits after Tab."""
_PLAIN = re.compile(r"\w[\w./:@+-]*")
"""Names without characters that shells expand: some expand the words that they are given."""


def print_names(words: Sequence[str], load: Callable[[], Config]) -> int:
    """Print the names of a kind, a line each; `words` are the kind and, for values, the key. Print nothing for a kind
    that is unknown, and where nothing can be found.
    """
    kind, key = words[0] if words else "", words[1] if len(words) > 1 else ""
    try:
        names = list(dict.fromkeys(_find_names(kind, key, load())))
    except (IkigaiError, TimeoutError, OSError):
        return 0
    if safe := [name for name in names if _PLAIN.fullmatch(name)]:
        print_lines("\n".join(safe))
    return 0


def _find_names(kind: str, key: str, config: Config) -> Iterable[str]:
    match kind:
        case "agents":
            return asyncio.run(_agents(config))
        case "models":
            return _models(config)
        case "profiles":
            from ikigai.config.profiles import NO_PROFILE

            return (*config.profiles, NO_PROFILE)
        case "providers":
            return dict.fromkeys((*sellers(), *config.providers))
        case "servers":
            return config.mcp_servers
        case "keys":
            from ikigai.config.key_table import all_paths, dotted_path

            return map(dotted_path, all_paths(config.providers, config.models))
        case "values":
            from ikigai.config import settings_file

            path = settings_file.find_key(config, key)
            return _models(config) if path[-1] == "model" else settings_file.allowed_values(path)
        case _:
            return ()


def _models(config: Config) -> list[str]:
    """Return the models that can be used: favorites, then configured models and the models of the keys at hand."""
    from ikigai.app.run.factories import make_pool

    pool = make_pool(config)
    models = [*config.favorite_models, config.model]
    with contextlib.suppress(ConfigError):  # weights are configured but missing
        models.append(pool.local_model())
    models += config.models
    for provider in (*config.keys, *config.providers):
        models += [f"{provider}/{name}" for name in pool.known.names(provider)]
    return models


async def _agents(config: Config) -> list[str]:
    """Return the names of agents, those used last first."""
    from ikigai.store.agents import agents
    from ikigai.store.connection import connection

    lease, dsn = None, config.database.dsn
    if dsn is None:
        from ikigai.store.embedded import server

        if not server.is_running(paths.data_dir()):
            return []
        lease = server.start(paths.data_dir())
        dsn = lease.dsn
    where = config.database
    session = connection.DatabaseSession(dsn, write=False, deadline=COMPLETION_TIMEOUT, schema=where.schema)
    try:
        async with asyncio.timeout(COMPLETION_TIMEOUT):
            return await agents.names_of(session)
    finally:
        await session.close()
        if lease:
            lease.close()
