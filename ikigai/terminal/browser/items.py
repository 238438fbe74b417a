"""What the browser shows of a stretch of history, one item after the other, and how each is drawn."""

from collections.abc import Mapping, Sequence

import msgspec

from ikigai.core.events import Cleared, Filtered, Rewound, StoredEvent, Summarised, Undone, UserMessage
from ikigai.core.record import Record
from ikigai.core.sanitize import clean
from ikigai.core.state.memory import Memory
from ikigai.core.views.exclusion import Outside, Reasons
from ikigai.core.views.transcript import Block, Rule, Shown, Speaker, fresh
from ikigai.terminal.output.entries import STEPS, Entries
from ikigai.terminal.render import blocks as render
from ikigai.terminal.render import diff as changes
from ikigai.terminal.render import theme as glyph
from ikigai.terminal.render.text_width import wrap
from ikigai.terminal.render.theme import Theme

LONG = 16_000
"""Characters of a reply that are drawn as Markdown."""
WHOLE = 250_000
"""Characters of an item that are unfolded; the pager shows the rest."""
UNDOABLE = (Cleared, Rewound, Filtered, Undone)

Key = tuple[int, int]
"""The event, and which of its items it is; a rule has a number of its own."""
RULE = -1
BRANCH = 1_000


class Item(Record, frozen=True):
    """One thing shown. `event` is the one it belongs to: for a rule the one beside it."""

    key: Key
    shown: Shown
    event: StoredEvent
    outside: Outside | None = None

    @property
    def id(self) -> int:
        return self.key[0]

    @property
    def group(self) -> str:
        """Items of one group stand without a blank row between them."""
        steps = isinstance(self.shown, Block) and self.shown.speaker in (Speaker.TOOL_CALL, Speaker.TOOL_RESULT)
        return STEPS if steps else ""

    @property
    def opens_turn(self) -> bool:
        return isinstance(self.event.event, UserMessage) and self.key[1] == 0

    @property
    def undoable(self) -> bool:
        did = self.event.event
        changes = isinstance(did, UNDOABLE) or (isinstance(did, Summarised) and not did.closed)
        return changes and self.key[1] == 0

    @property
    def summary(self) -> str:
        """The text that stands for what was condensed; "" for anything else."""
        return self.event.event.text if isinstance(self.event.event, Summarised) and self.key[1] == 0 else ""

    @property
    def text(self) -> str:
        """All of it, safe for a terminal or a clipboard."""
        if isinstance(self.shown, Rule):
            return ""
        if self.summary:
            return clean(f"{self.shown.text}\n\n{self.summary}")
        parts = (part if isinstance(part, str) else f"[thought]\n{part.text}" for part in self.shown.parts)
        said = "\n\n".join(parts) if self.shown.thoughts else render.all_of(self.shown)
        called = f"{self.shown.name} " if self.shown.speaker is Speaker.TOOL_CALL else ""
        return clean(called + said).strip("\n")

    @property
    def words(self) -> str:
        """What was said, without what was thought on the way."""
        words = clean(self.shown.text).strip("\n") if isinstance(self.shown, Block) else ""
        return words or self.text


def items(
    events: Sequence[StoredEvent], memory: Memory, reasons: Reasons, branches: Mapping[int, tuple[str, ...]]
) -> list[Item]:
    """What is shown of these events, ascending, with the rule at its exact place."""
    by_id = {event.id: event for event in events}
    outside = reasons.over([event.id for event in events], memory)
    made: list[Item] = []
    forked = sorted(id for id in branches if id in by_id)
    at = 0

    def fork(upto: int) -> None:
        nonlocal at
        while at < len(forked) and forked[at] < upto:
            id, at = forked[at], at + 1
            names = ", ".join(branches[id])
            note = Block(id, Speaker.NOTE, f"Forked off here: {names}.", remembered=id not in outside)
            made.append(Item((id, BRANCH), note, by_id[id], outside.get(id)))

    for shown in fresh(list(events), memory):
        if isinstance(shown, Rule):
            fork(shown.before)
            made.append(Item((shown.before, RULE), shown, by_id[shown.before]))
            continue
        fork(shown.id)
        number = made[-1].key[1] + 1 if made and made[-1].id == shown.id and made[-1].key[1] >= 0 else 0
        made.append(Item((shown.id, number), shown, by_id[shown.id], outside.get(shown.id)))
    fork(events[-1].id + 1 if events else 0)
    return made


def rows(item: Item, width: int, theme: Theme, unfolded: bool) -> list[str]:
    """The item in rows of so many cells; folded, a long result or thought is told in a few."""
    if unfolded and isinstance(item.shown, Block):
        told = f"{item.shown.text}\n{item.summary}" if item.summary else item.shown.text
        return _whole(msgspec.structs.replace(item.shown, text=told), width, theme)
    shown = item.shown
    if isinstance(shown, Block) and shown.speaker is Speaker.ASSISTANT and len(shown.text) > LONG:
        lines = shown.text.count("\n") + 1
        much = f"  … {lines:,} lines in all" if lines > 1 else f"  … {len(shown.text):,} characters in all"
        shown = msgspec.structs.replace(shown, text=shown.text[:LONG].rpartition("\n")[0] or shown.text[:LONG])
        return [*_drawn(shown, width, theme), theme.paint("dim", render.cut(much, width))]
    return _drawn(shown, width, theme)


def _drawn(shown: Shown, width: int, theme: Theme) -> list[str]:
    drawn: list[str] = []
    for entry in Entries(theme, "fold").of(shown, width):
        drawn += [""] * bool(drawn) + entry.text.split("\n")
    return [part for row in drawn for part in _within(row, width)]


def _within(row: str, width: int) -> list[str]:
    """Code is drawn as wide as it is: the browser wraps it, without its colours."""
    plain = glyph.unstyled(row)
    return [row] if render.columns(plain) <= width else list(wrap(plain, width))


_SIGNS = {
    Speaker.USER: (glyph.USER, "prompt", "user"),
    Speaker.ASSISTANT: (glyph.ASSISTANT, "assistant", ""),
    Speaker.TOOL_CALL: (glyph.CALL, "call", ""),
    Speaker.TOOL_RESULT: (glyph.RESULT, "dim", ""),
    Speaker.NOTE: (glyph.NOTE, "dim", ""),
    Speaker.STOPPED: (glyph.STOPPED, "warning", ""),
    Speaker.SHORT: (glyph.WARNING, "warning", ""),
}


def _whole(block: Block, width: int, theme: Theme) -> list[str]:
    """Everything that the event says, as plain text."""
    drawn: list[str] = []
    room = WHOLE
    for part in block.parts if block.speaker is Speaker.ASSISTANT else (_said(block),):
        if isinstance(part, str):
            (sign, sign_style, style), text = _SIGNS[block.speaker], part
        else:
            sign, sign_style, style, text = glyph.THOUGHT, "thought", "thought", part.text
        made = list(wrap(clean(text[:room]).strip("\n"), width - render.INDENT))
        room -= len(text)
        drawn += [""] * bool(drawn)
        drawn += (
            f"{theme.paint(sign_style, sign) if n == 0 else ' '} {theme.paint(style, row)}".rstrip()
            for n, row in enumerate(made)
        )
        if room <= 0:
            drawn.append(theme.paint("warning", render.cut("  … and more: o opens all of it", width)))
            break
    else:
        if block.diff and len(block.diff) <= room:
            changed = changes.whole(block.diff, width - render.INDENT, theme)
            drawn += ["", *(" " * render.INDENT + row if row else "" for row in changed)]
    return drawn or [theme.paint("dim", glyph.NOTE)]


def _said(block: Block) -> str:
    """A tool call with its arguments one below the other; anything else as it is."""
    if block.speaker is not Speaker.TOOL_CALL:
        return block.text
    try:
        called = msgspec.json.decode(block.text, type=dict[str, object])
    except (msgspec.DecodeError, UnicodeEncodeError):
        return f"{block.name} {block.text}"
    made = (value if isinstance(value, str) else msgspec.json.encode(value).decode() for value in called.values())
    return "\n".join((block.name, *(f"{key}: {value}" for key, value in zip(called, made, strict=True))))
