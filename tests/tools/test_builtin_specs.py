"""What models are told of the tools: ready made, and equal to what the tools tell themselves."""

from pathlib import Path

import pytest

from ikigai.app.redaction import BRAVE_KEY
from ikigai.app.tool_runtime import Workshop
from ikigai.config import Config
from ikigai.config.records import Tools
from ikigai.tools import builtin_specs as told
from tests.tools.builtin_specs import made


def test_what_is_told_is_what_the_tools_tell():
    assert told.specs() == made(), "write it anew: python -m tests.tools.builtin_specs"


@pytest.mark.parametrize("key", ["", "key"])
def test_without_a_key_there_is_no_web_search(key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(BRAVE_KEY, key)
    shop = Workshop(Config(), tmp_path)
    offered = shop._registry(_nothing, _nothing, lambda: pytest.fail("asked"))  # type: ignore[arg-type]
    assert shop.specs == offered.specs
    assert ("web_search" in {spec.name for spec in shop.specs}) == bool(key)


@pytest.mark.parametrize("network", [True, False])
def test_of_a_sandbox_the_shell_itself_tells(network: bool, tmp_path: Path):
    shop = Workshop(Config(tools=Tools(sandbox="bwrap", sandbox_network=network)), tmp_path)
    (shell,) = (spec for spec in shop.specs if spec.name == "shell")
    assert f"only {shop.directory} can be written to" in shell.description
    assert ("There is no network." in shell.description) != network
    assert [spec.name for spec in shop.specs] == [spec.name for spec in Workshop(Config(), tmp_path).specs]


def test_what_an_agent_runs_in_the_background_is_its_own_however_often_it_is_opened(tmp_path: Path):
    shop = Workshop(Config(), tmp_path)
    assert shop._running("one") is shop._running("one") is not shop._running("two")


async def _nothing(asked: str) -> str:
    return ""
