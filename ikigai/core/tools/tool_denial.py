"""Word the user's refusal of a tool call for the model, and read it back for people."""

import re

DENIED_BY_USER = "The user said no. Do not try the same again, and do not work around it; ask what they want instead."
"""The result of a call that the user refused; it is in stored logs, so it never changes."""
DENIED_TOGETHER = "no to all"
_REASON = " The user's reason: "
_TOGETHER = re.compile(rf"{re.escape(DENIED_BY_USER)} The same holds for (\d+) other calls?\.")


def denial(reason: str = "", others: int = 0) -> str:
    """Return the message to the model; the same answer was given for so many `others`."""
    if others:
        return f"{DENIED_BY_USER} The same holds for {others} other call{'s' * (others != 1)}."
    return DENIED_BY_USER + (_REASON + reason) * bool(reason)


def describe_denial(result: str) -> tuple[str, str] | None:
    """Return a refused call's result in the user's words, and DENIED_TOGETHER or ""; None for any other result."""
    if not result.startswith(DENIED_BY_USER):
        return None
    if together := _TOGETHER.fullmatch(result):
        return f"you said no to all {int(together[1]) + 1}", DENIED_TOGETHER
    reason = result.removeprefix(DENIED_BY_USER).removeprefix(_REASON)
    return "you said no" + f": {reason}" * bool(reason), ""
