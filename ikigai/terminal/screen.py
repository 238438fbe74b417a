"""The screen, put together: what is shown, the input, the questions that need both, and the terminal under them."""

import os
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ikigai.core.questions import Answered, Question
from ikigai.terminal.input.actions import Actions
from ikigai.terminal.input.completion import Sources
from ikigai.terminal.input.input_line import Input
from ikigai.terminal.input.key_bindings import bindings
from ikigai.terminal.output.application import Stage
from ikigai.terminal.output.conversation import Showing
from ikigai.terminal.output.dialog import Dialogs
from ikigai.terminal.output.live_area import Area
from ikigai.terminal.output.status_line import PARTS
from ikigai.terminal.render.theme import Theme
from ikigai.terminal.tty import Tty

if TYPE_CHECKING:
    from ikigai.terminal.browser.source import Source
    from ikigai.terminal.external_programs import Lending
    from ikigai.terminal.input.prompt_finder import Look
    from ikigai.terminal.notifications import Wanted


class Screen(Showing):
    """A View over a terminal. Callbacks are called on the event loop and must not wait; text they get is as typed.

    `on_submit` takes what was sent, also while a turn is open, also before `begin` has got anywhere; `on_interrupt`
    a wish to stop the turn, `on_quit` to leave, `on_cycle` one for the next approval mode; `on_take_back` gives the
    newest queued message back, "" if there is none; `on_signal` takes INT, TERM, HUP or QUIT, HUP also when the
    terminal has gone; `on_go` a wish to go "up", "down", "left" or "right" in the tree of agents. `sources` completes
    arguments. `on_typing` takes what is in the input whenever it has grown. `thinking` says how a model's thoughts are
    shown: "fold" (in a row, once it speaks), "full" or "hide"; `parts` are those of the status line. `suggestions` says
    whether earlier ones are suggested, `vi` whether its keys edit. `on_browse` gives the history to look through, None
    while there is none; `on_search` looks for what was sent before; `on_draft` is called when `unsent` may be another,
    with True when a message was queued; `on_steer` takes what is to go into the turn under way.
    """

    def __init__(
        self,
        tty: Tty,
        theme: Theme,
        *,
        on_submit: Callable[[str], object],
        on_interrupt: Callable[[], object],
        on_quit: Callable[[], object],
        on_take_back: Callable[[], str],
        on_cycle: Callable[[], object] = lambda: None,
        on_signal: Callable[[int], object],
        on_go: Callable[[str], object] = lambda where: None,
        sources: Sources,
        on_typing: Callable[[str], object] = lambda text: None,
        thinking: str = "fold",
        parts: Sequence[str] = PARTS,
        suggestions: bool = True,
        vi: bool = False,
        on_browse: Callable[[], "Source | None"] = lambda: None,
        on_steer: Callable[[str], object] | None = None,
        on_draft: Callable[[bool], None] = lambda _: None,
        on_search: "Look" = lambda typed, found: lambda: None,
    ) -> None:
        self._typing, self._on_draft, self._source = on_typing, on_draft, on_browse
        suggested = suggestions and theme.color and not (tty.dumb or theme.words)  # else they would look like the text
        self._dialogs = Dialogs(self._asking)
        self._printed = ""  # the question, where nothing is shown around the input
        self._input = input = Input(
            tty,
            theme,
            sources,
            on_typing=self._typed,
            on_draft=lambda: on_draft(False),
            look=on_search,
            suggests=lambda: suggested and self._dialogs.current is None,
            changed=lambda: stage.frames.invalidate(),
        )
        area = Area(theme, input.buffer)
        area.parts = parts
        stage = Stage(tty, theme, area, input.layout, on_signal, self.drawn, vi)
        super().__init__(tty, theme, area, stage, thinking)
        self._actions = Actions(
            self,
            input,
            self._dialogs,
            stage,
            lambda: self._lending,
            submit=on_submit,
            steer=on_steer or on_submit,
            interrupt=on_interrupt,
            leave=on_quit,
            cycle=on_cycle,
            go=on_go,
            queued=on_take_back,
        )
        keys = bindings(self._actions, input.buffer, input.pastes, input.menu, input.ghost, vi)
        stage.bind(keys, lambda: on_draft(False))

    async def run(self, begin: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Show the prompt and take keys until `close`; `begin` starts as soon as the prompt is visible.

        Raises what `begin` raises, and any bug in here. The terminal is restored in any case.
        """
        await self._stage.run(begin)

    def equip(self, wanted: "Wanted") -> None:
        """From here on, use what this terminal can do beside drawing text, as far as it is wanted."""
        from ikigai.terminal.notifications import equip

        equip(self._tty, self._stage, self._entries, wanted, os.environ)

    async def copied(self, text: str) -> str:
        """Give safe text to the terminal's clipboard; says what came of it. Raises Refused where that cannot be."""
        from ikigai.terminal.clipboard import copied

        return await copied(text, self._tty, os.environ)

    def browse(self) -> None:
        """Open the history."""
        self._actions.browse()

    @cached_property
    def _lending(self) -> "Lending":
        from ikigai.terminal.external_programs import Lending

        return Lending(self._tty, self._theme, self._stage, self._input, self, self._source)

    def close(self, error: BaseException | None = None) -> None:
        """End `run`, which raises `error` if there is one."""
        self._stage.close(error)

    def restore(self) -> None:
        """Put the terminal back as it was: for exits that go past `run`."""
        self._tty.restore()

    # ── questions ────────────────────────────────────────────────────────────────────────────────────────────────

    async def ask(self, question: Question) -> Answered:
        """Ask the user; what it is about goes into the scrollback, the question stays above the input."""

        async def show() -> None:
            if question.lines:
                await self.propose(question.lines)  # what is not on screen yet is not answered

        answered = await self._dialogs.ask(question, show)
        label = next((each.label for each in question.choices if each.key == answered.key), answered.key)
        self.print_text(f"{question.title} {label}" + (f": {answered.words}" if answered.words else ""))
        return answered

    @property
    def wording(self) -> bool:
        """Whether the input holds the words of an answer."""
        return self._dialogs.wording

    def _asking(self) -> None:
        """Another question is to be shown, or none; while words of an answer are wanted the input is lent to them."""
        self._area.dialog = dialog = self._dialogs.current
        if self.bare and dialog and dialog.since:
            asked = f"{dialog.prompt}\n{' · '.join(dialog.keys)}"
            if self._theme.words:
                asked = self._in_words().question(dialog)
            if asked != self._printed:
                self.print_text(asked)
            self._printed = asked
        else:
            self._printed = ""
        self._input.lend(to_answer=self._dialogs.wording)
        self._frames.at_once()
        self._frames.invalidate()

    # ── the input ────────────────────────────────────────────────────────────────────────────────────────────────

    def returned(self, text: str) -> None:
        """Put `text` before what is in the input."""
        self._input.returned(text)

    def queued(self, texts: tuple[str, ...]) -> None:
        self._wait(texts, self._area.waiting)

    def waiting(self, texts: tuple[str, ...]) -> None:
        """Show, behind what the agent has queued, what it has not been given yet."""
        self._wait(self._area.queue, texts)

    def _wait(self, queue: tuple[str, ...], waiting: tuple[str, ...]) -> None:
        was, all = len(self._area.queue) + len(self._area.waiting), (*queue, *waiting)
        if self.bare and len(all) > was:
            self.print_text(f"Queued: {all[-1]}")
        self._area.queue, self._area.waiting = queue, waiting
        self._on_draft(len(all) > was)
        self._frames.soon()

    def put_by(self) -> str:
        """Take what is in the input out of it."""
        return self._input.put_by()

    @property
    def unsent(self) -> str:
        """What was typed and is not sent: what is queued, and what is in the input or was before a search or answer."""
        return "\n".join(filter(None, (*self._area.queue, *self._area.waiting, self._input.typed)))

    def set_prompts(self, texts: Iterable[str]) -> None:
        """Prompts of earlier runs for Up and Ctrl+R, the newest first."""
        self._input.set_prompts(texts)

    def earlier(self) -> list[str]:
        """What was sent before, as far as it is known here, the newest first."""
        return self._input.earlier()

    def offer_again(self) -> None:
        """A source of the completions has found more."""
        self._input.offer_again()

    def _typed(self, text: str) -> None:
        self._dialogs.typed()
        self._typing(text)
