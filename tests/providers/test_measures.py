"""The upper bound of a message holds for every format: an open turn is only measured once that is too much."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikigai.core.events.messages import Message
from ikigai.core.state.open_turn import MAX_MESSAGE_BYTES, max_bytes
from ikigai.providers.models.models import ModelCatalog
from ikigai.providers.pool import Endpoint, LocalModel, ProviderPool
from tests.providers.formats import FORMATS
from tests.providers.requests import assistants, results, users

POOL = ProviderPool(
    {form.provider: Endpoint("http://127.0.0.1:9", lambda: "key", form.api) for form in FORMATS.values()},
    LocalModel("", 4096, Path()),
    ModelCatalog(),
)


@pytest.mark.parametrize("name", FORMATS)
@given(message=st.one_of(users, assistants, results))
def test_no_message_takes_more_than_its_most(name: str, message: Message) -> None:
    assert POOL.encoder(FORMATS[name].model).message(message) <= MAX_MESSAGE_BYTES + max_bytes(message.blocks)
