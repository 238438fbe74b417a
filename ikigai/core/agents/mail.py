"""Messages between agents: a message under way, and an agent's report to the agent that it works for."""

from ikigai.core.events.events import MailTaken
from ikigai.core.events.record import Record
from ikigai.core.text.sanitize import storable

WORKS_FOR = "works_for"
"""The setting of an agent that another agent's tool made: "MAKER AGENT", both by id. Forks of that agent inherit the
setting, but are not that agent, and report to nobody.
"""
MAX_MESSAGE_CHARACTERS = 50_000
"""Most characters of one message; a longer one is cut, and says so."""


class Mail(Record, frozen=True):
    """A message that was sent and has not arrived yet. `id` is the id of its event, `sender` the id of an agent, called
    `name` now. The other fields are as in `MailSent`.
    """

    id: int
    sender: str
    name: str
    text: str
    ending: str = ""
    by_user: bool = False
    wants_reply: bool = False
    attended: bool = False
    answers: int = 0

    @property
    def shown(self) -> str:
        """The sender that the model is told of: "" for the user."""
        return "" if self.by_user else self.name

    @property
    def taken(self) -> MailTaken:
        """The event that says that the message has arrived."""
        reply_to = self.sender if self.wants_reply else ""
        attended = self.by_user or (self.wants_reply and self.attended)
        return MailTaken(self.id, storable(self.name), reply_to, attended)


def join_messages(mails: tuple[Mail, ...]) -> str:
    """Return the text of the message that these mails begin a turn with."""
    if len(mails) == 1:
        return mails[0].text
    return "\n\n".join(f"[{mail.name}]\n{mail.text}" for mail in mails)


def cut(text: str) -> str:
    """Return the text, or as much of it as a message may hold."""
    left = len(text) - MAX_MESSAGE_CHARACTERS
    return text if left <= 0 else f"{text[:MAX_MESSAGE_CHARACTERS]}\n[cut: {left:,} more characters]"
