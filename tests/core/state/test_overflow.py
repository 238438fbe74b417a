"""What a request that was too large teaches of the model."""

import pytest
from msgspec.structs import replace

from ikigai.core.model import Limits
from ikigai.core.state.inputs import Submitted
from ikigai.core.state.overflow import learned
from tests.core.agent import Agent


@pytest.mark.parametrize("message", ["Too long.", "The maximum context length is 300 tokens."])
@pytest.mark.parametrize("known", [Limits(200, 1_000), Limits(290, 40)])
def test_a_context_never_grows_with_what_a_provider_refuses(message: str, known: Limits) -> None:
    agent = Agent()
    agent.happen(Submitted("x" * 2_000))  # more than the context that is known of by now
    memory = replace(agent.memory, limits=known)
    assert memory.used > known.context
    assert learned(memory, message) <= known.context
