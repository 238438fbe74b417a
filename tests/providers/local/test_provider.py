"""The local model for real: llama.cpp serves the small model's weights, and a client talks to it over HTTP."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from ikigai.core.errors import ConfigError, IkigaiError
from ikigai.providers.local.model_server import LocalServer
from tests import ROOT
from tests.support.local_weights import smol_weights

pytest.importorskip("xllamacpp", reason="the extra `local` is not installed")

DEADLINE = 60  # seconds; reached only by what would never end


@pytest.fixture(scope="module")
def server() -> Iterator[LocalServer]:
    server = LocalServer.start(smol_weights())
    yield server
    server.close()


@pytest.fixture(scope="module")
def small() -> Iterator[LocalServer]:
    server = LocalServer.start(smol_weights(), context=200)
    yield server
    server.close()


def client(server: LocalServer) -> httpx.Client:
    headers = {"Authorization": f"Bearer {server.api_key}"}
    return httpx.Client(base_url=server.base_url, headers=headers, timeout=DEADLINE, trust_env=False)


def body(server: LocalServer, text: str, **more: Any) -> dict[str, Any]:
    return {"model": server.name, "messages": [{"role": "user", "content": text}], **more}


def ask(server: LocalServer, text: str, **more: Any) -> httpx.Response:
    with client(server) as http:
        return http.post("/chat/completions", json=body(server, text, **more))


def wait_until(condition: Any) -> None:
    end = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def has_ended(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=DEADLINE)


def test_reply_is_streamed(server: LocalServer) -> None:
    with (
        client(server) as http,
        http.stream("POST", "/chat/completions", json=body(server, "Say hello.", max_tokens=8, stream=True)) as reply,
    ):
        data = [line.removeprefix("data: ") for line in reply.iter_lines() if line]
    assert data.pop() == "[DONE]"
    choices = [json.loads(line)["choices"][0] for line in data]
    pieces = [choice["delta"]["content"] for choice in choices if choice["delta"].get("content")]
    assert len(pieces) > 1
    assert "".join(pieces).strip()
    assert choices[-1]["finish_reason"] in ("stop", "length")


def test_it_is_called_by_its_file_and_tells_its_context(server: LocalServer) -> None:
    assert server.name == smol_weights().stem
    assert server.context == 8192
    with client(server) as http:
        (model,) = http.get("/models").json()["data"]
    assert model["id"] == server.name
    assert str(smol_weights().parent) not in json.dumps(model)


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer wrong"}])
def test_without_the_key_nothing_is_told(server: LocalServer, headers: dict[str, str]) -> None:
    with httpx.Client(base_url=server.base_url, headers=headers, trust_env=False) as http:
        assert http.post("/chat/completions", json=body(server, "Hi")).status_code == 401
        assert http.get("/models").status_code == 401


def test_key_is_made_for_one_server(server: LocalServer, small: LocalServer) -> None:
    with client(small) as http:
        assert http.get("/models").status_code == 200
        assert http.get(f"{server.base_url}/models").status_code == 401


@pytest.mark.parametrize("stream", [False, True])
def test_what_does_not_fit_is_refused_with_both_numbers(small: LocalServer, stream: bool) -> None:
    assert small.context == 256  # what it really is; 200 were asked for
    refused = ask(small, "hello " * 400, stream=stream)
    assert refused.status_code == 400
    error = refused.json()["error"]
    assert error["type"] == "exceed_context_size_error"
    assert error["n_ctx"] == small.context < error["n_prompt_tokens"]


def test_reply_that_fills_the_context_is_cut_there(small: LocalServer) -> None:
    reply = ask(small, "hello " * 200, ignore_eos=True).json()
    assert reply["choices"][0]["finish_reason"] == "length"
    assert reply["usage"]["total_tokens"] == small.context


def test_generation_stops_when_the_client_goes(server: LocalServer) -> None:
    endless = body(server, "Write a long story.", max_tokens=8000, ignore_eos=True, stream=True)
    with client(server) as http:

        def slot() -> dict[str, Any]:
            return http.get(server.base_url.removesuffix("v1") + "slots").json()[0]

        with client(server) as other, other.stream("POST", "/chat/completions", json=endless) as reply:
            lines = reply.iter_lines()  # let go of, it would end the reply
            next(lines)
            assert slot()["is_processing"]
        wait_until(lambda: not slot()["is_processing"])
        assert slot()["n_prompt_tokens"] < 4000  # all that it worked on, the reply included
    assert ask(server, "Hi", max_tokens=1).status_code == 200


def test_closing_ends_a_reply_in_the_middle() -> None:
    server = LocalServer.start(smol_weights(), context=2048)
    endless = body(server, "Write a long story.", ignore_eos=True, stream=True)
    with client(server) as http, http.stream("POST", "/chat/completions", json=endless) as reply:
        lines = reply.iter_lines()
        next(lines)
        assert server.alive
        server.close()
        server.close()
        assert not server.alive
        with pytest.raises(httpx.RemoteProtocolError):
            list(lines)


def test_closing_ends_a_start_in_the_middle() -> None:
    server = LocalServer(smol_weights())
    raised: list[IkigaiError] = []

    def wait() -> None:
        try:
            server.ready()
        except IkigaiError as error:
            raised.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    server.close()
    waiting.join(DEADLINE)
    assert "stopped" in raised[0].what


BAD = {
    "empty": lambda real: b"",
    "text": lambda real: b"no model\n" * 100,
    "cut": lambda real: real[:10_000_000],
    "damaged": lambda real: real[:30] + b"\xff" * 40 + real[70:10_000],
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_file_is_said_in_a_sentence(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "bad.gguf"
    file.write_bytes(BAD[kind](smol_weights().read_bytes()))
    with pytest.raises(ConfigError) as raised:
        LocalServer.start(file)
    assert str(file) in raised.value.what
    assert "\n" not in raised.value.what
    assert raised.value.what.count("(") == 1  # with llama.cpp's reason
    assert raised.value.remedy


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        LocalServer.start(tmp_path / "none.gguf")
    assert str(tmp_path / "none.gguf") in raised.value.what


def test_without_the_extra_it_is_said_how_to_install_it(tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", with_pip=False)
    program = (
        "from pathlib import Path; from ikigai.providers.local.model_server import LocalServer; LocalServer(Path('x'))"
    )
    command = [tmp_path / "bare" / "bin" / "python", "-c", program]
    last = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stderr.splitlines()[-1]
    assert "ConfigError" in last
    assert "install --python" in last and "'ikigai-chat[local]'" in last


def test_terminal_hears_nothing() -> None:
    program = """
import json, sys, urllib.error, urllib.request
from pathlib import Path
from ikigai.providers.local.model_server import LocalServer

server = LocalServer.start(Path(sys.argv[1]), 256)
for text in "Hi", "hello " * 400:
    body = {"messages": [{"role": "user", "content": text}], "max_tokens": 4}
    headers = {"Authorization": f"Bearer {server.api_key}", "Content-Type": "application/json"}
    request = urllib.request.Request(server.base_url + "/chat/completions", json.dumps(body).encode(), headers)
    try:
        urllib.request.urlopen(request).read()
    except urllib.error.HTTPError as error:
        assert error.code == 400
server.close()
"""
    ended = run(program, str(smol_weights()))
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_interrupt_key_does_not_reach_it() -> None:
    program = """
import os, signal, sys, time, urllib.request
from pathlib import Path
from ikigai.providers.local.model_server import LocalServer

os.setpgid(0, 0)
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests may ignore it
server = LocalServer.start(Path(sys.argv[1]), 256)
try:
    os.killpg(0, signal.SIGINT)
    raise SystemExit("no interrupt")
except KeyboardInterrupt:
    time.sleep(0.5)  # to die in
    print(server.alive, urllib.request.urlopen(server.base_url + "/health").status)
"""
    ended = run(program, str(smol_weights()))
    assert (ended.stdout, ended.stderr) == ("True 200\n", "")


def test_it_dies_with_the_program() -> None:
    program = """
import sys
from pathlib import Path
from ikigai.providers.local.model_server import LocalServer

server = LocalServer.start(Path(sys.argv[1]), 256)
print(flush=True)
sys.stdin.read()
"""
    command = [sys.executable, "-c", program, str(smol_weights())]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as started:
        assert started.stdout
        assert started.stdout.readline() == b"\n"
        (child,) = psutil.Process(started.pid).children()
        started.send_signal(signal.SIGKILL)
    wait_until(lambda: has_ended(child))


def test_secrets_stay_with_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-mine")
    monkeypatch.setenv("PGPASSWORD", "mine-too")
    before = {process.pid for process in psutil.Process().children()}
    server = LocalServer.start(smol_weights(), context=256)
    (child,) = (process for process in psutil.Process().children() if process.pid not in before)
    told = str(child.environ()) + str(child.cmdline())
    server.close()
    assert os.environ["PATH"] in told
    assert not [secret for secret in ("sk-mine", "mine-too", server.api_key) if secret in told]
