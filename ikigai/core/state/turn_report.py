"""What an agent reports when a turn ends: to the one that it works for, and to whoever gave it work."""

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

    To its maker only of turns that another agent began: what the user talks about with this one stays here, unless
    work was taken within it.
    """
    turn = memory.open
    to = (*((maker(memory),) if turn.sender else ()), *turn.reply_to) if turn else ()
    if not (turn and any(to)):
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
    words = storable(cut(words or "[no words]"))
    each_once = dict.fromkeys(filter(None, to))
    return tuple(MailSent(each, words, ending=ending.value, attended=turn.attended) for each in each_once)
