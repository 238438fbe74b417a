"""Messages that begin or steer a turn, refused where no request has room for them."""

from ikigai.core.errors import NoModel, Rejected
from ikigai.core.events.events import UserMessage
from ikigai.core.request.build import append_event
from ikigai.core.state.memory import Memory, measure, replace
from ikigai.core.text import tokens
from ikigai.core.text.sanitize import storable

SURE_OVERFLOW_FACTOR = 4
"""Multiple of the model's context from which a message is refused unsent: below it, bytes may have counted too many."""


def accept_message(memory: Memory, message: UserMessage) -> UserMessage:
    """Return the message as it is stored. Raise Rejected if no request has room for it."""
    message = replace(message, text=storable(message.text), sender=storable(message.sender))
    if not memory.model:
        raise NoModel()
    message_bytes = measure(memory, append_event((), message))
    size = tokens.count_tokens(memory.provider, memory.model, memory.envelope + message_bytes)
    if size > SURE_OVERFLOW_FACTOR * memory.limits.context:
        raise Rejected(
            f"This message takes about {tokens.format_tokens(size)} tokens, and {memory.model} takes"
            f" {tokens.format_tokens(memory.limits.context)} in all.",
            "Send a shorter one, or choose a model with a larger context with /model.",
        )
    if not memory.budget:
        size = tokens.count_tokens(memory.provider, memory.model, memory.size + message_bytes)
        if memory.window.turns and size > memory.room:
            raise Rejected(
                f"Context full: {tokens.format_tokens(size)} of {tokens.format_tokens(memory.room)} tokens, "
                "and the window is off.",
                "Use /clear or /rewind, or switch the window on with /budget 100k.",
            )
    return message
