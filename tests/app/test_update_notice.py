"""Tests of the update notice against a package index of the test's own."""

import json
import logging
from importlib.metadata import PathDistribution
from pathlib import Path

import pytest

from ikigai.app.update_notice import find_update, index_address, installed_distribution
from tests.support.wire_server import Answer, WireServer


def installed(folder: Path, version: str) -> PathDistribution:
    info = folder / f"ikigai_chat-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.4\nName: ikigai-chat\nVersion: {version}\n")
    return PathDistribution(info)


def listing(*files: str | dict[str, object]) -> Answer:
    """Return an index's page: names of files, or their entries."""
    entries = [{"filename": each, "url": "x"} if isinstance(each, str) else {"url": "x", **each} for each in files]
    body = json.dumps({"meta": {"api-version": "1.1"}, "name": "ikigai-chat", "files": entries})
    return Answer(body.encode(), headers={"Content-Type": "application/vnd.pypi.simple.v1+json"})


def wheel(version: str, **more: object) -> dict[str, object]:
    return {"filename": f"ikigai_chat-{version}-py3-none-any.whl", **more}


@pytest.mark.parametrize(
    ("running", "files", "newest"),
    [
        ("0.1.0", [wheel("0.1.0"), wheel("0.10.0"), "ikigai_chat-0.9.0.tar.gz"], "0.10.0"),
        ("0.1.0", [wheel("0.1.0"), wheel("0.2.0rc1"), wheel("0.3.0", yanked="broken")], ""),
        ("0.2.0rc1", [wheel("0.2.0rc2")], "0.2.0rc2"),
        (
            "0.1.0",
            [{**wheel("0.4.0"), "requires-python": ">=4"}, {**wheel("0.3.0"), "requires-python": ">=3.8"}],
            "0.3.0",
        ),
        ("9.0", [wheel("0.1.0"), "README", "x-y.whl"], ""),
        ("0.1.0", [], ""),
    ],
)
async def test_newest_version_is_told(tmp_path: Path, running: str, files: list[dict[str, object]], newest: str):
    found, file = installed(tmp_path, running), tmp_path / "update.json"
    async with WireServer([listing(*files)]) as server:
        told = await find_update(found, file, f"{server.base_url}/simple/")
        assert "\n" not in told and bool(told) is bool(newest)
        if newest:
            assert told.startswith(f"ikigai {newest} is available; this is {running}.") and f"=={newest}" in told
        (request,) = server.requests
        assert request.path == "/v1/simple/ikigai-chat/"
        assert await find_update(found, file, f"{server.base_url}/simple/") == "" and len(server.requests) == 1
        file.write_text('{"checked": 1.0}')
        server.script[:] = [listing(*files)]
        assert await find_update(found, file, f"{server.base_url}/simple") == told, "a day later it is asked again"


@pytest.mark.parametrize(
    "answer", [Answer(b"no", 500), Answer(b"<html>"), Answer(b"", cut=0, end="reset"), Answer(b'{"files": 1}')]
)
async def test_errors_are_silent_but_for_the_log(tmp_path: Path, answer: Answer, caplog: pytest.LogCaptureFixture):
    async with WireServer([answer]) as server:
        with caplog.at_level(logging.WARNING, "ikigai"):
            assert await find_update(installed(tmp_path, "0.1.0"), tmp_path / "update.json", server.base_url) == ""
    assert "no check for a newer version" in caplog.text and "Traceback" not in caplog.text


async def test_checkout_asks_nobody(tmp_path: Path):
    assert installed_distribution() is None, "the tests run in a checkout"
    async with WireServer() as server:
        assert await find_update(None, tmp_path / "update.json", server.base_url) == ""
        assert not server.requests and not (tmp_path / "update.json").exists()


def test_index_address_is_that_of_pip(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PIP_INDEX_URL", "http://mirror.test/simple/")
    assert index_address() == "http://mirror.test/simple/"
    monkeypatch.delenv("PIP_INDEX_URL")
    assert index_address().startswith("https://")
