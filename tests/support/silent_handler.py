"""This module provides a screen handler that does nothing; a test overrides what it needs."""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ikigai.terminal.browsable_history import HistoryPages


class SilentHandler:
    def submit(self, text: str) -> None: ...
    def steer(self, text: str) -> None:
        self.submit(text)

    def take_back(self) -> str:
        return ""

    def interrupt(self) -> None: ...
    def retry_now(self) -> None: ...
    def leave(self) -> None: ...
    def signalled(self, number: int) -> None: ...
    def cycle_approval(self) -> None: ...
    def go_to(self, where: str) -> None: ...
    def typing(self, text: str) -> None: ...
    def paste_picture(self) -> None: ...
    def dropped(self, text: str) -> bool:
        return False

    def draft_changed(self, entered: bool) -> None: ...
    def complete(self, kind: str, typed: str) -> Iterable[str]:
        return ()

    def history(self) -> "HistoryPages | None":
        return None

    def search(self, typed: str, found: object) -> Callable[[], object]:
        return lambda: None
