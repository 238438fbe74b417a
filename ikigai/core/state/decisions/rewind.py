"""Find the events that go back: to a mark, to a turn, to before the newest turn, and undos."""

from ikigai.core.errors import Rejected
from ikigai.core.events.events import Rewound, Undone, UserMessage
from ikigai.core.events.messages import Document, Image, Message
from ikigai.core.request.build import is_mail, is_planning
from ikigai.core.state.fold import REMOVED_TEXT
from ikigai.core.state.intervals import RECALL
from ikigai.core.state.memory import Mark, Memory


def next_label(memory: Memory) -> str:
    """Return the label for a mark that is set without one."""
    numbers = (int(mark.label) for mark in memory.marks if mark.label.isdecimal())
    return str(max(numbers, default=0) + 1)


def find_mark(memory: Memory, label: str) -> Mark | None:
    """Return the newest mark with this label, or the newest of all if the label is ""."""
    return next((mark for mark in reversed(memory.marks) if label in ("", mark.label)), None)


def rewind_to_mark(memory: Memory, label: str) -> Rewound:
    """Return the rewind to the newest mark with this label. Raise Rejected if none exists."""
    if mark := find_mark(memory, label):
        return Rewound(mark.id, mark.label)
    choose = "Esc Esc chooses a message to go back to, /rewind ID names one."
    if not label:
        raise Rejected("There is no mark yet; /mark sets one.", choose)
    known = ", ".join(dict.fromkeys(mark.label for mark in reversed(memory.marks)))
    raise Rejected(f'There is no mark "{label}".', f"Marks, newest first: {known}. {choose}" if known else choose)


def rewind_to_turn(memory: Memory, to: int) -> Rewound:
    """Return the rewind to the end of a turn, the event `to`. Raise Rejected if that would change nothing."""
    newest = memory.full_window.turns[-1].end if memory.full_window.turns else 0
    if to >= newest and not any(mark.id > to for mark in memory.marks):
        raise Rejected(f"Nothing in the context comes after event {to}.", "Use /rewind with an earlier id.")
    return Rewound(to)


def rewind_before(memory: Memory, id: int = 0) -> tuple[Rewound, UserMessage]:
    """Return the rewind to before the turn that holds the event `id`, the newest for 0, and the message that began it.

    Raise Rejected.
    """
    turns, which = memory.full_window.turns, "that turn" if id else "the newest turn"
    turn = next((turn for turn in reversed(turns) if not id or turn.id <= id <= turn.end), None)
    if turn is None and id:
        raise Rejected(f"Event {id} is in no turn of the context.", "/rewind ID goes back to any turn.")
    if turn is None:
        raise Rejected("There is no turn yet.", "Send a message first.")
    message = turn.messages[0]
    if turn.recalled:  # its excerpts are the last block, and found anew
        message = Message(message.role, message.blocks[:-1])
    if message.text == REMOVED_TEXT:
        raise Rejected(f"The message of {which} was forgotten.", "/undo may bring it back.")
    if is_planning(message.text):  # its filter was undone
        raise Rejected(f"{which.capitalize()} is a /forget dialog.", "Type that command again, or /rewind ID.")
    if is_mail(message.text):
        what = f"{which.capitalize()} began with a message of another agent."
        raise Rejected(what, "/rewind ID goes back before it.")
    images = tuple(block for block in message.blocks if isinstance(block, Image))
    documents = tuple(block for block in message.blocks if isinstance(block, Document))
    return Rewound(turn.id - 1), UserMessage(message.text, images, documents=documents)


def text_to_edit(memory: Memory, id: int) -> str:
    """Return the message that began a turn. Raise Rejected as `Edit` does."""
    return rewind_before(memory, id)[1].text


def undo_change(memory: Memory, id: int) -> Undone:
    """Return the undo of the event `id`, or of the newest change for 0. Raise Rejected if nothing can be undone."""
    turns = memory.full_window.turns
    if id:
        changes = [change for change in memory.changes if change.id == id]
        remedy = "Only an active clear, rewind, forget, condense, undo or recall of this agent can."
        recalled = id if any(turn.recalled == id for turn in turns) else 0
    else:
        changes = [change for change in memory.changes if change.kind not in ("undo", "redo") and not change.empty]
        remedy = "/clear, /rewind, /forget, /remember, /condense and the newest turn's recall can be undone."
        recalled = turns[-1].recalled if turns else 0
    if recalled and (not changes or changes[-1].id < recalled):
        return Undone(recalled, RECALL, RECALL)
    if not changes:
        raise Rejected(f"#{id} cannot be undone." if id else "There is nothing to undo.", remedy)
    return Undone(changes[-1].id, changes[-1].kind, changes[-1].command)


def redo_change(memory: Memory) -> Undone:
    """Return the undo of the newest undo that is not a redo itself, so that repeating it goes on.

    Raise Rejected if none exists.
    """
    undos = [change for change in memory.changes if change.kind == "undo"]
    if not undos:
        raise Rejected("There is nothing to redo.", "Use /undo first.")
    return Undone(undos[-1].id, "undo", undos[-1].command)
