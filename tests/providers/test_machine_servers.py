"""Tests of the search for servers of models on this machine, with scripted ones and with whatever else may listen."""

import asyncio
import socket
from collections.abc import Callable

import pytest

from ikigai.core.vendors import PRESETS
from ikigai.providers import machine_servers
from ikigai.providers.machine_servers import SERVER_PROVIDERS, find_servers
from ikigai.providers.models.models import ListedModel
from tests.support.machine_servers import answer_json, llamacpp, lmstudio, ollama, vllm
from tests.support.wire_server import Answer, Received, WireServer

SERVERS: dict[str, Callable[[Received], Answer]] = {
    "ollama": ollama,
    "lmstudio": lmstudio,
    "llamacpp": llamacpp,
    "vllm": vllm,
}


async def found_at(name: str, answer: Callable[[Received], Answer]) -> tuple[ListedModel, ...]:
    """Return the models found where a server of this kind is expected, and `answer` answers."""
    async with WireServer() as server:
        server.answer = answer
        found = await find_servers({name: server.base_url})
    return found[0].models if found else ()


def test_every_server_without_a_key_is_looked_for():
    assert set(SERVER_PROVIDERS) == {name for name, preset in PRESETS.items() if not preset.key_variables}


async def test_all_servers_are_found_with_their_contexts():
    servers = {name: WireServer() for name in SERVERS}
    try:
        for name, server in servers.items():
            server.answer = SERVERS[name]
            await server.start()
        found = await find_servers({name: server.base_url for name, server in servers.items()})
    finally:
        for server in servers.values():
            await server.stop()
    facts = {each.title: [(model.id, model.context, model.tools) for model in each.models] for each in found}
    assert facts == {
        "Ollama": [("gemma3:4b", 8192, False), ("llama3.2:3b", 16_384, True), ("old:latest", 4096, None)],
        "LM Studio": [("qwen2-vl-7b-instruct", 4096, True), ("meta-llama-3.1-8b-instruct", 131_072, None)],
        "llama.cpp": [("qwen3-4b.gguf", 8192, None)],
        "vLLM": [("Qwen/Qwen3-8B", 40_960, None)],
    }
    images = {model.id: model.images for each in found for model in each.models}
    assert images["gemma3:4b"] and images["qwen2-vl-7b-instruct"] and not images["llama3.2:3b"]


@pytest.mark.parametrize("count", [1, 4])
async def test_all_servers_together_get_50_ms_to_take_a_connection(monkeypatch: pytest.MonkeyPatch, count: int):
    """Ports behind which packets vanish: each wait ends by its share of the time."""
    waits: list[float] = []

    def vanishes(address: tuple[str, int], timeout: float) -> socket.socket:
        waits.append(timeout)
        raise TimeoutError

    monkeypatch.setattr(socket, "create_connection", vanishes)
    assert await find_servers({name: PRESETS[name].base_url for name in SERVER_PROVIDERS[:count]}) == []
    assert len(waits) == count and sum(waits) == pytest.approx(0.05)


async def test_nothing_is_asked_where_nothing_listens(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(machine_servers, "list_models", None)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # without listening
        address = f"http://127.0.0.1:{unused.getsockname()[1]}/v1"
        assert await find_servers(dict.fromkeys(SERVERS, address)) == []


async def test_many_models_of_ollama_are_asked_for_at_once():
    names = [f"m{number}:1b" for number in range(20)]

    def answer(received: Received) -> Answer:
        if received.path == "/api/tags":
            return answer_json({"models": [{"name": name} for name in names]})
        shown = answer_json({"capabilities": ["completion"], "parameters": "num_ctx 4096"})
        shown.pause = 0.05
        return shown

    async with WireServer() as server:
        server.answer = answer
        [found] = await find_servers({"ollama": server.base_url})
    assert [model.id for model in found.models] == names and 1 < server.busiest <= machine_servers.MAX_CONNECTIONS


@pytest.mark.parametrize("name", SERVERS)
async def test_server_of_another_kind_is_not_taken_for_one(name: str):
    for other, answer in SERVERS.items():
        if other != name:
            assert await found_at(name, answer) == ()


DEEP = b'{"models":' + b"[" * 100_000
HOSTILE = {
    "a page": Answer(b"<html><h1>It works!</h1></html>", 200, {"Content-Type": "text/html"}),
    "a refusal": Answer(b"no", 401),
    "a redirect": Answer(b"", 302, {"Location": "http://127.0.0.1:9/"}),
    "a flood": Answer(b'{"models":[' + b" " * (2 << 20) + b"]}"),
    "a bomb": Answer(b"\x1f\x8b" + b"\0" * 1000, 200, {"Content-Encoding": "gzip"}),
    "an abort": Answer(b'{"models":[', cut=5, end="reset"),
    "nesting": Answer(DEEP),
    "no text": Answer(b"\xff\xfe\x00"),
    "a number": answer_json(7),
    "a list": answer_json([[1], None, "x"]),
    "wrong types": answer_json({"models": [{"name": 7}, 3, {"name": {}}], "data": [{"id": []}, {"type": "llm"}]}),
    "large headers": Answer(b"{}", 200, {"X-Flood": "x" * 2_000_000}),
}


@pytest.mark.parametrize("name", SERVERS)
@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE)
async def test_anything_else_on_the_port_is_passed_over(name: str, hostile: Answer):
    assert await found_at(name, lambda _: hostile) == ()


@pytest.mark.parametrize("name", SERVERS)
async def test_silent_server_is_given_up(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(machine_servers, "ANSWER_SECONDS", 0.05)
    assert await found_at(name, lambda _: Answer(b"{", end="hang")) == ()


async def test_endless_answer_is_given_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(machine_servers, "ANSWER_SECONDS", 0.1)

    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n[")
        try:
            while True:
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(0.01)
        except ConnectionError:
            writer.close()

    async with await asyncio.start_server(drip, "127.0.0.1", 0) as server:
        address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        assert await find_servers({"ollama": address}) == []


async def test_names_with_other_characters_are_left_out():
    names = ["fine:1b", "\x1b[31mred", "a b", "a\nb", "", "é", "x" * 201, "../../etc", "-rf", "fine:1b"]

    def answer(received: Received) -> Answer:
        listed = answer_json({"models": [{"name": name} for name in names]})
        return listed if received.path == "/api/tags" else answer_json({"model_info": {}})

    assert [model.id for model in await found_at("ollama", answer)] == ["fine:1b"]


async def test_many_models_are_cut_and_wrong_contexts_ignored():
    cards = [{"id": f"m{number}", "owned_by": "vllm", "max_model_len": -number} for number in range(1_000)]
    models = await found_at("vllm", lambda _: answer_json({"data": cards}))
    assert len(models) == machine_servers.MAX_MODELS and {model.context for model in models} == {0}
