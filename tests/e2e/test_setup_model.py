"""Tests of `ikigai setup --model`: a file, an address and a file of Hugging Face, interrupted and continued."""

import hashlib
import json
import re
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.account import Account, refused
from tests.support.file_server import FileServer, Hosted
from tests.support.local_weights import smol_weights

pytest.importorskip("xllamacpp", reason="the extra `local` is not installed")


NAME = "Tiny-Q4.gguf"
ADDRESS = f"/files/{NAME}"
HUB_PATH = f"/owner/some-repo/resolve/main/{NAME}"
HUB_NAME = f"hf:owner/some-repo/{NAME}"
TOKEN = "hf_canary0123456789abcdefghijklmnop"


@pytest.fixture(scope="module")
def content() -> bytes:
    return smol_weights().read_bytes()


@pytest.fixture
def host(content: bytes) -> Iterator[FileServer]:
    with FileServer({ADDRESS: Hosted(content, etag='"1"')}) as server:
        yield server


def configured(account: Account) -> str:
    return json.loads(account.run("config", "get", "providers.local.model_file", "--json").stdout)["value"]


def test_file_here_becomes_the_local_model(account: Account, tmp_path: Path):
    (tmp_path / NAME).symlink_to(smol_weights())
    result = account.run("setup", "--model", str(tmp_path / NAME))
    assert (result.returncode, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[0] == f"model      local/Tiny-Q4: installed, 98 MB, in {tmp_path / NAME}"
    assert lines[-1] == "ready      local/Tiny-Q4 answers when you run ikigai"
    assert configured(account) == str(tmp_path / NAME)
    file = account.home / ".config/ikigai/config.toml"
    file.write_text(f'{file.read_text()}[models."local/Tiny-Q4"]\nmax_output = 8\n')
    said = account.run("-p", "Hello", "--output-format", "json")
    assert said.returncode == 0 and json.loads(said.stdout)["model"] == "local/Tiny-Q4"
    with_key = account.run("setup", "--model", str(tmp_path / NAME), OPENAI_API_KEY="sk-2")
    assert with_key.stdout.splitlines()[-1] == "           For the local model: ikigai -m local/Tiny-Q4"


def test_download_is_killed_and_stopped_and_continues(account: Account, host: FileServer, content: bytes):
    hosted = host.files[ADDRESS]
    hosted.cut, hosted.hang = 20_000_000, True
    part = account.home / ".local/share/ikigai/models" / f"{NAME}.part"
    for number, (stop, code) in enumerate([(signal.SIGKILL, -9), (signal.SIGINT, 130)], 1):
        program = account.start("setup", "--model", host.url + ADDRESS)
        assert host.hanging.wait(60)
        while not part.exists() or part.stat().st_size < number * 19_900_000:
            assert program.poll() is None
        host.hanging.clear()
        program.send_signal(stop)
        _, errors = program.communicate(timeout=60)
        assert program.returncode == code, errors
        assert ("continues" in errors) == (stop is signal.SIGINT) and "Traceback" not in errors
        assert not configured(account) and not part.with_name(NAME).exists()
    hosted.cut = None
    result = account.run("setup", "--model", host.url + ADDRESS)
    assert (result.returncode, result.stderr) == (0, "")
    asked = [headers.get("range", "") for _, headers in host.requests]
    assert asked[0] == "" and all(re.fullmatch(r"bytes=\d{8}-", text) for text in asked[1:]) and len(asked) == 3
    assert part.with_name(NAME).read_bytes() == content
    assert [file.name for file in part.parent.iterdir()] == [NAME]
    assert f"local/{NAME[:-5]}: downloaded (the server names no checksum), 98 MB" in result.stdout
    assert configured(account) == str(part.with_name(NAME))

    again = account.run("setup", "--model", host.url + ADDRESS)
    assert again.returncode == 0 and len(host.requests) == 4


@pytest.mark.long  # tests/providers/local/test_download.py and test_model_source.py show it
def test_hugging_face_by_its_variables(account: Account, host: FileServer, content: bytes):
    digest = hashlib.sha256(content).hexdigest()
    headers = {"Location": host.url + ADDRESS, "X-Linked-ETag": f'"{digest}"', "X-Linked-Size": str(len(content))}
    with FileServer({HUB_PATH: Hosted(status=302, headers=headers)}) as hub:
        hub_variables = {"HF_ENDPOINT": f"{hub.url}/", "HF_TOKEN": TOKEN}
        result = account.run("setup", "--model", HUB_NAME, **hub_variables)
        assert (result.returncode, result.stderr) == (0, "")
        assert hub.requests[0][1]["authorization"] == f"Bearer {TOKEN}"
        assert "authorization" not in host.requests[0][1]
        file = account.home / ".local/share/ikigai/models/owner/some-repo" / NAME
        assert file.read_bytes() == content and configured(account) == str(file)
        assert f"local/{NAME[:-5]}: downloaded, 98 MB" in result.stdout
        for stored in (*account.home.rglob(".local/**/*"), *account.home.rglob(".config/**/*")):
            assert not stored.is_file() or stored == file or TOKEN.encode() not in stored.read_bytes()

        hub.files.clear()
        before = configured(account)
        missing = account.run("setup", "--model", "hf:owner/some-repo/other.gguf", **hub_variables)
        refused(missing, 1, "127.0.0.1 has no such file (HTTP 404).", "Check the address.")
        assert configured(account) == before


def test_no_network_leaves_the_model_as_it_was(account: Account):
    with FileServer() as gone:
        pass
    refused(account.run("setup", "--model", gone.url + ADDRESS), 1, "Nothing was downloaded", "the network")
    refused(account.run("setup", "--model", HUB_NAME, HF_ENDPOINT=gone.url), 1, "Nothing was downloaded")
    assert list((account.home / ".local/share/ikigai/models").iterdir()) == []
    assert configured(account) == ""


def test_silent_server_is_waited_for_in_sight(account: Account):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}{ADDRESS}"
        with account.terminal("setup", "--model", address, columns=120) as program:
            program.wait_for("model      0.0 MB")
            program.type("\x03")
            assert program.ended() == 130
            assert "The download was interrupted. Run the command again." in program.words()
    assert configured(account) == ""


def test_files_that_are_no_model_change_nothing(account: Account, content: bytes):
    files = {
        "page.gguf": (b"<!doctype html>", "not a GGUF file, but a web page"),
        "cut.gguf": (content[:5_000_000], "loaded"),
    }
    for name, (begun, what) in files.items():
        (account.home / name).write_bytes(begun)
        result = account.run("setup", "--model", name)
        assert result.returncode in (1, 2) and what in result.stderr and result.stdout == ""
        assert "Traceback" not in result.stderr and len(result.stderr.splitlines()) <= 2
    assert configured(account) == ""


def test_suggestions_are_listed_without_a_question(account: Account):
    result = account.run("setup", "--model")
    assert (result.returncode, result.stderr) == (0, "")
    rows = [line.split() for line in result.stdout.splitlines() if line.startswith("hf:")]
    assert len(rows) >= 3 and all(re.fullmatch(r"hf:[\w.-]+/[\w.-]+/[\w.-]+\.gguf", row[0]) for row in rows)
    assert {row[2] for row in rows} <= {"MB", "GB"}


def test_variable_that_names_another_file_is_said(account: Account, tmp_path: Path):
    (tmp_path / NAME).symlink_to(smol_weights())
    variable = "IKIGAI_PROVIDERS_LOCAL_MODEL_FILE"
    result = account.run("setup", "--model", str(tmp_path / NAME), **{variable: str(smol_weights())})
    assert result.returncode == 1 and f"{variable} names another file" in result.stderr
