"""Write the mail that an agent sends at the end of a turn to the agents that it works for."""

from ikigai.core.agents.mail import WORKS_FOR, cut
from ikigai.core.events.events import AssistantMessage, Ending, Event, MailSent
from ikigai.core.events.messages import Role, Text
from ikigai.core.state.memory import Memory
from ikigai.core.text.sanitize import storable


def working_for(memory: Memory) -> str:
    """Return the id of the agent that this one works for; "" for none."""
    made_by, _, agent = str(memory.own.get(WORKS_FOR) or "").partition(" ")
    return made_by if agent == memory.agent else ""


def report_turn(memory: Memory, last: tuple[Event, ...], ending: Ending, reason: str) -> tuple[MailSent, ...]:
    """Return the mail at the end of the open turn, with `last` as its last events: its last text, or why it failed.

    The agent that made this one gets mail only about turns that another agent began. A talk with the user stays here,
    unless the turn took work.
    """
    turn = memory.open
    to = (working_for(memory) if turn.sender else "", *turn.reply_to) if turn else ()
    receivers = dict.fromkeys(filter(None, to))
    if not (turn and receivers):
        return ()
    replies = [
        "".join(block.text for block in message.blocks if isinstance(block, Text))
        for message in turn.messages
        if message.role is Role.ASSISTANT
    ]
    replies += [event.text for event in last if isinstance(event, AssistantMessage)]
    text = next((text for text in reversed(replies) if text.strip()), "")
    if ending is not Ending.COMPLETED:
        text = f"[the turn did not end as it should: {reason or ending.value}]\n{text}".rstrip()
    text = storable(cut(text or "[no words]"))
    return tuple(MailSent(to, text, ending=ending.value, attended=turn.attended) for to in receivers)
