"""Tests of the update notice at the prompt, against a package index of the test's own."""

import json
from pathlib import Path

import ikigai
from tests.e2e.account import ECHO, Account, Wire
from tests.support.wire_server import Answer

AS_INSTALLED = "tests.e2e.as_installed"
NEWER = "ikigai_chat-99.1.0-py3-none-any.whl"


def listing(*names: str) -> Answer:
    body = {
        "meta": {"api-version": "1.1"},
        "name": "ikigai-chat",
        "files": [{"filename": n, "url": "x"} for n in names],
    }
    return Answer(json.dumps(body).encode(), headers={"Content-Type": "application/vnd.pypi.simple.v1+json"})


def installed(folder: Path) -> str:
    """Make a folder in which the running program is installed as from an index; return it for TEST_SITE."""
    info = folder / "ikigai_chat-0.0.1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.4\nName: ikigai-chat\nVersion: 0.0.1\n")
    (folder / "ikigai").symlink_to(Path(ikigai.__file__).parent)
    return str(folder)


def test_one_line_tells_of_a_newer_version_once_a_day(account: Account, wire: Wire, tmp_path: Path):
    env = {
        "TEST_SITE": installed(tmp_path / "site"),
        "IKIGAI_TERMINAL_UPDATE_NOTICE": "true",
        "PIP_INDEX_URL": f"{wire.server.base_url}/simple/",
    }
    wire.answers(listing("ikigai_chat-0.0.1-py3-none-any.whl", NEWER), listing(NEWER))
    with account.terminal(*ECHO, module=AS_INSTALLED, env=env, columns=160) as program:
        program.ready()
        program.wait_for("ikigai 99.1.0 is available; this is 0.0.1. To update: ")
        program.say("still here")
        program.wait_for("● still here")
        assert program.text().count("is available") == 1
        program.leave()
    assert [each.path for each in wire.requests] == ["/v1/simple/ikigai-chat/"]
    assert account.said("user") == ["still here"], "the notice is no message"
    with account.terminal(*ECHO, module=AS_INSTALLED, env=env, columns=160) as program:
        program.ready().say("again")
        program.wait_for("● again")
        program.leave()
    assert len(wire.requests) == 1, "a day has not passed"


def test_package_index_is_not_asked_without_the_setting(account: Account, wire: Wire, tmp_path: Path):
    env = {
        "TEST_SITE": installed(tmp_path / "site"),
        "PIP_INDEX_URL": f"{wire.server.base_url}/simple/",
    }
    with account.terminal(*ECHO, module=AS_INSTALLED, env=env) as program:
        program.ready().say("hello")
        program.wait_for("● hello")
        program.leave()
    assert wire.requests == []
