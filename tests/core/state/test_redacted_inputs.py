"""These tests check what is replaced in each input, and that the loop redacts each kind of FOREIGN_INPUTS."""

import pytest

from ikigai.core.agents.mail import Mail
from ikigai.core.events.events import Filtered, MailSent, Summarized, UserMessage
from ikigai.core.secrets.redaction import Redactor
from ikigai.core.state.decisions.redacted_inputs import FOREIGN_INPUTS, TYPED_EVENTS, key_notice, redact_input
from ikigai.core.state.inputs import (
    CallModel,
    CommandFinished,
    Condensed,
    ContextOverflowed,
    Failed,
    Input,
    MailDelivered,
    Submitted,
    ToolsRefused,
)

KEY, MARKER = "sk-own-7Qz81xKp-0123", "[redacted: A_KEY]"
OWN = Redactor({"A_KEY": KEY}, formats=True)


def inputs(text: str) -> list[Input]:
    """Return every input with text of others than the user."""
    return [
        Submitted(text, sender="boss"),
        MailDelivered((Mail(1, "id", "kid", text),)),
        Condensed(Summarized(text)),
        Failed(CallModel(1), text, ()),
        ContextOverflowed(CallModel(1), text),
        CommandFinished("/recall it", text),
        ToolsRefused(CallModel(1), text),
    ]


@pytest.mark.parametrize("number", range(7))
def test_words_of_others_lose_the_key(number: int):
    before, after = inputs(f"take {KEY}!")[number], inputs(f"take {MARKER}!")[number]
    assert redact_input(before, OWN) == after and isinstance(before, FOREIGN_INPUTS)


@pytest.mark.parametrize(
    "typed", [Submitted(KEY), MailDelivered((Mail(1, "id", "kid", KEY, by_user=True),)), CommandFinished(KEY, "")]
)
def test_words_of_the_user_stay(typed: Input):
    assert redact_input(typed, OWN) == typed


@pytest.mark.parametrize("event", [UserMessage(KEY), MailSent("id", KEY, by_user=True), Filtered("forget", KEY)])
def test_user_is_told_of_a_key_in_their_words(event: UserMessage | MailSent | Filtered):
    told = key_notice(event, 47, OWN)
    assert "(A_KEY)" in told and told.endswith("ikigai db purge --ids 47") and isinstance(event, TYPED_EVENTS)


@pytest.mark.parametrize("event", [UserMessage(KEY, sender="kid"), MailSent("id", KEY), UserMessage("no key")])
def test_user_is_not_told_of_words_of_others(event: UserMessage | MailSent):
    assert key_notice(event, 47, OWN) == ""
