"""Protocol between the screen and the program behind it: requests and texts."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ikigai.core.search.prompt_history import SentPrompt
    from ikigai.terminal.browsable_history import HistoryPages


class ScreenHandler(Protocol):
    """The program behind the screen. It is called on the event loop, and no method may wait. Texts are as typed."""

    def submit(self, text: str) -> None:
        """Take a line that was sent, also while a turn is open, also before there is an agent."""
        ...

    def steer(self, text: str) -> None:
        """Take a line that was sent into the turn under way."""
        ...

    def take_back(self) -> str:
        """Return the newest queued message and remove it from the queue, or ""."""
        ...

    def interrupt(self) -> None:
        """Stop the turn, or the user's own command."""
        ...

    def retry_now(self) -> None:
        """Send the request that waits for its next attempt at once."""
        ...

    def stash(self) -> None:
        """Put the input aside; with an empty input bring back what was put aside last."""
        ...

    def at_work(self) -> str:
        """Describe the work that leaving now would interrupt; "" if none."""
        ...

    def question_closed(self) -> None:
        """Take note that a question of a command has been answered, or has left the screen."""
        ...

    def leave(self) -> None:
        """End the program."""
        ...

    def signalled(self, number: int) -> None:
        """End the program after INT, TERM, HUP or QUIT; HUP also when the terminal has gone."""
        ...

    def cycle_approval(self) -> None:
        """Go to the next approval mode."""
        ...

    def go_to(self, where: str) -> None:
        """Go "up", "down", "left" or "right" in the tree of agents."""
        ...

    def typing(self, text: str) -> None:
        """Note the text of the input, whenever it has grown."""
        ...

    def add_recalled(self) -> bool:
        """Add the excerpts of the suggested turns to the input; return False if none are suggested."""
        ...

    def paste_picture(self) -> None:
        """Put the picture of the clipboard into the input, as a mention."""
        ...

    def dropped(self, text: str) -> bool:
        """Return True if a pasted text may be the paths of dropped pictures: then `Screen.insert` gets the text, or
        mentions of them.
        """
        ...

    def draft_changed(self, entered: bool) -> None:
        """Note that `Screen.unsent` may have changed; `entered` says that a message was queued."""
        ...

    def complete(self, kind: str, typed: str) -> Iterable[str]:
        """Return the values that an argument can take, of the kind that `Command.completes` names.

        A mapping adds a line of help to each. The kind "mentions" are the files behind an @, written as in a message.
        `typed` is the part that the user has typed.
        """
        ...

    def history(self) -> "HistoryPages | None":
        """Return the history to look through; None while no agent is open."""
        ...

    def search(self, typed: str, found: "Callable[[Sequence[SentPrompt]], object]") -> Callable[[], object]:
        """Search all prompts ever sent for `typed`; call `found` with matches as they come.

        Return a function that ends the search.
        """
        ...
