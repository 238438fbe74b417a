"""What an agent reports to the one that it works for when a turn ends."""

from ikigai.core.agents.mail import WORKS_FOR, cut
from ikigai.core.events import AssistantMessage, Ending, Event, MailSent
from ikigai.core.messages import Role, Text
from ikigai.core.sanitize import storable
from ikigai.core.state.memory import Memory


def maker(memory: Memory) -> str:
    """The id of the agent that this one works for; "" for nobody."""
    made_by, _, agent = str(memory.own.get(WORKS_FOR) or "").partition(" ")
    return made_by if agent == memory.agent else ""


def report(memory: Memory, said: tuple[Event, ...], ending: Ending, reason: str) -> tuple[MailSent, ...]:
    """What is sent when the open turn ends, were `said` its last events: its last words, or why it failed.

    Only of turns that another agent began: what the user talks about with this one stays here.
    """
    to, turn = maker(memory), memory.open
    if not (to and turn and turn.sender):
        return ()
    spoken = [
        "".join(block.text for block in message.blocks if isinstance(block, Text))
        for message in turn.messages
        if message.role is Role.ASSISTANT
    ]
    spoken += [fact.text for fact in said if isinstance(fact, AssistantMessage)]
    words = next((text for text in reversed(spoken) if text.strip()), "")
    if ending is not Ending.COMPLETED:
        words = f"[the turn did not end as it should: {reason or ending.value}]\n{words}".rstrip()
    return (MailSent(to, storable(cut(words or "[no words]")), ending=ending.value),)
