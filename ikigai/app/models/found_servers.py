"""Register the model servers found on this machine, and word the offer of each, once."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from ikigai.app.run.factories import model_list_file, server_address
from ikigai.core.errors import IkigaiError
from ikigai.core.text import tokens
from ikigai.providers.http.network import is_local_address
from ikigai.providers.machine_servers import SERVER_PROVIDERS, MachineServer, find_servers
from ikigai.providers.models import model_list_cache
from ikigai.system import paths, private_json

if TYPE_CHECKING:
    from ikigai.config import Config
    from ikigai.providers.pool import ProviderPool


def are_wanted(model: str) -> bool:
    """Return True where such servers are looked for: no model is chosen, the bundled one, or one of such a server."""
    return model.partition("/")[0] in ("", "local", *SERVER_PROVIDERS)


async def learn_servers(config: Config, pool: ProviderPool) -> list[MachineServer]:
    """Return the servers that run here now; their models are known from now on, also to later runs."""
    addresses = {name: server_address(config, name) for name in SERVER_PROVIDERS}
    found = await find_servers({name: each for name, each in addresses.items() if is_local_address(each)})
    for server in found:
        models = pool.known.with_refusals(server.name, server.models)
        pool.known.learn(server.name, models)
        await asyncio.to_thread(model_list_cache.save, model_list_file(), server.name, models, time.time())
    return found


def new_offers(found: list[MachineServer], pool: ProviderPool, model: str) -> list[str]:
    """Return a line for each of these servers that was never offered; it is not offered again.

    The server of the `model` in use needs no offer.
    """
    try:
        with private_json.open_for_change(
            paths.state_dir() / "offered.json", float, "the servers that were offered", "Remove it."
        ) as offered:
            new = [each for each in found if each.name not in offered]
            offered.update(dict.fromkeys((each.name for each in new), time.time()))
    except IkigaiError:
        return []  # it would be offered at every start
    return [_offer(each, pool) for each in new if each.name != model.partition("/")[0]]


def _offer(server: MachineServer, pool: ProviderPool) -> str:
    model = f"{server.name}/{server.models[0].id}"
    limits = pool.known.limits(model)
    facts = f"{tokens.format_tokens(limits.context)} context" + ("" if limits.tools else ", no tools")
    more = len(server.models) - 1
    others = f" /model lists {more} more." if more else ""
    return f"{server.title} runs on this machine. To use it: /model {model} ({facts}).{others}"
