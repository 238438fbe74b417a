"""Replaces secrets in an input before anything follows from it, so that no event and no size is made of them.

what came                                replaced
result of a tool, or why it did not run  ikigai's own keys and well-known tokens
message of another agent, summary        ikigai's own keys
reply                                    nothing: its stream was redacted (`agent.redacted_reply`)
what the user typed                      nothing
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ikigai.core.events import MailSent, UserMessage
from ikigai.core.messages import ToolResult
from ikigai.core.state.inputs import Also, Condensed, Denied, Input, Mailed, Submitted, ToolDone

if TYPE_CHECKING:
    from ikigai.core.redaction import Redactor

replace = msgspec.structs.replace

FOREIGN = (ToolDone, Denied, Submitted, Mailed, Condensed)
"""Inputs that may hold words of others than the user."""


def no_redactor() -> Redactor:
    """Return what replaces nothing."""
    from ikigai.core.redaction import Redactor

    return Redactor({}, formats=False)


def redacted(incoming: Input, redactor: Redactor) -> Input:
    """Return the input without secrets; the identical one where it holds none."""
    own = redactor.own
    match incoming:
        case ToolDone(_, result, also):
            return replace(
                incoming, result=_result(result, redactor), also=tuple(_also(each, redactor) for each in also)
            )
        case Denied(_, result):
            return replace(incoming, result=_result(result, redactor))
        case Submitted(text, _, sender) if sender:
            return replace(incoming, text=own(text))
        case Mailed(mails):
            return Mailed(tuple(mail if mail.by_user else replace(mail, text=own(mail.text)) for mail in mails))
        case Condensed(summary):
            return replace(incoming, summary=replace(summary, text=own(summary.text)))
        case _:
            return incoming


def _result(result: ToolResult, redactor: Redactor) -> ToolResult:
    return replace(result, content=redactor.foreign(result.content), diff=redactor.foreign(result.diff))


def _also(fact: Also, redactor: Redactor) -> Also:
    return replace(fact, text=redactor.own(fact.text)) if isinstance(fact, MailSent) else fact


def key_notice(message: UserMessage, id: int, redactor: Redactor) -> str:
    """Return what the user is told when the message `id` holds what looks like a key; "" where it does not."""
    name = "" if message.sender else redactor.key_in(message.text)
    if not name:
        return ""
    told = f"Your message holds what looks like a key ({name}). It is stored as typed."
    return f"{told} To remove it: ikigai db purge --ids {id}"
