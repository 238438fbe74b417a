"""Table of key actions: the effect of a key at the prompt, and the default keys of each action.

The key bindings, the table [keys] of the configuration and the list of keys that users see come from here. A key is
written as people write it: "ctrl-x", "alt-enter", "f2"; two keys pressed one after the other stand in one text with a
space: "ctrl-x ctrl-e".
"""

from collections.abc import Mapping

from ikigai.core.events.record import Record


class KeyAction(Record, frozen=True):
    """One action. `keys` are its default keys, any of which does it; `help` says what it does, as in a list.

    Consecutive actions of one `pair` share a row of the list, which says `pair`.
    """

    name: str
    keys: tuple[str, ...]
    help: str
    pair: str = ""


AGENT_TREE = "switch to the parent agent; to the newest child"
SIBLINGS = "switch to the sibling agents, on an empty line"
TERMINAL = "redraw the live area; suspend ikigai (`fg` resumes it)"


# fmt: off
KEY_ACTIONS: tuple[KeyAction, ...] = (
    KeyAction("send", ("enter",), "send, or queue; on an empty line retry a failed request"),
    KeyAction("newline", ("ctrl-j", "alt-enter"), "insert a line, as \\ before Enter does"),
    KeyAction("steer", ("ctrl-s",), "send into the turn under way, instead of after it"),
    KeyAction("stash", ("alt-q", "ctrl-x ctrl-s"), "put the draft aside; on an empty line bring it back"),
    KeyAction("stop", ("escape",), "stop the turn; twice on an empty line: rewind"),
    KeyAction("cancel", ("ctrl-c",), "stop, or clear the line; twice on an empty line: leave"),
    KeyAction("exit", ("ctrl-d",), "leave, on an empty line; twice while agents work or ask"),
    KeyAction("complete", ("tab",), "complete a command, an argument or a file"),
    KeyAction("search", ("ctrl-r",), "search earlier messages of all agents"),
    KeyAction("editor", ("ctrl-g", "ctrl-x ctrl-e"), "edit the input in $VISUAL or $EDITOR"),
    KeyAction("paste_picture", ("ctrl-v",), "attach the picture in the clipboard"),
    KeyAction("history", ("ctrl-t",), "browse the whole history"),
    KeyAction("output", ("ctrl-o",), "show all of the newest tool result or thought"),
    KeyAction("choose_model", ("alt-p",), "choose the model from a list"),
    KeyAction("cycle_approval", ("shift-tab",), "choose the next approval mode"),
    KeyAction("parent_agent", ("alt-up",), "switch to the parent agent", AGENT_TREE),
    KeyAction("child_agent", ("alt-down",), "switch to the newest child agent", AGENT_TREE),
    KeyAction("previous_agent", ("alt-left",), "switch to the previous sibling agent, on an empty line", SIBLINGS),
    KeyAction("next_agent", ("alt-right",), "switch to the next sibling agent, on an empty line", SIBLINGS),
    KeyAction("redraw", ("ctrl-l",), "redraw the live area", TERMINAL),
    KeyAction("suspend", ("ctrl-z",), "suspend ikigai; `fg` in the shell resumes it", TERMINAL),
)
# fmt: on


def active_keys(changes: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Return the keys of every action by its name: from `changes`, else its default keys."""
    return {action.name: changes.get(action.name, action.keys) for action in KEY_ACTIONS}


def bound_key(action: str, changes: Mapping[str, tuple[str, ...]]) -> str:
    """Return the first key of an action as help shows it; "" if it has none."""
    keys = active_keys(changes)[action]
    return key_label(keys[0]) if keys else ""


def key_label(key: str) -> str:
    """Return a key as help shows it: "Ctrl+X Ctrl+E" for "ctrl-x ctrl-e", "Esc" for "escape"."""
    names = {"escape": "Esc", "pageup": "PageUp", "pagedown": "PageDown"}
    presses = ("+".join(names.get(part, part.capitalize()) for part in press.split("-")) for press in key.split())
    return " ".join(presses)
