"""Mark prompts so that terminals jump from one to the next (OSC 133), in the scrollback alone.

A  the beginning of a user's message     B  the beginning of its words
C  the beginning of the answer           D  its end, with a status: 0, 1 for a failure, 130 for a stop
"""

import re

from ikigai.core.views.context_rule import ContextRule
from ikigai.core.views.transcript import Shown, Speaker, TranscriptBlock
from ikigai.terminal.output.scrollback import ScrollbackEntry

PROMPT_BEGIN = "\x1b]133;A;redraw=0\x1b\\"
"""The option `redraw=0` is for kitty: it erases the rows after a prompt on a resize, for shells draw them again."""
INPUT_MARK, OUTPUT_MARK = "\x1b]133;B\x1b\\", "\x1b]133;C\x1b\\"
FAILED_STATUS, INTERRUPTED_STATUS = 1, 130
_SIGN = re.compile(r"(?:\x1b\[[\d;]*m)*[^\s\x1b]+(?:\x1b\[[\d;]*m)* ?")
_OUTPUT = (Speaker.ASSISTANT, Speaker.TOOL_CALL, Speaker.TOOL_RESULT, Speaker.STOPPED, Speaker.SHORT, Speaker.SOURCES)


class PromptMarks:
    """The marks of the prompts. Entries have to come here in the order in which they are printed."""

    def __init__(self) -> None:
        self._asked = False  # the message has no answer yet
        self._open = False  # its end is not marked yet
        self._status = 0

    def on(self, shown: Shown | None, entry: ScrollbackEntry) -> ScrollbackEntry:
        """Return the entry, drawn from `shown` (None: from a streaming reply), with its marks."""
        if isinstance(shown, ContextRule):
            return entry
        if shown and shown.speaker is Speaker.USER:
            return entry._replace(text=self._mark_begin(entry.text))
        if isinstance(shown, TranscriptBlock) and shown.speaker not in _OUTPUT:
            return entry
        if shown and shown.speaker is Speaker.STOPPED:
            self._status = FAILED_STATUS if shown.failed else INTERRUPTED_STATUS
        mark, self._asked = OUTPUT_MARK if self._asked else "", False
        return entry._replace(text=mark + entry.text)

    def ended(self) -> str:
        """Return the mark after the answer to the last message; "" if it needs none."""
        mark = f"\x1b]133;D;{self._status}\x1b\\" if self._open else ""
        self._asked = self._open = False
        self._status = 0
        return mark

    def _mark_begin(self, drawn: str) -> str:
        mark = self.ended() + PROMPT_BEGIN
        self._asked = self._open = True
        sign = match.end() if (match := _SIGN.match(drawn)) else 0
        return f"{mark}{drawn[:sign]}{INPUT_MARK}{drawn[sign:]}"
