"""The prebuilt specifications equal those that the tools themselves give."""

from pathlib import Path

import pytest

from ikigai.app.tools.redaction_keys import BRAVE_KEY
from ikigai.app.tools.tool_runtime import ToolRuntime
from ikigai.config import Config
from ikigai.config.records import ToolSettings
from ikigai.tools import builtin_specs as told
from tests.tools.builtin_specs import made


def test_builtin_specs_equal_those_of_the_tools():
    assert told.builtin_specs() == made(), "write it anew: python -m tests.tools.builtin_specs"


@pytest.mark.parametrize("key", ["", "key"])
def test_without_a_key_there_is_no_web_search(key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(BRAVE_KEY, key)
    shop = ToolRuntime(Config(), tmp_path)
    offered = shop._registry(_nothing, _nothing, lambda: pytest.fail("asked"))  # type: ignore[arg-type]
    assert tuple(spec for spec in shop.specs if not spec.hosted) == offered.specs
    assert ("web_search" in {spec.name for spec in shop.specs}) == bool(key)


@pytest.mark.parametrize("network", [True, False])
def test_of_a_sandbox_the_shell_itself_tells(network: bool, tmp_path: Path):
    shop = ToolRuntime(Config(tools=ToolSettings(sandbox="bwrap", sandbox_network=network)), tmp_path)
    (shell,) = (spec for spec in shop.specs if spec.name == "shell")
    assert f"only {shop.directory} is writable" in shell.description
    assert ("There is no network." in shell.description) != network
    assert [spec.name for spec in shop.specs] == [spec.name for spec in ToolRuntime(Config(), tmp_path).specs]


def test_background_processes_stay_with_their_agent_when_it_is_reopened(tmp_path: Path):
    shop = ToolRuntime(Config(), tmp_path)
    assert shop._running("one") is shop._running("one") is not shop._running("two")


async def _nothing(asked: str) -> str:
    return ""
