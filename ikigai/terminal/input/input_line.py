"""The input at work: what is typed in it, completed and looked for, and what is put by while an answer needs it."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.document import Document

from ikigai.terminal.input import prompt
from ikigai.terminal.input.completion import Menu, Sources
from ikigai.terminal.input.pastes import Pastes
from ikigai.terminal.render.theme import USER, Theme
from ikigai.terminal.tty import Tty

if TYPE_CHECKING:
    from ikigai.terminal.input.prompt_finder import Finder, Look


class Input:
    """The buffers, and the state that goes with them. Texts are as typed: no label of a paste leaves here.

    `on_typing` takes what is in the input whenever it has grown; `on_draft` is called when `typed` may be another,
    `changed` when the input has to be laid out anew. `sources` completes arguments, `look` looks for what was sent
    before, `suggests` says whether earlier prompts are suggested just now.
    """

    def __init__(
        self,
        tty: Tty,
        theme: Theme,
        sources: Sources,
        *,
        on_typing: Callable[[str], object],
        on_draft: Callable[[], None],
        look: "Look",
        suggests: Callable[[], bool],
        changed: Callable[[], object],
    ) -> None:
        self._tty, self._on_typing, self._look, self._changed = tty, on_typing, look, changed
        self.pastes = Pastes()
        self.prompts = prompt.Prompts(self.pastes)
        self.buffer = Buffer(history=self.prompts, on_text_insert=self._grown, on_text_changed=lambda _: on_draft())
        self.menu = Menu(self.buffer, sources)
        self.ghost = prompt.Ghost(self.buffer, self.prompts, suggests, self._columns)
        self._field = Buffer(multiline=False, on_text_changed=self._sought)
        self._finder: Finder | None = None
        self._aside: str | None = None  # what was in the input when an answer needed it
        self.layout = prompt.layout(self.buffer, self._field, self._label, self.ghost, tty, theme.sign(USER))

    # ── the text ─────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def text(self) -> str:
        """All that is in the input."""
        return self.pastes.expanded(self.buffer.text)

    @property
    def typed(self) -> str:
        """What the user has typed: what is in the input, or was before a search or an answer."""
        if self._aside is not None:
            return self.pastes.expanded(self._aside)
        return self.pastes.expanded(self._finder.before) if self._finder else self.text

    def put(self, text: str) -> None:
        """Make `text` the input."""
        self._replace(self.pastes.collapsed(text))

    def returned(self, text: str) -> None:
        """Put `text` before what is in the input."""
        if text:
            self._replace("\n".join(filter(None, (self.pastes.collapsed(text), self.buffer.text))))

    def put_by(self) -> str:
        """Take what is in the input out of it."""
        text = self.text
        if text:
            self._replace("")
        return text

    def lend(self, to_answer: bool) -> None:
        """Put by what is in the input while the words of an answer are typed there, and bring it back behind them."""
        if to_answer and self._aside is None:
            self._aside = self.buffer.text
            self._replace("")
        elif not to_answer and self._aside is not None:
            self._replace(self._aside)
            self._aside = None

    def _replace(self, text: str) -> None:
        """Make `text` the input, so that undo brings back what was there."""
        self.buffer.save_to_undo_stack()
        self.buffer.document = Document(text)
        self._changed()

    def _grown(self, buffer: Buffer) -> None:
        self.menu.offer()
        self._on_typing(buffer.text)

    def offer_again(self) -> None:
        """A source of the completions has found more."""
        if self.menu.again():
            self._changed()

    # ── what was sent before ─────────────────────────────────────────────────────────────────────────────────────

    def set_prompts(self, texts: Iterable[str]) -> None:
        """Prompts of earlier runs for Up and Ctrl+R, the newest first."""
        self.prompts.fill(texts)
        menu = self.buffer.complete_state
        self.buffer.reset(self.buffer.document)  # they are read with the next paint
        self.buffer.complete_state = menu  # of what somebody has begun to type meanwhile
        self._changed()

    def earlier(self) -> list[str]:
        """What was sent before, as far as it is known here, the newest first."""
        return list(self.prompts.load_history_strings())

    @property
    def finding(self) -> bool:
        return self._finder is not None

    def find(self) -> None:
        from ikigai.terminal.input.prompt_finder import begun

        self._field.reset()
        self._finder = begun(self.buffer, self.prompts, self._look, self.pastes.collapsed, self._columns, self._changed)
        self.layout.focus(self._field)

    def find_next(self, by: int) -> None:
        if self._finder:
            self._finder.move(by)

    def found(self, take: bool) -> None:
        finder, self._finder = self._finder, None
        self.layout.focus(self.buffer)
        if finder and (text := finder.ended(take)) is not None:
            self.put(text)

    def _sought(self, field: Buffer) -> None:
        if self._finder:
            self._finder.typed(field.text)

    def _label(self) -> str:
        return "search (nothing found): " if self._finder and self._finder.empty else "search: "

    def _columns(self) -> int:
        return self._tty.size()[0]
