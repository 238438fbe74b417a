"""Turn a stretch of history into the browser's items, and draw each of them."""

from collections.abc import Mapping, Sequence

import msgspec

from ikigai.core.events.events import Cleared, Filtered, Rewound, StoredEvent, Summarized, Undone, UserMessage
from ikigai.core.events.record import Record
from ikigai.core.state.memory import Memory
from ikigai.core.text.sanitize import clean
from ikigai.core.views.context_rule import ContextRule
from ikigai.core.views.exclusion_reason import Exclusion, Exclusions
from ikigai.core.views.transcript import Shown, Speaker, TranscriptBlock, history_items
from ikigai.terminal.output.entries import STEPS_GROUP, Entries
from ikigai.terminal.render import blocks, diff
from ikigai.terminal.render.text_width import wrap
from ikigai.terminal.render.theme import (
    ASSISTANT,
    CALL,
    NOTE,
    RESULT,
    STOPPED,
    THOUGHT,
    USER,
    WARNING,
    Theme,
    strip_styles,
)

MAX_MARKDOWN_CHARACTERS = 16_000
"""Characters of a reply that are drawn as Markdown."""
MAX_UNFOLDED_CHARACTERS = 250_000
"""Characters of an item that are unfolded; the pager shows the rest."""
UNDOABLE_EVENTS = (Cleared, Rewound, Filtered, Undone)

Key = tuple[int, int]
"""The id of the event, and the number of the item in it; the context rule has a number of its own."""
RULE_POSITION = -1
BRANCH_POSITION = 1_000


class BrowserItem(Record, frozen=True):
    """One thing shown. `event` is the event it belongs to; for the context rule the event beside it."""

    key: Key
    shown: Shown
    event: StoredEvent
    exclusion: Exclusion | None = None

    @property
    def id(self) -> int:
        return self.key[0]

    @property
    def group(self) -> str:
        """Items of one group stand without a blank row between them."""
        steps = (Speaker.TOOL_CALL, Speaker.TOOL_RESULT)
        is_step = isinstance(self.shown, TranscriptBlock) and self.shown.speaker in steps
        return STEPS_GROUP if is_step else ""

    @property
    def opens_turn(self) -> bool:
        return isinstance(self.event.event, UserMessage) and self.key[1] == 0

    @property
    def undoable(self) -> bool:
        event = self.event.event
        changes = isinstance(event, UNDOABLE_EVENTS) or (isinstance(event, Summarized) and not event.closed)
        return changes and self.key[1] == 0

    @property
    def summary(self) -> str:
        """The text of a summary of condensed turns; "" for any other item."""
        return self.event.event.text if isinstance(self.event.event, Summarized) and self.key[1] == 0 else ""

    @property
    def text(self) -> str:
        """All of the item's text, safe for a terminal or a clipboard."""
        if isinstance(self.shown, ContextRule):
            return ""
        if self.summary:
            return clean(f"{self.shown.text}\n\n{self.summary}")
        parts = (part if isinstance(part, str) else f"[thought]\n{part.text}" for part in self.shown.parts)
        words = "\n\n".join(parts) if self.shown.thoughts else blocks.full_text(self.shown)
        name = f"{self.shown.name} " if self.shown.speaker is Speaker.TOOL_CALL else ""
        return clean(name + words).strip("\n")

    @property
    def words(self) -> str:
        """The words of the message without its thoughts."""
        words = clean(self.shown.text).strip("\n") if isinstance(self.shown, TranscriptBlock) else ""
        return words or self.text


def build_items(
    events: Sequence[StoredEvent], memory: Memory, reasons: Exclusions, branches: Mapping[int, tuple[str, ...]]
) -> list[BrowserItem]:
    """Return the items of `events`, which ascend, with the context rule at its exact place."""
    by_id = {event.id: event for event in events}
    excluded = reasons.find(events, memory)
    made: list[BrowserItem] = []
    forked = sorted(id for id in branches if id in by_id)
    at = 0

    def fork(upto: int) -> None:
        nonlocal at
        while at < len(forked) and forked[at] < upto:
            id, at = forked[at], at + 1
            names = ", ".join(branches[id])
            note = TranscriptBlock(id, Speaker.NOTE, f"Forks from here: {names}.", remembered=id not in excluded)
            made.append(BrowserItem((id, BRANCH_POSITION), note, by_id[id], excluded.get(id)))

    for shown in history_items(list(events), memory):
        if isinstance(shown, ContextRule):
            fork(shown.before)
            made.append(BrowserItem((shown.before, RULE_POSITION), shown, by_id[shown.before]))
            continue
        fork(shown.id)
        number = made[-1].key[1] + 1 if made and made[-1].id == shown.id and made[-1].key[1] >= 0 else 0
        made.append(BrowserItem((shown.id, number), shown, by_id[shown.id], excluded.get(shown.id)))
    fork(events[-1].id + 1 if events else 0)
    return made


def draw_rows(item: BrowserItem, width: int, theme: Theme, unfolded: bool) -> list[str]:
    """Draw the item in rows of `width` cells; folded, a long result or thought takes a few rows."""
    if unfolded and isinstance(item.shown, TranscriptBlock):
        text = f"{item.shown.text}\n{item.summary}" if item.summary else item.shown.text
        return _whole(msgspec.structs.replace(item.shown, text=text), width, theme)
    shown = item.shown
    if (
        isinstance(shown, TranscriptBlock)
        and shown.speaker is Speaker.ASSISTANT
        and len(shown.text) > MAX_MARKDOWN_CHARACTERS
    ):
        lines = shown.text.count("\n") + 1
        size = f"  … {lines:,} lines in all" if lines > 1 else f"  … {len(shown.text):,} characters in all"
        head = shown.text[:MAX_MARKDOWN_CHARACTERS]
        shown = msgspec.structs.replace(shown, text=head.rpartition("\n")[0] or head)
        return [*_drawn(shown, width, theme), theme.paint("dim", blocks.cut(size, width))]
    return _drawn(shown, width, theme)


def _drawn(shown: Shown, width: int, theme: Theme) -> list[str]:
    drawn: list[str] = []
    for entry in Entries(theme, "fold").draw(shown, width):
        drawn += [""] * bool(drawn) + entry.text.split("\n")
    return [part for row in drawn for part in _within(row, width)]


def _within(row: str, width: int) -> list[str]:
    """Wrap a row that is wider than `width` cells, as code is drawn, without its colors."""
    plain = strip_styles(row)
    return [row] if blocks.cell_width(plain) <= width else list(wrap(plain, width))


_SIGNS = {
    Speaker.USER: (USER, "prompt", "user"),
    Speaker.ASSISTANT: (ASSISTANT, "assistant", ""),
    Speaker.TOOL_CALL: (CALL, "call", ""),
    Speaker.TOOL_RESULT: (RESULT, "dim", ""),
    Speaker.NOTE: (NOTE, "dim", ""),
    Speaker.STOPPED: (STOPPED, "warning", ""),
    Speaker.SHORT: (WARNING, "warning", ""),
    Speaker.SOURCES: (NOTE, "dim", "dim"),
}


def _whole(block: TranscriptBlock, width: int, theme: Theme) -> list[str]:
    """Draw all of the event's text, as plain text."""
    drawn: list[str] = []
    room = MAX_UNFOLDED_CHARACTERS
    for part in block.parts if block.speaker is Speaker.ASSISTANT else (_plain_text(block),):
        if isinstance(part, str):
            (sign, sign_style, style), text = _SIGNS[block.speaker], part
        else:
            sign, sign_style, style, text = THOUGHT, "thought", "thought", part.text
        rows = list(wrap(clean(text[:room]).strip("\n"), width - blocks.BLOCK_INDENT))
        room -= len(text)
        drawn += [""] * bool(drawn)
        drawn += (
            f"{theme.paint(sign_style, sign) if n == 0 else ' '} {theme.paint(style, row)}".rstrip()
            for n, row in enumerate(rows)
        )
        if room <= 0:
            drawn.append(theme.paint("warning", blocks.cut("  … and more: o opens it", width)))
            break
    else:
        if block.diff and len(block.diff) <= room:
            changed = diff.draw_diff(block.diff, width - blocks.BLOCK_INDENT, theme)
            drawn += ["", *(" " * blocks.BLOCK_INDENT + row if row else "" for row in changed)]
    return drawn or [theme.paint("dim", NOTE)]


def _plain_text(block: TranscriptBlock) -> str:
    """Return a tool call with its arguments one below the other; the text of any other block."""
    if block.speaker is not Speaker.TOOL_CALL:
        return block.text
    try:
        arguments = msgspec.json.decode(block.text, type=dict[str, object])
    except (msgspec.DecodeError, UnicodeEncodeError):
        return f"{block.name} {block.text}"
    texts = (value if isinstance(value, str) else msgspec.json.encode(value).decode() for value in arguments.values())
    return "\n".join((block.name, *(f"{key}: {value}" for key, value in zip(arguments, texts, strict=True))))
