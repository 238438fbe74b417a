"""The queue of user input: one list for views, whatever each message waits for."""

import asyncio

from ikigai.agent.input_queue import InputQueue
from ikigai.core.events.events import UserMessage
from ikigai.core.state.inputs import Clear, Input, Quote, Steered, Submitted


class Shown:
    """A view that keeps what it was told of the queue."""

    def __init__(self) -> None:
        self.texts: tuple[str, ...] = ()

    def queued(self, texts: tuple[str, ...]) -> None:
        self.texts = texts


def made(*unsaved: UserMessage) -> tuple[InputQueue, Shown]:
    view = Shown()
    return InputQueue(view, lambda: unsaved), view  # pyright: ignore[reportArgumentType]


def test_message_that_is_being_stored_is_listed_once_where_it_cannot_be_stored_as_it_was_entered():
    queue, view = made(UserMessage("a\ufffdb"))
    queue.note_entered(Submitted("a\0b"))
    queue.note_entered(Submitted("\udcff"))
    assert queue.unstored_texts() == ["a\ufffdb", "\ufffd"]
    queue.sent.append("\udcff")
    queue.show()
    assert view.texts == ("a\ufffdb", "\udcff")


def test_queue_shows_all_that_waits_in_the_order_it_will_be_taken():
    queue, view = made(UserMessage("being stored"))
    queue.follow_up += [Submitted("next"), Quote("ran", is_command_output=True), Clear()]
    queue.steering.append(Steered("into the turn"))
    queue.sent.append("while away")
    queue.hold("/switch b")
    assert view.texts == ("being stored", "into the turn", "next", "/clear", "while away", "/switch b")


def test_lines_for_an_agent_that_is_opened_move_to_its_queue():
    (left, shown), (entered, seen) = made(), made()
    left.follow_up.append(Submitted("stays"))
    left.hold("first")
    left.hold("/clear")
    entered.take_over(left)
    left.show()
    assert shown.texts == ("stays",) and seen.texts == ("first", "/clear")
    assert left.take_before_open() == [], "they are taken once"
    assert entered.take_before_open() == ["first", "/clear"] and seen.texts == ()


def test_unqueue_takes_the_newest_of_equal_messages():
    queue, view = made()
    queue.follow_up += map(Submitted, ("yes", "and this", "yes"))
    queue.steering += map(Steered, ("on", "off", "on"))
    assert queue.unqueue() == "yes" and view.texts == ("on", "off", "on", "yes", "and this")
    assert [queue.unqueue() for _ in range(3)] == ["and this", "yes", "on"] and view.texts == ("on", "off")


def test_lines_that_wait_are_taken_back_first_and_are_not_sent_with_messages():
    queue, view = made()
    queue.follow_up.append(Submitted("mine"))
    queue.hold("theirs")
    assert queue.unqueue() == "theirs" and queue.unqueue() == "mine" and queue.unqueue() == ""
    queue.follow_up.append(Submitted("mine"))
    queue.hold("theirs")
    inbox: asyncio.Queue[Input | None] = asyncio.Queue()
    assert queue.unsent(inbox) == [Submitted("mine")] and queue.before_open == ["theirs"]
    queue.show()
    assert view.texts == ("theirs",)
