"""Tests of what is said where no model is chosen: with a key, the user has to choose one."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ikigai.cli.doctor.models import check_models
from ikigai.config import Config
from ikigai.core.errors import IkigaiError
from ikigai.headless.tree_commands import check_model
from ikigai.providers.pool import ProviderPool

KEYS = {"groq": "environment GROQ_API_KEY"}


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({}, ("none available", "Run: ikigai login    or: ikigai setup")),
        (KEYS, ("none chosen", "Choose one: ikigai config set model groq/NAME")),
    ],
)
async def test_doctor_says_how_to_get_a_model(
    keys: dict[str, str], said: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("GROQ_API_KEY", "gsk-0123456789")
    monkeypatch.setattr(ProviderPool, "local_model", lambda pool: "")
    *_, found = await check_models(Config(keys=keys), online=False)
    assert (found.about, found.said, found.remedy) == ("model", *said)


@pytest.mark.parametrize(("keys", "remedy"), [({}, "Run: ikigai login"), (KEYS, "Choose one with")])
def test_print_mode_says_how_to_get_a_model(keys: dict[str, str], remedy: str):
    services = SimpleNamespace(config=Config(keys=keys))
    with pytest.raises(IkigaiError) as raised:
        check_model(cast(Any, services), {})
    assert raised.value.remedy.startswith(remedy)
