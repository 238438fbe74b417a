"""These tests check the context that is learned from a refused request."""

import pytest
from msgspec.structs import replace

from ikigai.core.request.model import ModelLimits
from ikigai.core.state.decisions.overflow import learned_context
from ikigai.core.state.inputs import Submitted
from tests.core.agent import Agent


@pytest.mark.parametrize("message", ["Too long.", "The maximum context length is 300 tokens."])
@pytest.mark.parametrize("known", [ModelLimits(200, 1_000), ModelLimits(290, 40)])
def test_context_never_grows_with_what_a_provider_refuses(message: str, known: ModelLimits) -> None:
    agent = Agent()
    agent.happen(Submitted("x" * 2_000))  # more than the context that is known of by now
    memory = replace(agent.memory, limits=known)
    assert memory.used > known.context
    assert learned_context(memory, message) <= known.context
