"""Marks by which terminals jump from prompt to prompt (OSC 133): in the scrollback alone, where each is printed once.

A  where a message of the user's begins     B  where its words do
C  where what comes of it begins            D  its end, with a status: 0, 1 for a failure, 130 for a stop
"""

import re

from ikigai.core.views.transcript import Block, Rule, Shown, Speaker
from ikigai.terminal.output.scrollback import Entry

BEGIN = "\x1b]133;A;redraw=0\x1b\\"
"""`redraw=0` for kitty: it takes what stands behind a prompt away when it is resized, for shells draw that again."""
WORDS, OUTPUT = "\x1b]133;B\x1b\\", "\x1b]133;C\x1b\\"
FAILED, STOPPED = 1, 130
_SIGN = re.compile(r"(?:\x1b\[[\d;]*m)*[^\s\x1b]+(?:\x1b\[[\d;]*m)* ?")
_OUTPUT = (Speaker.ASSISTANT, Speaker.TOOL_CALL, Speaker.TOOL_RESULT, Speaker.STOPPED, Speaker.SHORT)


class PromptMarks:
    """Puts the marks into what is drawn, which has to come here in the order in which it is printed."""

    def __init__(self) -> None:
        self._asked = False  # nothing has come of the message yet
        self._open = False  # its end is not marked yet
        self._status = 0

    def on(self, shown: Shown | None, entry: Entry) -> Entry:
        """The entry, drawn of `shown` (None: of a reply that is streaming), with its marks."""
        if isinstance(shown, Rule):
            return entry
        if shown and shown.speaker is Speaker.USER:
            return entry._replace(text=self._begun(entry.text))
        if isinstance(shown, Block) and shown.speaker not in _OUTPUT:
            return entry
        if shown and shown.speaker is Speaker.STOPPED:
            self._status = FAILED if shown.failed else STOPPED
        mark, self._asked = OUTPUT if self._asked else "", False
        return entry._replace(text=mark + entry.text)

    def ended(self) -> str:
        """The mark behind what came of the last message; "" where there is none to set."""
        mark = f"\x1b]133;D;{self._status}\x1b\\" if self._open else ""
        self._asked = self._open = False
        self._status = 0
        return mark

    def _begun(self, drawn: str) -> str:
        mark = self.ended() + BEGIN
        self._asked = self._open = True
        sign = found.end() if (found := _SIGN.match(drawn)) else 0
        return f"{mark}{drawn[:sign]}{WORDS}{drawn[sign:]}"
