"""Replaces secrets in what comes to an agent before anything follows from it, so that no event and no size is made of
them.

    what came                                            replaced
    result of a tool, or why it did not run              ikigai's own keys and well-known tokens
    what another agent says, a summary, the answer to    ikigai's own keys
      a command, why a request failed, instructions
    reply                                                nothing: its stream was redacted (`agent.redacted_reply`)
    what the user typed                                  nothing
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ikigai.core.events import Event, Filtered, MailSent, UserMessage
from ikigai.core.messages import ToolResult
from ikigai.core.state.inputs import Also, Condensed, Exceeded, Failed, Input, Mailed, Ran, Submitted

if TYPE_CHECKING:
    from ikigai.core.redaction import Redactor

replace = msgspec.structs.replace

FOREIGN = (Submitted, Mailed, Condensed, Failed, Exceeded, Ran)
"""Inputs that may hold words of others than the user, and are not redacted where they are made."""

TYPED = (UserMessage, MailSent, Filtered)
"""Events that may hold words of the user."""


def no_redactor() -> Redactor:
    """Return what replaces nothing."""
    from ikigai.core.redaction import Redactor

    return Redactor({}, formats=False)


def redacted(incoming: Input, redactor: Redactor) -> Input:
    """Return the input without secrets."""
    own = redactor.own
    match incoming:
        case Submitted(text, _, sender) if sender:
            return replace(incoming, text=own(text))
        case Mailed(mails):
            return Mailed(tuple(mail if mail.by_user else replace(mail, text=own(mail.text)) for mail in mails))
        case Condensed(summary):
            return replace(incoming, summary=replace(summary, text=own(summary.text)))
        case Failed(_, reason) | Exceeded(_, reason):
            return replace(incoming, reason=own(reason))
        case Ran(_, output):
            return replace(incoming, output=own(output))
        case _:
            return incoming


def redacted_result(result: ToolResult, redactor: Redactor) -> ToolResult:
    """Return the result of a tool without secrets."""
    return replace(result, content=redactor.foreign(result.content), diff=redactor.foreign(result.diff))


def redacted_facts(also: tuple[Also, ...], redactor: Redactor) -> tuple[Also, ...]:
    """Return what a call came to besides its result, without ikigai's own keys."""
    return tuple(replace(each, text=redactor.own(each.text)) if isinstance(each, MailSent) else each for each in also)


def key_notice(event: Event, id: int, redactor: Redactor) -> str:
    """Return what the user is told when the event `id` holds what looks like a key; "" where it does not."""
    name = redactor.key_in(typed) if (typed := _typed(event)) else ""
    if not name:
        return ""
    told = f"Your message holds what looks like a key ({name}). It is stored as typed."
    return f"{told} To remove it: ikigai db purge --ids {id}"


def _typed(event: Event) -> str:
    """Return the words of the user in an event, "" if there are none."""
    match event:
        case UserMessage(text, sender=""):
            return text
        case MailSent(_, text, by_user=True):
            return text
        case Filtered(_, criteria):
            return criteria
        case _:
            return ""
