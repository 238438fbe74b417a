"""A turn that mail began is recovered like any other: the fork has its words, and mail goes its way once."""

import pytest

from ikigai.core.events.events import Ending, MailSent, MailTaken, TurnEnded, UserMessage
from ikigai.store.database import Database


@pytest.mark.parametrize("mail", [False, True])
async def test_turn_that_mail_began_makes_a_fork(database: Database, mail: bool):
    boss, kid = [await database.agents.create(name) for name in ("boss", "kid")]
    sender, log = await database.open_agent(boss), await database.open_agent(kid)
    stored = await sender.append((UserMessage("x"), MailSent(kid.id, "Task", "kid", wants_reply=True)))
    taken = (MailTaken(stored.rows[-1].id, "boss", boss.id),) if mail else ()
    await log.append((UserMessage("Task", sender="boss"), *taken))
    unsaved = log.unsaved((TurnEnded(Ending.COMPLETED, "", 1, 1),))
    await log.append(
        (TurnEnded(Ending.INTERRUPTED, "cut off: ikigai was killed here", 1, 1),)
    )  # the next start closed the turn
    made = await database.fork_with(kid, await database.locate_unsaved(unsaved), unsaved)
    events = [row.event for row in await database.reader(made).history(2**62, 100)]
    copies = [event for event in events if isinstance(event, MailTaken)]
    assert copies == ([MailTaken(0, "boss", "")] if mail else [])
    assert [event.text for event in events if isinstance(event, UserMessage)] == ["Task"]
