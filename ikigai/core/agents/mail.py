"""Messages between agents: what one is on its way, and what an agent reports to the one that it works for."""

from typing import TYPE_CHECKING

from ikigai.core.events import AssistantMessage, Ending, Event, MailSent
from ikigai.core.messages import Role, Text
from ikigai.core.record import Record
from ikigai.core.sanitize import storable

if TYPE_CHECKING:
    from ikigai.core.state.memory import Memory

WORKS_FOR = "works_for"
"""The setting of an agent that another one's tool made: "MAKER AGENT", both by id. Forks of it inherit the setting, but
are not that agent, and report to nobody.
"""
MOST = 50_000
"""Characters of one message; what is longer is cut, and says so."""


class Mail(Record, frozen=True):
    """A message that was sent and has not come yet: `id` is that of its event, `sender` the id of an agent, called
    `name` now; `ending` and `by_user` are as in `MailSent`.
    """

    id: int
    sender: str
    name: str
    text: str
    ending: str = ""
    by_user: bool = False

    @property
    def shown(self) -> str:
        """Whose words the model is told that these are: "" for the user's."""
        return "" if self.by_user else self.name


def maker(memory: "Memory") -> str:
    """The id of the agent that this one works for; "" for nobody."""
    made_by, _, agent = str(memory.own.get(WORKS_FOR) or "").partition(" ")
    return made_by if agent == memory.agent else ""


def report(memory: "Memory", said: tuple[Event, ...], ending: Ending, reason: str) -> tuple[MailSent, ...]:
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


def together(mails: tuple[Mail, ...]) -> str:
    """The text of the message that these begin a turn with."""
    if len(mails) == 1:
        return mails[0].text
    return "\n\n".join(f"[{mail.name}]\n{mail.text}" for mail in mails)


def cut(text: str) -> str:
    """The text, or as much of it as a message may hold."""
    left = len(text) - MOST
    return text if left <= 0 else f"{text[:MOST]}\n[cut: {left:,} more characters]"
