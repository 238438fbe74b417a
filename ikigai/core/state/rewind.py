"""Ways back: to a mark or an event, to before the newest turn, and to before what took something away."""

from ikigai.core.errors import Refused
from ikigai.core.events import Rewound, Undone
from ikigai.core.messages import Image
from ikigai.core.request.build import mailed, plans
from ikigai.core.state.fold import REMOVED
from ikigai.core.state.memory import Mark, Memory


def next_number(memory: Memory) -> str:
    """The label of a mark that is given none."""
    numbers = (int(mark.label) for mark in memory.marks if mark.label.isdecimal())
    return str(max(numbers, default=0) + 1)


def marked(memory: Memory, label: str) -> Mark | None:
    """The newest mark, or the newest with this label."""
    return next((mark for mark in reversed(memory.marks) if label in ("", mark.label)), None)


def rewound(memory: Memory, label: str) -> Rewound:
    """The way back to a mark. Raises Refused."""
    if mark := marked(memory, label):
        return Rewound(mark.id, mark.label)
    if label and memory.marks:
        known = ", ".join(dict.fromkeys(mark.label for mark in reversed(memory.marks)))
        raise Refused(f"There is no mark {label!r} here.", f"Marks, newest first: {known}")
    raise Refused("There is no mark to go back to.", "/mark sets one; /rewind ID goes back to any turn.")


def rewound_at(memory: Memory, to: int) -> Rewound:
    """The way back to the end of a turn. Raises Refused where that would change nothing."""
    newest = memory.full.turns[-1].end if memory.full.turns else 0
    if to >= newest and not any(mark.id > to for mark in memory.marks):
        raise Refused(f"Nothing in the context comes after event {to}.", "/rewind with an earlier one goes back.")
    return Rewound(to)


def before_newest(memory: Memory) -> tuple[Rewound, str, tuple[Image, ...]]:
    """The way back to before the newest turn, and the message that began it. Raises Refused."""
    newest = memory.full.turns[-1] if memory.full.turns else None
    if newest is None:
        raise Refused("There is no turn to go back before.", "Send a message first.")
    asked = newest.messages[0]
    if asked.text == REMOVED:
        raise Refused("The message of the newest turn was forgotten.", "/undo may bring it back.")
    if plans(asked.text):  # its filter was undone
        raise Refused("The newest turn is a talk about what to forget.", "Type that command again, or /rewind ID.")
    if mailed(asked.text):
        raise Refused("The newest turn began with a message of another agent.", "/rewind ID goes back before it.")
    return Rewound(newest.id - 1), asked.text, tuple(block for block in asked.blocks if isinstance(block, Image))


def newest_text(memory: Memory) -> str:
    """The message that began the newest turn. Raises Refused as `Edit` does."""
    return before_newest(memory)[1]


def undone(memory: Memory, id: int) -> Undone:
    """What `Undo` takes back. Raises Refused."""
    if id:
        found = [act for act in memory.acts if act.id == id]
        how = "A clear, rewind, filter, summary or undo of this agent can be, as long as it is in force."
    else:
        found = [act for act in memory.acts if act.kind != "undo" and not act.empty]
        how = "/clear, /rewind, /forget, /remember and /condense can be undone."
    if not found:
        raise Refused(f"Event {id} cannot be undone." if id else "There is nothing to undo.", how)
    return Undone(found[-1].id, found[-1].kind)
