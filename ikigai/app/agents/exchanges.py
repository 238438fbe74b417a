"""Count how often agents have answered each other within open turns.

    message                                                its number (`MailSent.answers`)
    the first ones of a turn, before a `wait` returned     0
    after a message that `wait` returned                   the number of that message + 1
    after the end of a turn, or a message of the user's    0: work that is given and done never counts

From MAX_ANSWERS on, no message is sent to a running agent until either turn ends, or the user writes to the agent or to
one that it works for. An idle agent begins a turn with the message: `app.agents.mailbox` counts those turns.
"""

from ikigai.core.agents.mail import Mail
from ikigai.core.errors import Rejected

MAX_ANSWERS = 16
"""Messages in a row that only answer one another, within turns under way."""
NO_ANSWER = (
    f"The last {MAX_ANSWERS} messages only answered one another, which is the limit. No more of them are answered."
)
"""The message to a model that waits for another answer."""


class Exchanges:
    """The numbers of the messages of all agents; those in `over` may send no more answers in their turn."""

    def __init__(self) -> None:
        self.over = set[str]()
        self._next: dict[str, int] = {}

    def next(self, id: str) -> int:
        """Return the number of the next message from this agent."""
        return self._next.get(id, 0)

    def returned(self, id: str, mail: Mail) -> None:
        """Count a message that a `wait` of this agent has returned."""
        self._next[id] = 0 if mail.ending or mail.by_user else mail.answers + 1

    def end(self, id: str) -> None:
        """Reset the number, because the turn has ended or the user has written."""
        self._next.pop(id, None)
        self.over.discard(id)

    def agents(self) -> tuple[str, ...]:
        """Return the agents that are in an exchange."""
        return tuple(self._next)


def refusal(to: str) -> Rejected:
    """Return the error for a model whose message to the agent called `to` is one too many."""
    return Rejected(
        f"Not sent to {to}: the last {MAX_ANSWERS} messages only answered one another, which is the limit.",
        "Tell the user, whose message to you or to an agent that you work for lifts the limit; or end your turn.",
    )
