"""List that a picker shows: its rows, and the way it gets more of them."""

from collections.abc import Sequence
from typing import Protocol

from ikigai.core.events.record import Record


class PickerRow(Record, frozen=True):
    """One row: its `name`, `facts` about it, the most important first, and `words` for a row of their own.

    `value` is what picking it returns.
    """

    value: str
    name: str
    facts: tuple[str, ...] = ()
    words: str = ""


class PickerSource(Protocol):
    """A list to pick from. `more_key` says what Tab shows besides; "" for nothing."""

    @property
    def title(self) -> str: ...
    @property
    def verb(self) -> str:
        """The effect of Enter, in a word."""
        ...

    @property
    def more_key(self) -> str: ...

    async def page(self, typed: str, everything: bool, shown: Sequence[PickerRow]) -> tuple[Sequence[PickerRow], bool]:
        """Return the rows that match `typed` behind those that are `shown`, and True if there are no more.

        Raise IkigaiError.
        """
        ...

    def typed_value(self, typed: str) -> str:
        """Return the value of a typed text that no row matches. Raise IkigaiError if it is none."""
        ...
