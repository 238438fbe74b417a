"""Tests of `ikigai login`: keys typed, pasted and piped in are tried, stored, used, and shown nowhere."""

import json
import os
import shutil
import signal
import stat
from pathlib import Path

import psutil
import pytest

from ikigai.core.vendors import PRESETS
from ikigai.store.embedded import server as embedded
from tests.e2e.account import ECHO, Account, Wire, lines_of, refused
from tests.support.wire_server import Answer, failure

SECRET = "sk-canary-of-the-test-0123456789"
JSON = {"Content-Type": "application/json"}
LIST = Answer(b'{"object": "list", "data": [{"id": "gpt-5-mini"}, {"id": "gpt-5"}]}', 200, JSON)


def key_file(account: Account) -> Path:
    return account.home / ".config" / "ikigai" / "keys.json"


def stored(account: Account) -> dict[str, str]:
    return json.loads(key_file(account).read_text()) if key_file(account).exists() else {}


@pytest.fixture
def addresses(wire: Wire) -> dict[str, str]:
    """Return variables that set the vendors' addresses to the test's own server."""
    root = wire.server.base_url.removesuffix("/v1")
    return {"OPENAI_BASE_URL": root + "/v1", "ANTHROPIC_BASE_URL": root, "GOOGLE_GEMINI_BASE_URL": root}


def test_key_is_typed_tried_stored_and_used(account: Account, wire: Wire, addresses: dict[str, str]):
    wire.answers(LIST)
    with account.terminal("login", "openai", "--debug", columns=200, env=addresses) as program:
        program.wait_for("Create a key at https://platform.openai.com/api-keys")
        program.wait_for("Key for openai (hidden):")
        program.type(f"  {SECRET}\r")
        assert program.ended() == 0
        assert f"The key of openai works; it is stored in {key_file(account)}." in program.words()
        assert SECRET.encode() not in program.raw
        program.assert_restored()
    assert wire.requests[0].path.startswith("/v1/models")
    assert wire.requests[0].headers["authorization"] == f"Bearer {SECRET}"
    assert stored(account) == {"openai": SECRET}
    assert stat.S_IMODE(key_file(account).stat().st_mode) == 0o600
    assert stat.S_IMODE(key_file(account).parent.stat().st_mode) == 0o700

    wire.answers(failure(400, "no"))
    result = account.run("-m", "openai/gpt-5", "-c", "-p", "hi", "--debug", **addresses)
    assert wire.requests[1].path == "/v1/chat/completions"
    assert wire.requests[1].headers["authorization"] == f"Bearer {SECRET}"
    shown = account.run("config", **addresses).stdout
    assert "API key of openai" in shown and shown.rstrip().endswith("login")
    listed = account.run("login", "--list", **addresses).stdout
    assert [line.split(maxsplit=1) for line in listed.splitlines()[:3]] == [
        ["anthropic", "no key"],
        ["openai", "login"],
        ["google", "no key"],
    ]
    seen = f"{result.stdout}{result.stderr}{shown}{listed}{account.log_file()}{account.rows()}"
    assert "canary" not in seen


def test_provider_is_asked_for_when_none_is_named(account: Account, wire: Wire, addresses: dict[str, str]):
    wire.answers(LIST)
    with account.terminal("login", columns=120, env=addresses) as program:
        program.wait_for("Provider (anthropic, openai, google")
        program.type("openai\r")
        program.wait_for("Key for openai")
        program.type(f"{SECRET}\r")
        assert program.ended() == 0
    assert stored(account) == {"openai": SECRET}


def test_key_is_read_from_a_pipe_and_for_a_configured_provider(account: Account, wire: Wire):
    wire.answers(LIST)
    result = account.run("login", "wire", input=f"{SECRET}\n")
    assert result.returncode == 0, result.stderr
    assert wire.requests[0].headers["authorization"] == f"Bearer {SECRET}"
    wire.answers("Hello.")
    assert account.run("-m", "wire/x", "-c", "-p", "hi").stdout == "Hello.\n"
    assert wire.requests[1].headers["authorization"] == f"Bearer {SECRET}"
    wire.answers("Hello again.")
    assert account.run("-m", "wire/x", "-c", "-p", "hi", WIRE_KEY="sk-of-the-environment").stdout == "Hello again.\n"
    assert wire.requests[2].headers["authorization"] == "Bearer sk-of-the-environment"
    assert "environment WIRE_KEY (before login)" in account.run("login", "--list", WIRE_KEY="x").stdout
    result = account.run("login", "--remove", "wire")
    assert (result.returncode, result.stdout) == (0, "The key of wire was removed.\n")
    assert account.run("login", "wire", "--remove").stdout == "No key of wire was stored.\n"
    assert stored(account) == {}


def test_login_says_that_the_environment_overrides_it(account: Account, wire: Wire, addresses: dict[str, str]):
    wire.answers(LIST)
    result = account.run("login", "openai", input=SECRET, OPENAI_API_KEY="sk-other", **addresses)
    assert result.returncode == 0 and "OPENAI_API_KEY is also set and overrides it." in result.stdout


@pytest.mark.ordinary("openai")
@pytest.mark.parametrize("provider", ["openai", "anthropic", "google"])
def test_key_that_the_vendor_refuses_is_not_stored(
    account: Account, wire: Wire, addresses: dict[str, str], provider: str
):
    wire.answers(failure(401, f"bad key {SECRET}"))
    result = account.run("login", provider, input=SECRET, **addresses)
    refused(result, 1, "did not accept the key (401)", "Nothing was stored.")
    assert "canary" not in result.stderr + account.log_file()
    assert stored(account) == {}


@pytest.mark.ordinary("503", "scopes")
@pytest.mark.parametrize(
    ("answer", "doubt"),
    [
        (failure(503, "busy"), "could not answer (503)"),
        (failure(404, "no such path"), "(404)"),
        (failure(403, "not for listing"), "did not accept the key (403)"),
        (failure(401, "Missing scopes: api.model.read"), "Missing scopes"),
        (Answer(b'{"object": "list", "data": []}', 200, JSON), "listed no model"),
        (Answer(b"<html>hello</html>", 200, {"Content-Type": "text/html"}), "is not a model API: it sent a web page"),
    ],
    ids=["503", "404", "403", "scopes", "empty", "a page"],
)
def test_key_that_cannot_be_tried_is_stored_with_a_warning(account: Account, wire: Wire, answer: Answer, doubt: str):
    wire.answers(answer)
    result = account.run("login", "wire", input=SECRET)
    assert result.returncode == 0, result.stderr
    assert "The key of wire could not be tried; it is stored in" in result.stdout and doubt in result.stdout
    assert stored(account) == {"wire": SECRET}


def test_refused_key_of_a_variable_is_named(account: Account, wire: Wire):
    account.configure(f'[providers.groq]\nbase_url = "{wire.server.base_url}"\n')
    wire.answers(failure(401, "bad key"), failure(401, "bad key"))
    told = "Check the key in GROQ_API_KEY, which goes before one of `ikigai login groq`."
    refused(account.run("-m", "groq/x", "-p", "hi", GROQ_API_KEY=SECRET), 1, "did not accept the key (401)", told)
    tried = account.run("login", "groq", input="sk-another-0123456789", GROQ_API_KEY=SECRET)
    refused(tried, 1, "did not accept the key (401)", "Copy the key again")


def test_login_reports_a_provider_that_does_not_answer(account: Account, wire: Wire):
    result = account.run("login", "dead", input=SECRET)
    assert result.returncode == 0 and "dead cannot be reached at http://127.0.0.1:1/v1" in result.stdout
    assert stored(account) == {"dead": SECRET}


@pytest.mark.ordinary("sk a", "text6")
@pytest.mark.parametrize("text", ["", "\n", "sk a", "sk-1\nsk-2", "sk-\x1b[31m", "sk-é", "k" * 20_000])
def test_login_refuses_malformed_keys(account: Account, text: str):
    result = account.run("login", "openai", input=text)
    refused(result, 1, "othing was stored.")
    assert stored(account) == {}


@pytest.mark.ordinary("arguments0-*", "arguments2-*")
@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["login"], 2, ("Which provider is the key for?", "anthropic, openai, google")),
        (["login", "nobody"], 2, ("There is no provider 'nobody'", "[providers.nobody]")),
        (["login", "local"], 1, ("The local model needs no key.",)),
        (["login", "--remove"], 2, ("Which provider is the key for?",)),
    ],
)
def test_logins_that_are_none(account: Account, arguments: list[str], code: int, words: tuple[str, ...]):
    refused(account.run(*arguments, input=SECRET), code, *words)
    assert stored(account) == {}


@pytest.mark.ordinary("\\x03-130", "15-143", "\\x04-1")
@pytest.mark.parametrize(("key", "code"), [("\x03", 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129), ("\x04", 1)])
def test_login_ends_when_its_question_is_not_answered(account: Account, key: "str | signal.Signals", code: int):
    with account.terminal("login", "openai", columns=120) as program:
        program.wait_for("Key for openai")
        if isinstance(key, str):
            program.type("sk-half\x15" + key)
        else:  # a signal may overtake typed text in the kernel, whose echo would then follow the program's end
            program.process.send_signal(key)
        assert program.ended() == code
        program.assert_restored()
        assert b"sk-half" not in program.raw and "Traceback" not in program.text()
    assert stored(account) == {}


def test_damaged_key_file_is_reported(account: Account):
    file = key_file(account)
    file.parent.mkdir(parents=True)
    file.write_text("{canary")
    for arguments in (["config"], ["login", "--list"], [*ECHO, "-p", "hi"]):
        result = account.run(*arguments)
        refused(result, 2, f"{file} is damaged", "log in again")
        assert "canary" not in result.stderr


def test_no_key_reaches_a_child(account: Account, wire: Wire, tmp_path: Path):
    """The children are PostgreSQL's own programs; the local model and the embedded server have tests of their own."""
    wire.answers(LIST)
    account.run("login", "wire", input=SECRET)
    account.run(*ECHO, "-p", "hi")
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "pg_dump"  # writes down what it is given, and does what it should
    program.write_text(
        f"#!/bin/sh\nenv >> {tmp_path}/environment\n"
        'test "$1" != --version || { echo "pg_dump (PostgreSQL) 99.0"; exit; }\n'
        f'exec {embedded.find_binaries()}/pg_dump "$@"\n'
    )
    program.chmod(0o755)
    keys = dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "WIRE_KEY"), SECRET)
    result = account.run(
        "db", "dump", str(tmp_path / "dump"), PATH=f"{folder}:{os.environ['PATH']}", PGAPPNAME="kept", **keys
    )
    assert result.returncode == 0, result.stderr
    told = (tmp_path / "environment").read_text()
    assert "canary" not in told and "PGAPPNAME=kept" in told
    assert b"canary" not in (tmp_path / "dump").read_bytes()


def test_no_key_reaches_the_embedded_server(tmp_path: Path):
    home = tmp_path / "home"
    home.mkdir()
    account = Account(home, "embedded")
    keys = dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY"), SECRET)
    with account.terminal(*ECHO, env=keys) as program:
        program.ready()
        servers = [
            process
            for process in psutil.process_iter(["name", "cmdline", "environ"])
            if process.info["name"] in ("postgres", "python", "python3") and str(home) in str(process.info["cmdline"])
        ]
        found = [process for process in servers if process.pid != program.process.pid]
        assert found and not [process for process in found if "canary" in str(process.info["environ"])]
        program.leave()


def test_keys_and_who_answers_in_setup(account: Account, wire: Wire, addresses: dict[str, str]):
    wire.answers(LIST)
    account.run("login", "openai", input=SECRET, **addresses)
    result = account.run("setup", ANTHROPIC_API_KEY="sk-2", **addresses)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.splitlines()[1:] == [
        "key        anthropic: in the environment (ANTHROPIC_API_KEY)",
        "key        openai: stored by ikigai login",
        "ready      anthropic/claude-sonnet-5-5 answers when you run ikigai",
    ]
    rows = {row["key"]: row for row in lines_of(account.run("config", "--json", ANTHROPIC_API_KEY="sk-2").stdout)}
    assert rows["API key of openai"] == {
        "type": "setting", "key": "API key of openai", "value": "set", "origin": "login",
    }  # fmt: skip
    assert rows["API key of anthropic"]["origin"] == "environment ANTHROPIC_API_KEY"
    shutil.rmtree(key_file(account).parent)


def test_setup_with_a_key_fetches_no_model_and_asks_for_a_choice(account: Account):
    result = account.run("setup", GROQ_API_KEY=SECRET)
    refused(result, 1, "No model is chosen.", "ikigai config set model groq/NAME")
    assert "key        groq: in the environment (GROQ_API_KEY)" in result.stdout
    assert account.run("config", "set", "model", "groq/x").returncode == 0
    assert "ready      groq/x answers when you run" in account.run("setup", GROQ_API_KEY=SECRET).stdout


@pytest.mark.parametrize("api", ["chat", "anthropic"])
def test_log_file_leaves_out_requests_that_sdks_log(account: Account, wire: Wire, api: str):
    account.configure(f'[providers.wire]\nbase_url = "{wire.server.base_url}"\napi = "{api}"\n')
    wire.answers(failure(400, "no"))
    result = account.run("-m", "wire/x", "--debug", "-p", "a private matter", ANTHROPIC_LOG="debug", OPENAI_LOG="debug")
    assert result.returncode == 1 and len(wire.requests) == 1
    assert "DEBUG ikigai" in account.log_file() and "private" not in account.log_file()
    assert "private" not in result.stderr


@pytest.mark.ordinary("mistral", "ollama")
@pytest.mark.parametrize("name", PRESETS)
def test_key_of_a_preset_is_tried_and_stored(account: Account, wire: Wire, name: str):
    wire.answers(LIST, LIST)
    account.configure(f'[providers.{name}]\nbase_url = "{wire.server.base_url}"\n')
    has_list = bool(PRESETS[name].key_variables)  # those on this machine are asked when they are looked for
    result = account.run("login", name, input=f"{SECRET}\n")
    assert result.stdout.splitlines() == [
        f"The key of {name} works; it is stored in {key_file(account)}.",
        f"To use it: ikigai -m {name}/MODEL" + (f"; ikigai models {name} lists its models." if has_list else "."),
    ]
    assert wire.requests[-1].headers["authorization"] == f"Bearer {SECRET}"
    assert stored(account) == {name: SECRET}


def test_preset_shows_its_models_after_login(account: Account, wire: Wire):
    servers = (f'[providers.{name}]\nbase_url = "{wire.server.base_url}"\n' for name in ("groq", "moonshot"))
    account.configure("".join(servers))
    wire.answers(LIST)
    assert account.run("login", "groq", input=SECRET).returncode == 0
    listed = account.run("models", "groq")
    assert "groq/gpt-5-mini" in listed.stdout and listed.stderr == ""
    wire.answers(LIST)
    with account.terminal(columns=100) as program:
        program.ready()
        program.wait_for("/model groq/NAME chooses a model.")
        program.say("/login moonshot")
        program.wait_for("Create a key at https://platform.moonshot.ai/console/api-keys")
        program.wait_for("Key for moonshot (hidden):")
        program.type(f"{SECRET}\r")
        program.wait_for("To use it: /model moonshot/NAME")
        program.say("/model")
        program.wait_for("moonshot/gpt-5-mini")
        program.type("\x1b")
        program.wait(lambda: "Esc leaves" not in program.text(), "the end of the list")
        program.leave()


def test_key_of_a_server_on_this_machine_is_not_demanded(account: Account):
    with account.terminal("login", "ollama", columns=100) as program:
        program.wait_for("ollama needs no key, unless its server was started with one.")
        program.wait_for("Key for ollama (hidden):")
        program.type("\x03")
        assert program.ended() == 130
