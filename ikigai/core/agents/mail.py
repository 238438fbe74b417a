"""Messages between agents: what one is on its way, and what an agent reports to the one that it works for."""

from ikigai.core.events import MailTaken
from ikigai.core.record import Record
from ikigai.core.sanitize import storable

WORKS_FOR = "works_for"
"""The setting of an agent that another one's tool made: "MAKER AGENT", both by id. Forks of it inherit the setting, but
are not that agent, and report to nobody.
"""
MOST = 50_000
"""Characters of one message; what is longer is cut, and says so."""


class Mail(Record, frozen=True):
    """A message that was sent and has not come yet: `id` is that of its event, `sender` the id of an agent, called
    `name` now; the others are as in `MailSent`.
    """

    id: int
    sender: str
    name: str
    text: str
    ending: str = ""
    by_user: bool = False
    wants_reply: bool = False
    attended: bool = False

    @property
    def shown(self) -> str:
        """Whose words the model is told that these are: "" for the user's."""
        return "" if self.by_user else self.name

    @property
    def taken(self) -> MailTaken:
        """The fact that it has come."""
        reply_to = self.sender if self.wants_reply else ""
        attended = self.by_user or (self.wants_reply and self.attended)
        return MailTaken(self.id, storable(self.name), reply_to, attended)


def together(mails: tuple[Mail, ...]) -> str:
    """The text of the message that these begin a turn with."""
    if len(mails) == 1:
        return mails[0].text
    return "\n\n".join(f"[{mail.name}]\n{mail.text}" for mail in mails)


def cut(text: str) -> str:
    """The text, or as much of it as a message may hold."""
    left = len(text) - MOST
    return text if left <= 0 else f"{text[:MOST]}\n[cut: {left:,} more characters]"
