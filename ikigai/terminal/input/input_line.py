"""The input: its text, completions and search, and the text set aside while an answer is typed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document

from ikigai.terminal.input import prompt
from ikigai.terminal.input.completion import Menu
from ikigai.terminal.input.sent_prompts import Pastes, PromptHistory
from ikigai.terminal.output.dialog import Dialogs
from ikigai.terminal.render.theme import USER, Theme
from ikigai.terminal.tty import Tty

if TYPE_CHECKING:
    from ikigai.terminal.input.prompt_finder import PromptFinder
    from ikigai.terminal.screen_handler import ScreenHandler


class InputLine:
    """The buffers, and the state that goes with them. Texts are as typed: labels of pastes stay inside.

    `changed` is called when the input has to be laid out anew. With `suggests` earlier prompts are suggested while no
    question waits.
    """

    def __init__(
        self,
        tty: Tty,
        theme: Theme,
        handler: ScreenHandler,
        dialogs: Dialogs,
        *,
        suggests: bool,
        changed: Callable[[], object],
    ) -> None:
        self._tty, self._handler, self._dialogs, self._changed = tty, handler, dialogs, changed
        self.pastes = Pastes()
        self.prompts = PromptHistory(self.pastes)
        self.buffer = Buffer(history=self.prompts, on_text_insert=self._on_growth, on_text_changed=self._on_change)
        self.menu = Menu(self.buffer, handler.complete)
        self.ghost = prompt.GhostSuggestion(
            self.buffer, self.prompts, lambda: suggests and dialogs.current is None, self._columns
        )
        self._field = Buffer(multiline=False, on_text_changed=self._on_search)
        self._finder: PromptFinder | None = None
        self._aside: str | None = None  # the text of the input while an answer needs its place
        self.layout = prompt.build_layout(self.buffer, self._field, self._label, self.ghost, tty, theme.sign(USER))

    # ── the text ─────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def text(self) -> str:
        """The text of the input."""
        return self.pastes.expanded(self.buffer.text)

    @property
    def typed(self) -> str:
        """The text that the user has typed: the input now, or before a search or an answer."""
        if self._aside is not None:
            return self.pastes.expanded(self._aside)
        return self.pastes.expanded(self._finder.before) if self._finder else self.text

    def put(self, text: str) -> None:
        """Make `text` the input."""
        self._replace(self.pastes.collapsed(text))

    def restore_input(self, text: str) -> None:
        """Put `text` before the text in the input."""
        if text:
            self._replace("\n".join(filter(None, (self.pastes.collapsed(text), self.buffer.text))))

    def insert(self, text: str) -> None:
        """Insert `text` at the cursor, or at the end of a text that is set aside."""
        text = self.pastes.collapsed(text)
        if self._aside is not None:
            self._aside += text
        else:
            self.buffer.insert_text(text)
            self._changed()

    def append(self, text: str) -> None:
        """Put `text` below the text in the input; the cursor stays at the end of that."""
        before = self.buffer.text.rstrip()
        self._replace(f"{before}\n\n{self.pastes.collapsed(text)}", len(before))

    def take(self) -> str:
        """Clear the input and return its text."""
        text = self.text
        if text:
            self._replace("")
        return text

    def use_for_answer(self, is_used: bool) -> None:
        """Set the text of the input aside while the words of an answer are typed there, and restore it after them."""
        if is_used and self._aside is None:
            self._aside = self.buffer.text
            self._replace("")
        elif not is_used and self._aside is not None:
            self._replace(self._aside)
            self._aside = None

    def _replace(self, text: str, cursor: int | None = None) -> None:
        """Make `text` the input, so that undo restores the one before."""
        self.buffer.save_to_undo_stack()
        self.buffer.document = Document(text, cursor)
        self._changed()

    def _on_growth(self, buffer: Buffer) -> None:
        self.menu.offer()
        self._dialogs.typed()
        self._handler.typing(buffer.text)

    def _on_change(self, _: Buffer) -> None:
        self._handler.draft_changed(False)

    def offer_again(self) -> None:
        """Update the menu: a source of completions has found more."""
        if self.menu.again():
            self._changed()

    # ── what was sent before ─────────────────────────────────────────────────────────────────────────────────────

    def set_prompts(self, texts: Iterable[str]) -> None:
        """Set the prompts of earlier runs for Up and Ctrl+R, the newest first."""
        self.prompts.fill(texts)
        menu = self.buffer.complete_state
        self.buffer.reset(self.buffer.document)  # they are read with the next paint
        self.buffer.complete_state = menu  # for text that the user has begun to type meanwhile
        self._changed()

    def earlier(self) -> list[str]:
        """Return the prompts that were sent before and are loaded here, the newest first."""
        return list(self.prompts.load_history_strings())

    @property
    def finding(self) -> bool:
        return self._finder is not None

    def find(self) -> None:
        from ikigai.terminal.input.prompt_finder import begin_search

        self._field.reset()
        self._finder = begin_search(
            self.buffer, self.prompts, self._handler.search, self.pastes.collapsed, self._columns, self._changed
        )
        self.layout.focus(self._field)

    def find_next(self, by: int) -> None:
        if self._finder:
            self._finder.move(by)

    def found(self, take: bool) -> None:
        finder, self._finder = self._finder, None
        self.layout.focus(self.buffer)
        if finder and (text := finder.ended(take)) is not None:
            self.put(text)

    def _on_search(self, field: Buffer) -> None:
        if self._finder:
            self._finder.typed(field.text)

    def _label(self) -> str:
        return "search (nothing found): " if self._finder and self._finder.empty else "search: "

    def _columns(self) -> int:
        return self._tty.size()[0]
