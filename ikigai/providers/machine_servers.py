"""Find the servers of models that run on this machine, and list their models as they describe them.

server      recognized by                              context of a model
Ollama      /api/tags                                  as loaded (/api/ps), else num_ctx, else its own (/api/show)
LM Studio   /api/v0/models                             loaded_context_length, else max_context_length
llama.cpp   default_generation_settings in /props      n_ctx in there
vLLM        owned_by in /v1/models                     max_model_len

Sources: the pages of `core.vendors.PRESETS`, docs.ollama.com/api and lmstudio.ai/docs/developer/rest/endpoints. What
listens on a port may be anything: little of it is read, for a short time, and names are taken only in plain letters.
"""

import asyncio
import importlib
import re
import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from urllib.parse import urlsplit

import msgspec

from ikigai.providers.http.json_shape import as_count, as_mapping, as_sequence, as_string
from ikigai.providers.models.models import ListedModel
from ikigai.providers.openai.models import parse_models

if TYPE_CHECKING:
    import httpx

CONNECT_SECONDS = 0.05
"""Seconds in which the servers on this machine take a connection, together."""
ANSWER_SECONDS = 3.0
"""Seconds that a server has to describe all its models, once it took a connection."""
MAX_CONNECTIONS = 8
"""Requests to one server at a time: Ollama describes each model in an answer of its own, which may take 0.1 s."""
MAX_ANSWER_BYTES = 1 << 20
MAX_MODELS = 200
_MODEL_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/@+-]{0,199}")
_NUM_CTX = re.compile(r"^num_ctx\s+(\d{1,9})\s*$", re.MULTILINE)

Ask: TypeAlias = Callable[..., Awaitable[object]]
"""Takes a path, and for a POST its body; returns the decoded JSON of the answer, None for anything else."""


class MachineServer(NamedTuple):
    """A server that was found; `name` is its provider's. `models` are in its order, those in memory first."""

    name: str
    title: str
    models: tuple[ListedModel, ...]


async def find_servers(addresses: Mapping[str, str]) -> list[MachineServer]:
    """Return the servers at these addresses, by the names of their providers. Never raise but for cancellation."""
    ports = {name: address for name, address in addresses.items() if name in _SERVERS}
    limit = CONNECT_SECONDS / max(len(ports), 1)
    # In a thread: a time limit of the event loop would also count what else that does after the start.
    names = await asyncio.to_thread(lambda: [name for name, address in ports.items() if _is_listening(address, limit)])
    listed = await asyncio.gather(*(list_models(name, ports[name]) for name in names))
    found = zip(names, listed, strict=True)
    return [MachineServer(name, _SERVERS[name][0], models) for name, models in found if models]


async def list_models(name: str, base_url: str) -> tuple[ListedModel, ...]:
    """Return the models of the server of provider `name` at this address; none if it is not such a server."""
    url = urlsplit(base_url.replace("//localhost", "//127.0.0.1", 1))
    if url.scheme != "http":
        return ()
    client = await asyncio.to_thread(_make_client, f"{url.scheme}://{url.netloc}")
    import httpx

    async def ask(path: str, body: object = None) -> object:
        method, content = ("GET", None) if body is None else ("POST", msgspec.json.encode(body))
        answer = b""
        async with client.stream(method, path, content=content) as response:
            if response.status_code != httpx.codes.OK:
                return None
            async for piece in response.aiter_raw():
                answer += piece
                if len(answer) > MAX_ANSWER_BYTES:
                    return None
        return msgspec.json.decode(answer)

    try:
        async with client, asyncio.timeout(ANSWER_SECONDS):
            models = await _SERVERS[name][1](ask)
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError, RecursionError):
        return ()
    named = {model.id: model for model in models if _MODEL_NAME.fullmatch(model.id)}
    return tuple(named.values())[:MAX_MODELS]


def _make_client(base_url: str) -> "httpx.AsyncClient":
    """Return a client for the server at this address.

    In a thread: with a loaded processor the event loop would wait up to a quarter of a second for the modules of the
    client and of its first connection.
    """
    import httpx

    importlib.import_module("anyio._backends._asyncio")
    return httpx.AsyncClient(
        base_url=base_url,
        headers={"Accept-Encoding": "identity"},
        timeout=ANSWER_SECONDS,
        limits=httpx.Limits(max_connections=MAX_CONNECTIONS),
        verify=False,  # no TLS: reading all certificates takes up to a second
        trust_env=False,  # a proxy is not meant for servers on this machine
        follow_redirects=False,
    )


def _is_listening(base_url: str, seconds: float) -> bool:
    """Return True if something takes connections at this address; block for at most so many seconds."""
    try:
        url = urlsplit(base_url)
        host, port = (url.hostname or "").replace("localhost", "127.0.0.1"), url.port or 80
        socket.create_connection((host, port), seconds).close()
    except (OSError, ValueError):
        return False
    return True


async def _list_ollama(ask: Ask) -> list[ListedModel]:
    entries = map(as_mapping, as_sequence(as_mapping(await ask("/api/tags")).get("models")))
    names = [name for entry in entries if _MODEL_NAME.fullmatch(name := as_string(entry.get("name")))][:MAX_MODELS]
    if not names:
        return []
    loaded = {
        as_string(entry.get("name")): as_count(entry.get("context_length"))
        for entry in map(as_mapping, as_sequence(as_mapping(await ask("/api/ps")).get("models")))
    }
    names.sort(key=lambda name: name not in loaded)
    shown = await asyncio.gather(*(ask("/api/show", {"model": name}) for name in names))
    models = [_ollama_model(name, as_mapping(facts), loaded) for name, facts in zip(names, shown, strict=True)]
    return [model for model in models if model]


def _ollama_model(name: str, shown: dict[str, Any], loaded: Mapping[str, int]) -> ListedModel | None:
    """Return a model by what /api/show says of it; None if it is none to talk to."""
    info = as_mapping(shown.get("model_info"))
    own = as_count(info.get(f"{as_string(info.get('general.architecture'))}.context_length"))
    set_by_user = _NUM_CTX.search(as_string(shown.get("parameters")))
    context = loaded.get(name) or (int(set_by_user[1]) if set_by_user else own)
    if not isinstance(abilities := shown.get("capabilities"), list):
        return ListedModel(name, context)
    if "completion" not in abilities:
        return None
    levels = None if "thinking" in abilities else ()
    return ListedModel(name, context, levels=levels, images="vision" in abilities, tools="tools" in abilities)


async def _list_lmstudio(ask: Ask) -> list[ListedModel]:
    entries = [as_mapping(entry) for entry in as_sequence(as_mapping(await ask("/api/v0/models")).get("data"))]
    entries = [entry for entry in entries if entry.get("type") in ("llm", "vlm")]
    entries.sort(key=lambda entry: entry.get("state") != "loaded")
    return [
        ListedModel(
            as_string(entry.get("id")),
            as_count(entry.get("loaded_context_length")) or as_count(entry.get("max_context_length")),
            images=entry.get("type") == "vlm",
            tools="tool_use" in as_sequence(entry.get("capabilities")) or None,
        )
        for entry in entries
    ]


async def _list_llamacpp(ask: Ask) -> list[ListedModel]:
    props = as_mapping(await ask("/props"))
    if not isinstance(settings := props.get("default_generation_settings"), dict):
        return []
    context, vision = as_count(settings.get("n_ctx")), as_mapping(props.get("modalities")).get("vision")
    return [
        ListedModel(model.id, context or model.context, images=vision if isinstance(vision, bool) else None)
        for model in parse_models(await ask("/v1/models"))
    ]


async def _list_vllm(ask: Ask) -> list[ListedModel]:
    answer = as_mapping(await ask("/v1/models"))
    own = [entry for entry in map(as_mapping, as_sequence(answer.get("data"))) if entry.get("owned_by") == "vllm"]
    return parse_models(own)


_SERVERS: dict[str, tuple[str, Callable[[Ask], Awaitable[list[ListedModel]]]]] = {
    "ollama": ("Ollama", _list_ollama),
    "lmstudio": ("LM Studio", _list_lmstudio),
    "llamacpp": ("llama.cpp", _list_llamacpp),
    "vllm": ("vLLM", _list_vllm),
}
"""By the name of the provider: the name of the server, and the function that lists its models."""
SERVER_PROVIDERS = tuple(_SERVERS)
