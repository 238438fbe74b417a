"""Replace secrets in inputs before an agent decides on them, so that no event and no size holds them.

text                                                 replaced
result of a tool, or why it did not run              ikigai's own keys and well-known tokens
message of another agent, a summary, the answer      ikigai's own keys
  to a command, why a request failed, instructions
reply                                                nothing: its stream was redacted (`core.request.reply_builder`)
text that the user typed                             nothing
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ikigai.core.events.events import Event, Filtered, MailSent, UserMessage
from ikigai.core.events.messages import ToolResult
from ikigai.core.state.inputs import (
    AdditionalEvent,
    CommandFinished,
    Condensed,
    ContextOverflowed,
    Failed,
    Input,
    MailDelivered,
    Submitted,
    ToolsRefused,
)

if TYPE_CHECKING:
    from ikigai.core.secrets.redaction import Redactor

replace = msgspec.structs.replace

FOREIGN_INPUTS = (Submitted, MailDelivered, Condensed, Failed, ContextOverflowed, ToolsRefused, CommandFinished)
"""Inputs that may hold words of others than the user, and are not redacted where they are made."""

TYPED_EVENTS = (UserMessage, MailSent, Filtered)
"""Events that may hold words of the user."""


def no_redactor() -> Redactor:
    """Return a redactor that replaces nothing."""
    from ikigai.core.secrets.redaction import Redactor

    return Redactor({}, formats=False)


def may_hold_foreign_words(incoming: Input) -> bool:
    """Return True if `redact_input` may change this input."""
    return isinstance(incoming, FOREIGN_INPUTS) and not (isinstance(incoming, Submitted) and not incoming.sender)


def redact_input(incoming: Input, redactor: Redactor) -> Input:
    """Return the input without secrets."""
    own = redactor.own
    match incoming:
        case Submitted(text, _, sender) if sender:
            return replace(incoming, text=own(text))
        case MailDelivered(mails):
            return MailDelivered(tuple(mail if mail.by_user else replace(mail, text=own(mail.text)) for mail in mails))
        case Condensed(summary):
            return replace(incoming, summary=replace(summary, text=own(summary.text)))
        case Failed(_, reason, outage=outage):
            return replace(incoming, reason=own(reason), outage=own(outage))
        case ContextOverflowed(_, reason) | ToolsRefused(_, reason):
            return replace(incoming, reason=own(reason))
        case CommandFinished(_, output):
            return replace(incoming, output=own(output))
        case _:
            return incoming


def redact_result(result: ToolResult, redactor: Redactor) -> ToolResult:
    """Return the result of a tool without secrets."""
    return replace(result, content=redactor.foreign(result.content), diff=redactor.foreign(result.diff))


def redact_events(events: tuple[AdditionalEvent, ...], redactor: Redactor) -> tuple[AdditionalEvent, ...]:
    """Return the additional events of a call without ikigai's own keys."""
    return tuple(replace(each, text=redactor.own(each.text)) if isinstance(each, MailSent) else each for each in events)


def key_notice(event: Event, id: int, redactor: Redactor) -> str:
    """Return a notice for the user if the event `id` seems to hold a key, "" if it does not."""
    name = redactor.key_in(typed) if (typed := _typed(event)) else ""
    if not name:
        return ""
    notice = f"Your message contains what looks like a key ({name}). It is stored as typed."
    return f"{notice} To remove it: ikigai db purge --ids {id}"


def _typed(event: Event) -> str:
    """Return the words of the user in an event, or ""."""
    match event:
        case UserMessage(text, sender=""):
            return text
        case MailSent(_, text, by_user=True):
            return text
        case Filtered(_, criteria):
            return criteria
        case _:
            return ""
