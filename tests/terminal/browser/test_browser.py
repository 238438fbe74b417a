"""These tests run the history browser without a terminal: held events, shown rows and the effects of keys."""

import random
import re
from base64 import b64decode

import pytest

from ikigai.core.events.events import AssistantMessage, CommandRan, Event, StoredEvent, Summarized, UserMessage
from ikigai.core.events.messages import Text, Thinking, ToolCall, ToolResult
from ikigai.core.search.query import parse
from ikigai.core.state.inputs import Clear, RewindTo, SetMark, Undo
from ikigai.core.state.memory import Memory
from ikigai.core.views.context_rule import ContextRule
from ikigai.core.views.exclusion_reason import CONTROL_EVENTS, Exclusions
from ikigai.core.views.transcript import history_items
from ikigai.terminal.browsable_history import HitSeeker
from ikigai.terminal.browser import frame as browser_frame
from ikigai.terminal.browser import items as browser_items
from ikigai.terminal.browser import keys as browser_keys
from ikigai.terminal.browser import pages as browser_pages
from ikigai.terminal.browser.browser import Browser, Work
from ikigai.terminal.browser.history_actions import HistoryActions
from ikigai.terminal.browser.items import BrowserItem, build_items
from ikigai.terminal.browser.pages import PAGE_EVENTS, EventPages
from ikigai.terminal.browser.view import EXCLUSION_SIGNS, BrowserView
from ikigai.terminal.clipboard import MAX_CLIPBOARD_BYTES, copy_sequence
from ikigai.terminal.render.text_width import cell_width
from ikigai.terminal.render.theme import Theme, strip_styles
from tests.core.agent import RUN, Agent
from tests.core.views.test_exclusion_reason import Last, take
from tests.support.examples import seeds
from tests.terminal.test_foreign import HOSTILE, OBEYED, memory

PLAIN = Theme(plain=True)
MEMORY = memory()


def stored(*events: Event, first: int = 1) -> list[StoredEvent]:
    return [StoredEvent(id, "a", id, 0.0, event) for id, event in enumerate(events, start=first)]


def shown(events: list[StoredEvent], of: Memory = MEMORY, **branches: str) -> list[BrowserItem]:
    controls = [event for event in events if isinstance(event.event, CONTROL_EVENTS)]
    return build_items(events, of, Exclusions(controls), {int(id[1:]): (name,) for id, name in branches.items()})


def view(events: list[StoredEvent], width: int = 60, height: int = 10) -> BrowserView:
    made = BrowserView(PLAIN, width, height)
    made.show(shown(events))
    return made


def cursor(of: BrowserView) -> str:
    (row,) = (row for row in of.frame() if row.startswith("▌"))
    return row[3:]


LINES = stored(*(UserMessage(f"message {n}") for n in range(100)))

# ── what is held ──


@pytest.mark.parametrize("seed", seeds(2, 20))
def test_pages_hold_a_bounded_stretch_without_gaps(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browser_pages, "MAX_HELD_EVENTS", 50)
    rng, log = random.Random(seed), stored(*(UserMessage("x" * 10) for _ in range(400)))
    pages, page = EventPages(), 20
    pages.set(log[-page:], first=False, last=True)
    for _ in range(200):
        ids = [event.id for event in pages.events]
        assert ids == list(range(ids[0], ids[-1] + 1)) and len(ids) <= 60
        assert not pages.first or ids[0] == 1
        assert not pages.last or ids[-1] == 400
        back = rng.random() < 0.5
        seen = rng.choice(ids[:40] if back else ids[-40:])
        if back:
            pages.add_before(log[max(0, ids[0] - 1 - page) : ids[0] - 1], seen)
        else:
            pages.add_after(log[ids[-1] - rng.randint(0, 2) : ids[-1] + page], seen)
        assert seen in [event.id for event in pages.events]


def test_heavy_events_are_few() -> None:
    pages, heavy = EventPages(), browser_pages.MAX_HELD_CHARACTERS // 4
    log = stored(*(UserMessage("x" * heavy) for _ in range(20)))
    pages.set(log[-2:], first=False, last=True)
    for at in range(16, -1, -2):
        pages.add_before(log[at : at + 2], seen=at + 2)
        assert len(pages.events) <= 6
    pages.add_before((), seen=1)
    assert pages.first and not pages.last and PAGE_EVENTS > 6


# ── what is shown ──


def test_context_rule_is_where_the_context_begins_and_every_event_has_its_sign() -> None:
    agent = Agent(RUN.__class__(RUN.below | {"budget": 150}, RUN.limits, RUN.encoder))
    for text in "abcdefgh":
        agent.turn(text * 60)
    agent.happen(SetMark("m"))
    agent.turn("x" * 60)
    agent.happen(RewindTo("m"))
    events = [row.event() for row in agent.log.rows]
    made = shown(events, agent.memory, _1="twig")
    assert [item.shown for item in made if item.key[1] != browser_items.BRANCH_POSITION] == history_items(
        events, agent.memory
    )
    at = next(n for n, item in enumerate(made) if isinstance(item.shown, ContextRule))
    assert all(item.exclusion for item in made[:at]) and made[at + 1].exclusion is None
    assert made[at + 1].opens_turn and made[at + 1].id == agent.memory.cutoff
    assert len({item.key for item in made}) == len(made)
    assert sum("Forks from here: twig." in item.text for item in made) == 1
    drawn = BrowserView(PLAIN, 60, 100)
    drawn.show(made)
    signs = {row[3:]: row[1] for row in drawn.frame() if row}
    assert signs["❯ " + "a" * 55] == "o" and signs["❯ " + "x" * 55] == "r" and signs["❯ " + "h" * 55] == " "


def test_after_a_clear_the_rule_stands_behind_it() -> None:
    agent = Agent()
    agent.turn("before")
    agent.happen(Clear())
    agent.turn("after")
    events = [row.event() for row in agent.log.rows]
    drawn = BrowserView(PLAIN, 120, 100)
    drawn.show(shown(events, agent.memory))
    rows = [row[1:].strip() for row in drawn.frame() if row]
    at = next(n for n, row in enumerate(rows) if "context begins here" in row)
    assert rows[at - 1].startswith("· Context cleared") and rows[at + 1] == "❯ after" and "c ❯ before" in rows


LOOKS = [
    UserMessage(HOSTILE),
    UserMessage("漢字は幅が二つ 🦉 árvíztűrő" * 9),
    UserMessage("\n".join(map(str, range(90)))),
    AssistantMessage(
        (Thinking(HOSTILE * 20), Text(f"# {HOSTILE}\n\n| a | b |\n|---|---|\n| {'x' * 400} | {HOSTILE} |"))
    ),
    AssistantMessage((Text("```python\n" + "x = 1 # 漢字\n" * 30 + "y" * 500 + "\n```"),)),
    AssistantMessage((Text("word " * 8_000 + "end"),)),
    ToolCall("c", HOSTILE, '{"command": "' + "ls " * 200 + '\\u001b[2J"}'),
    ToolResult("c", HOSTILE + "\n" * 50 + "end", True),
    CommandRan("/cost", HOSTILE),
    UserMessage(""),
]


@pytest.mark.parametrize("size", [(20, 5), (41, 12), (300, 100)])
@pytest.mark.parametrize("theme", [PLAIN, Theme(color=False), Theme()])
def test_nothing_foreign_or_too_wide_is_drawn(size: tuple[int, int], theme: Theme) -> None:
    width, height = size
    made = BrowserView(theme, width, height)
    made.show(shown(stored(*LOOKS)))
    for _ in range(2):
        made.start()
        for item in made.items:
            made.select(item.id)
            assert made.current and made.current.id == item.id
            head = browser_frame.draw_head(browser_frame.where_is(made.current, HOSTILE), width, theme)
            foot = browser_frame.draw_foot(HOSTILE, "loading…", (), width, 1, theme)
            frame = made.frame()
            assert len(frame) == height
            for row in [*frame, head, *foot, browser_frame.draw_typed("/", HOSTILE * 9, width, theme)]:
                assert cell_width(strip_styles(row)) <= width and not OBEYED.search(strip_styles(row)), row
                assert theme is PLAIN or "\x1b" not in strip_styles(row)
            made.unfold()
    for item in made.items:
        assert not OBEYED.search(item.text.replace("\n", "")) and not OBEYED.search(item.words.replace("\n", ""))


def test_items_unfold_and_fold_again() -> None:
    made = view(stored(UserMessage("?"), ToolResult("c", "\n".join(f"row {n}" for n in range(30)))), height=60)
    made.select(2)
    assert "24 more lines" in "\n".join(made.frame())
    assert made.unfold() and "row 29" in "\n".join(made.frame())
    assert made.unfold() and "row 29" not in "\n".join(made.frame())
    made.select(1)
    assert not made.unfold() and not made.unfold()
    made = view(stored(Summarized("what the summary tells", 3, turns=2)))
    assert "Condensed: 2 turns" in cursor(made) and made.unfold()
    assert any("what the summary tells" in row for row in made.frame())
    assert made.current and made.current.undoable and "what the summary tells" in made.current.text


def test_event_is_opened_whole_from_the_top() -> None:
    rows = "\n".join(f"row {n}" for n in range(30))
    diff = "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-\u202eold\n+new"
    said = AssistantMessage((Thinking("One.\n\nMore."), Text("Words."), Thinking("Two.\n\nEnd."), Text("Last.")))
    log = stored(UserMessage("?"), ToolResult("c", rows), said, ToolResult("d", "Edited.", diff=diff), UserMessage("!"))
    made = view(log)
    made.end()
    made.open(2)
    assert cursor(made) == "← row 0" and made.frame()[0].startswith("▌") and made.frame()[9].endswith("row 9")
    made.open(3)
    assert cursor(made) == "∴ Two.", "the last thought"
    made.resize(60, 60)
    made.open(4)
    assert made.current and made.current.id == 4 and "│    1 - <U+202E>old" in made.frame()
    assert made.current.text.endswith("@@ -1 +1 @@\n-<U+202E>old\n+new")
    made.open(400)
    assert made.current.id == 5


# ── where the cursor goes ──


def test_moves() -> None:
    made = view(LINES)
    for move, wanted in (
        (made.end, 99),
        (lambda: made.move(-1), 98),
        (lambda: made.page(-1), 94),
        (made.start, 0),
        (lambda: made.move(3), 3),
        (lambda: made.page(1), 7),
        (lambda: made.turn(1), 8),
        (lambda: made.select(50), 49),
        (lambda: made.move(-1000), 0),
        (lambda: made.move(1000), 99),
    ):
        move()
        assert abs(int(cursor(made).split()[-1]) - wanted) <= (wanted in (94, 7)), (wanted, made.frame())


@pytest.mark.parametrize("seed", seeds(2, 20))
def test_cursor_keeps_its_event_when_more_is_read(seed: int) -> None:
    rng = random.Random(seed)
    made = BrowserView(PLAIN, 60, rng.choice([1, 3, 10, 40]))
    first = last = 50
    made.show(shown(LINES[first:last + 1]))  # fmt: skip
    while first > 0 or last < 99:
        first, last = max(0, first - rng.randint(0, 9)), min(99, last + rng.randint(0, 9))
        before = cursor(made)
        made.show(shown(LINES[first : last + 1]))
        assert cursor(made) == before
        made.resize(rng.randint(20, 90), rng.choice([1, 3, 10, 40]))
        assert cursor(made) == before
        made.move(rng.randint(-5, 5))
    assert made.at_end is False or made.current is made.items[-1]


def test_match_is_shown_in_a_folded_block() -> None:
    made = view(
        stored(*(UserMessage("?") for _ in range(50)), ToolResult("c", "row\n" * 50 + "the Needle is here\nrow"))
    )
    made.search(parse("needle"))
    made.select(51, searched=True)
    assert "the Needle is here" in cursor(made)
    coloured = BrowserView(Theme(), 60, 10)
    coloured.show(made.items)
    coloured.search(parse("needle here"))
    coloured.select(51, searched=True)
    (row,) = (row for row in coloured.frame() if "Needle" in row)
    assert "\x1b[1;33mNeedle\x1b[0m" in row and "\x1b[1;33mhere\x1b[0m" in row


# ── keys, and what they come to ──


def test_every_key_does_one_thing_and_is_in_the_help() -> None:
    keys = [key for bound in browser_keys.KEY_BINDINGS for key in bound.keys]
    assert len(keys) == len(set(keys)) == len(browser_keys.ACTION_OF_KEY)
    own = {bound.action for bound in browser_keys.KEY_BINDINGS} - {*browser_keys.MOVES}
    assert all(hasattr(Browser if each in browser_keys.BROWSER_ACTIONS else HistoryActions, each) for each in own)
    text = "\n".join(browser_keys.draw_help(100))
    assert all(bound.shown in text and bound.help in text for bound in browser_keys.KEY_BINDINGS)
    assert {sign for sign, _ in browser_keys.SIGN_HELP} == set(EXCLUSION_SIGNS.values())


class Log:
    """A `HistoryPages` over events in a list."""

    agent, names, branches = "a", {"a": "a"}, {}

    def __init__(self, agent: Agent, refusal: str = "") -> None:
        self._events = [row.event() for row in agent.log.rows]
        self.memory, self.refusal = agent.memory, refusal
        self.controls = tuple(event for event in self._events if isinstance(event.event, CONTROL_EVENTS))

    async def lineage(self) -> "Log":
        return self

    async def before(self, id: int | None, limit: int) -> tuple[StoredEvent, ...]:
        return tuple(event for event in self._events if id is None or event.id < id)[-limit:]

    async def after(self, id: int, limit: int) -> tuple[StoredEvent, ...]:
        return tuple(event for event in self._events if event.id > id)[:limit]

    async def seek(self, query: str) -> HitSeeker:
        raise NotImplementedError


class RecordingBrowser(Browser):
    """A browser without a terminal that records what the actions of its page do to it."""

    def __init__(self) -> None:
        self.theme, self.told = PLAIN, list[tuple[str, str]]()

    @property
    def is_loading(self) -> bool:
        return False

    def load(self, work: Work) -> None:
        self.told.append(("load", ""))

    def say(self, text: str) -> None:
        self.told.append(("say", text))

    def leave(self, value: str | None = None) -> None:
        self.told.append(("leave", value or ""))

    def copy(self, text: str) -> None:
        self.told.append(("copy", text))

    def page(self, text: str) -> None:
        self.told.append(("page", text))


@pytest.mark.parametrize(
    ("on", "key", "did", "what"),
    [
        ("❯ one", "f", "leave", "/fork at {id}"),
        ("❯ one", "e", "leave", "/edit {id}"),
        ("● !", "r", "leave", "/rewind {id}"),
        ("❯ one", "x", "leave", "/forget {id}"),
        ("❯ one", "u", "say", "There is nothing to undo here"),
        ("❯ two", "u", "leave", "/undo {rewind}"),
        ("· Rewound", "u", "leave", "/undo {rewind}"),
        ("❯ three", "x", "say", "forgotten already by #{filter}"),
        ("❯ three", "u", "leave", "/undo {filter}"),
        ("· Forgot", "u", "leave", "/undo {filter}"),
        ("· Undid", "u", "leave", "/undo {undo}"),
        ("❯ four", "u", "say", "There is nothing to undo here"),
        ("❯ four", "c", "copy", "four"),
        ("❯ four", "o", "page", "four\n"),
        ("❯ four", "n", "say", "There is no search yet"),
    ],
)
async def test_actions(on: str, key: str, did: str, what: str) -> None:
    agent = Agent()
    for step in (
        "one",
        SetMark("m"),
        "two",
        RewindTo("m"),
        "three",
        Last(1),
        "four",
        SetMark("n"),
        RewindTo("n"),
        Undo(),
    ):
        take(agent, step)
    ids = {kind: row.id for row in reversed(agent.log.rows) for kind in [row.kind]}
    for refusal in ("", "It is read-only."):
        browser = RecordingBrowser()
        actions = HistoryActions(browser, Log(agent, refusal), rewinding=False)
        actions.view.resize(60, 100)
        await actions.reader.open()
        actions.view.show(actions.reader.items)
        item = next(
            each
            for each in actions.view.items
            if "\n".join(browser_items.draw_rows(each, 60, PLAIN, False)).startswith(on)
        )
        actions.view.select(item.id)
        getattr(actions, browser_keys.ACTION_OF_KEY[key])()
        ((done, said),) = browser.told
        if refusal and did == "leave" and what and key != "f":
            assert (done, said) == ("say", refusal)
        else:
            assert done == did and what.format(id=item.id, **ids) in said and (what or not said)


def test_copies_for_terminals_and_what_is_between() -> None:
    text = "a\tb\n漢"
    found = re.fullmatch(r"\x1b\]52;c;(.*)\x07", copy_sequence(text, {}))
    assert found and b64decode(found[1]).decode() == text
    plain = copy_sequence(text, {})
    assert copy_sequence(text, {"TMUX": "x"}) == plain + "\x1bPtmux;" + plain.replace("\x1b", "\x1b\x1b") + "\x1b\\"
    pieces = re.findall(r"\x1bP(.*?)\x1b\\", copy_sequence("x" * 5000, {"STY": "x"}), re.DOTALL)
    assert "".join(pieces) == copy_sequence("x" * 5000, {}) and max(map(len, pieces)) <= 760
    assert copy_sequence("x" * MAX_CLIPBOARD_BYTES, {}) and not copy_sequence("x" * (MAX_CLIPBOARD_BYTES + 1), {})
