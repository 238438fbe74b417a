"""Tests of the list to pick from, without a terminal: typing, reading, moves and the frame."""

from collections.abc import Sequence

import pytest
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys

from ikigai.core.errors import Rejected, StoreError
from ikigai.terminal.browser.browser import Browser, Work
from ikigai.terminal.browser.picker_page import PickerPage
from ikigai.terminal.browser.picker_source import PickerRow
from ikigai.terminal.keys.codes import ESC_KEY
from ikigai.terminal.render.text_width import cell_width
from ikigai.terminal.render.theme import Theme

PAGE_ROWS = 50
STILL_OPEN = "still open"


class Numbers:
    """A source of 120 rows, read 50 at a time. It fails while `error` is set."""

    title, verb, more_key = "Numbers", "counts", "shows even ones, too"

    def __init__(self, words: str = "") -> None:
        self.error: Exception | None = None
        self._words = words

    async def page(self, typed: str, everything: bool, shown: Sequence[PickerRow]) -> tuple[Sequence[PickerRow], bool]:
        if self.error:
            raise self.error
        names = [f"n{number}" for number in range(120) if everything or number % 2]
        found = [PickerRow(name, name, ("a fact",), self._words) for name in names if typed in name]
        end = len(shown) + PAGE_ROWS
        return found[len(shown) : end], end >= len(found)

    def typed_value(self, typed: str) -> str:
        raise Rejected(f"{typed} is not a number.", "Ctrl+U clears the filter.")


class ListBrowser(Browser):
    """A browser without a terminal: `read` runs the work that was begun, and what follows from it."""

    def __init__(self, columns: int, rows: int) -> None:
        self.theme, self.message, self._size = Theme(plain=True), "", (columns, rows)
        self.left: str | None = STILL_OPEN
        self._work: Work | None = None

    @property
    def is_loading(self) -> bool:
        return self._work is not None

    def load(self, work: Work) -> None:
        assert not self._work, "one at a time"
        self._work = work

    def leave(self, value: str | None = None) -> None:
        self.left = value

    async def read(self, page: PickerPage) -> None:
        page.frame(*self._size)
        while work := self._work:
            try:
                await work()
            except StoreError as error:
                self.message = str(error)
                page.loading_failed()
            self._work = None
            page.refresh(*self._size)


class Opened:
    """A picker on a screen of this size. `press` types text or presses a key, without reading."""

    def __init__(self, source: Numbers, columns: int = 40, rows: int = 10) -> None:
        self.browser, self._size = ListBrowser(columns, rows), (columns, rows)
        self.page = PickerPage(self.browser, source)
        self.page.refresh(columns, rows)

    async def read(self) -> "Opened":
        await self.browser.read(self.page)
        return self

    def press(self, *keys: str) -> None:
        for key in keys:
            self.browser.message = ""
            for each in [key] if isinstance(key, Keys) else key:
                self.page.press(KeyPress(each))
            self.page.refresh(*self._size)

    @property
    def rows(self) -> list[str]:
        return [row.rstrip() for row in self.page.frame(*self._size)]

    @property
    def chosen(self) -> str:
        (row,) = (row for row in self.rows if row.startswith("▌ n"))
        return row[2:].split()[0]


async def test_picker_shows_title_filter_rows_and_keys() -> None:
    picker = await Opened(Numbers()).read()
    assert picker.rows[:4] == [" Numbers", " ›   type to filter", "▌ n1  a fact", "  n3  a fact"]
    assert picker.rows[-1] == " Enter counts · Esc leaves" and len(picker.rows) == 10


async def test_picker_filters_while_typing_and_keys_edit_the_filter() -> None:
    picker = await Opened(Numbers()).read()
    picker.press("n11")
    assert picker.rows[2] == "▌ n1  a fact", "the old rows stay until the new ones have been read"
    await picker.read()
    assert picker.rows[1:5] == [" › n11", "▌ n11  a fact", "  n111  a fact", "  n113  a fact"]
    for key, typed in ((Keys.ControlH, "n1"), (Keys.ControlU, ""), ("a b", "a b"), (Keys.ControlW, "a")):
        picker.press(key)
        assert picker.rows[1].split(" › ")[1].removesuffix("type to filter").strip() == typed
    picker.press(Keys.ControlU, Keys.Tab)
    await picker.read()
    assert picker.chosen == "n0"


@pytest.mark.parametrize(
    ("keys", "chosen"),
    [
        ((Keys.Down, Keys.ControlN, Keys.Up), "n3"),
        ((Keys.Down, Keys.Down, Keys.ControlP), "n3"),
        ((Keys.Up,), "n1"),
        ((Keys.PageDown,), "n13"),
        ((Keys.PageDown, Keys.PageDown, Keys.PageUp), "n13"),
        ((Keys.End,), "n99"),
        ((Keys.End, Keys.Home), "n1"),
    ],
)
async def test_picker_moves_by_rows_and_by_screens(keys: tuple[str, ...], chosen: str) -> None:
    picker = await Opened(Numbers()).read()
    picker.press(*keys)
    assert picker.chosen == chosen


async def test_page_of_a_picker_is_the_entries_on_the_screen_when_each_takes_two_rows() -> None:
    picker = await Opened(Numbers("words"), rows=11).read()
    assert sum(row.endswith("a fact") for row in picker.rows) == 4
    picker.press(Keys.PageDown)
    assert picker.chosen == "n7", "the last one of the first screen"


async def test_picker_reads_more_when_the_cursor_comes_near_the_end() -> None:
    picker = await Opened(Numbers()).read()
    picker.press(Keys.End)
    await picker.read()
    picker.press(Keys.End)
    assert picker.chosen == "n119"


@pytest.mark.parametrize("keys", [("n11", Keys.Enter), ("n11", Keys.ControlJ)])
async def test_picker_picks_what_is_typed_ahead_of_its_rows(keys: tuple[str, ...]) -> None:
    for is_read in (True, False):
        picker = Opened(Numbers())
        if is_read:
            await picker.read()
        picker.press(*keys)
        assert picker.browser.left == STILL_OPEN
        await picker.read()
        assert picker.browser.left == "n11"


async def test_key_after_enter_takes_the_choice_back() -> None:
    picker = Opened(Numbers())
    picker.press("n11", Keys.Enter, Keys.Down)
    await picker.read()
    assert picker.browser.left == STILL_OPEN


@pytest.mark.parametrize("key", [ESC_KEY, Keys.ControlC, Keys.ControlG])
async def test_picker_is_left_without_a_value(key: Keys) -> None:
    picker = await Opened(Numbers()).read()
    picker.press(key)
    assert picker.browser.left is None


async def test_picker_refuses_a_typed_text_that_no_row_has() -> None:
    picker = await Opened(Numbers(), columns=20).read()
    picker.press("seven", Keys.Enter)
    await picker.read()
    assert picker.browser.left == STILL_OPEN
    assert picker.rows[2] == " Nothing matches."
    assert " ".join("".join(picker.rows[3:]).split()) == "seven is not a number. Ctrl+U clears the filter."
    picker.press(Keys.ControlU)
    await picker.read()
    assert picker.chosen == "n1"


async def test_picker_shows_why_rows_cannot_be_read_and_reads_again_for_another_filter() -> None:
    source = Numbers()
    source.error = StoreError("The database is away.", "Wait.")
    picker = await Opened(source).read()
    assert picker.rows[2] == " There is nothing to choose." and "The database is away" in "".join(picker.rows[3:])
    source.error = None
    picker.press("n1")
    await picker.read()
    assert picker.chosen == "n1"


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (40, 10), (20, 5), (8, 3), (3, 1)])
@pytest.mark.parametrize("message", ["", "A long reason why this cannot be picked, with what to do next."])
async def test_picker_fits_any_screen(columns: int, rows: int, message: str) -> None:
    picker = await Opened(Numbers("words"), columns, rows).read()
    picker.browser.message = message
    for keys in ((), (Keys.End,), ("nothing",)):
        picker.press(*keys)
        picker.browser.message = message
        await picker.read()
        frame = picker.page.frame(columns, rows)[:rows]
        assert len(frame) == rows and all(cell_width(row) <= columns for row in frame)
