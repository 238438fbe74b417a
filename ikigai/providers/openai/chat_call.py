"""Follow one call in a stream of Chat Completions to the end of its arguments."""

from typing import Any


class ChatCall:
    """A call that has begun: its index and id on the wire, the name and the arguments that were passed on."""

    def __init__(self, index: int | None, id: str) -> None:
        self.index = index
        self.id = id
        self.name = ""
        self.fields: dict[str, Any] = {}
        self.is_complete = False  # the object of its arguments has ended
        self._pieces: list[str] = []
        self._depth = 0
        self._in_string = self._is_escaped = False

    @property
    def arguments(self) -> str:
        return "".join(self._pieces)

    def take(self, text: str) -> str:
        """Take the next piece of the arguments, and return it: it goes no further than to the end of the object."""
        end = len(text) if self.is_complete else self._find_end(text)
        self._pieces.append(text[:end])
        return text[:end]

    def _find_end(self, text: str) -> int:
        for place, character in enumerate(text):
            if self._is_escaped:
                self._is_escaped = False
            elif self._in_string:
                self._is_escaped, self._in_string = character == "\\", character != '"'
            elif character == '"':
                self._in_string = True
            elif character in "{[":
                self._depth += 1
            elif character in "}]" and self._depth:
                self._depth -= 1
                if not self._depth:
                    self.is_complete = True
                    return place + 1
        return len(text)
