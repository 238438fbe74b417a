"""Tests of the lines about an agent that is new, or has no model."""

import pytest

from ikigai.core.state.memory import replace
from ikigai.core.vendors import PRESETS
from ikigai.providers.pool import LOCAL_MODEL
from ikigai.repl.welcome import first_lines, missing_model, way_to_a_model
from tests.core.agent import Agent


@pytest.mark.parametrize("model", ["", LOCAL_MODEL])
def test_key_of_a_provider_without_a_default_model_leads_to_a_choice(model: str):
    memory = replace(Agent().memory, settings={"model": model})
    for provider in PRESETS:
        lines = first_lines(way_to_a_model((provider,), ()), "~/work", memory)
        assert f"/model {provider}/NAME chooses a model." in lines
        assert not [line for line in lines if "/login" in line or "ikigai setup" in line]
        assert lines[0] == "Folder: ~/work" and max(map(len, lines[2:])) <= 40
    found = first_lines(way_to_a_model((), ("local/x", "ollama/qwen3:8b")), "~", memory)
    assert "/model lists the models found here." in found and not any("/login" in line for line in found)
    assert "/login anthropic connects a real model." in first_lines(way_to_a_model((), ("local/x",)), "~", memory)


def test_older_agent_without_a_model_is_told_of_its_keys_and_servers():
    assert missing_model(way_to_a_model(("groq",), ())) == ("No model yet. /model groq/NAME chooses a model.",)
    assert missing_model(way_to_a_model((), ("vllm/x",)))[0] == ("No model yet. /model lists the models found here.")
    assert missing_model(way_to_a_model((), ()))[0].startswith("No model yet. /login anthropic adds a key;")
