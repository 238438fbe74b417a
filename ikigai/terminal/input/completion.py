"""Find completions of the input (commands, their arguments, files behind an @) and keep their menu."""

from collections.abc import Callable, Iterable, Iterator, Mapping

from prompt_toolkit.buffer import Buffer, CompletionState
from prompt_toolkit.completion import Completion

from ikigai.core.commands.table import BY_NAME, COMMANDS, is_command
from ikigai.core.events.record import Record

Complete = Callable[[str, str], Iterable[str]]
"""A function that returns the values of an argument, as `ScreenHandler.complete` does."""
SPACED_KINDS = ("marks", "files", "pins", "sets", "modes", "turns", "settings", "skills")
"""Kinds of arguments that may hold spaces."""

MAX_CANDIDATES = 200


class Candidate(Record, frozen=True):
    """A completion. `text` replaces the last `replaces` characters before the cursor.

    `hint` are the arguments that may follow it; `about` is one line of help.
    """

    text: str
    replaces: int
    about: str = ""
    hint: str = ""


def find_candidates(before: str, complete: Complete) -> list[Candidate]:
    """Return the completions of the input up to the cursor: commands, arguments, or in a message files behind an @."""
    if before != "/" and not is_command(before):
        return list(_complete_mention(before, complete)) if "@" in before else []
    from ikigai.core.search import fuzzy

    name, space, argument = before[1:].partition(" ")
    if not space:
        aliased = [BY_NAME[each].name for each in BY_NAME if name and each.startswith(name)]
        rows = {each.name: (each.argument, each.help) for each in COMMANDS}
        own = complete("own commands", "")  # each with its arguments
        for line, help in own.items() if isinstance(own, Mapping) else ():
            each, _, hint = line.partition(" ")
            rows[each] = hint, help
        begun = [each for each in rows if each.startswith(name) or each in aliased]
        matches = begun or fuzzy.match_names(name, rows)
        return [Candidate("/" + each, len(before), rows[each][1], rows[each][0]) for each in matches]
    command = BY_NAME.get(name)
    if command is None or not command.completes or (" " in argument and command.completes not in SPACED_KINDS):
        return []
    if command.completes == "commands":
        known: Mapping[str, str] = {each.name: each.help for each in COMMANDS}
        known |= {"all": "what each command does"}
    else:
        values = complete(command.completes, argument)
        known = values if isinstance(values, Mapping) else dict.fromkeys(values, "")
    matches = fuzzy.match_names(argument, (text for text in known if text != argument))
    return [Candidate(text, len(argument), known[text]) for text in matches][:MAX_CANDIDATES]


def _complete_mention(before: str, complete: Complete) -> Iterator[Candidate]:
    from ikigai.core.commands.mentions import begun_mention

    if begun := begun_mention(before):
        written, path = begun
        paths = complete("mentions", path)
        about = paths if isinstance(paths, Mapping) else dict.fromkeys(paths, "")
        for text in about:
            if text != written:
                yield Candidate(text, len(written), about[text])


class Menu:
    """The completions of the input, below it. None is chosen until the user goes there."""

    def __init__(self, buffer: Buffer, complete: Complete) -> None:
        self._buffer, self._complete = buffer, complete
        self._offered: str | None = None  # the text before the cursor that the menu is for

    def offer(self) -> None:
        """Show the completions of the text before the cursor."""
        document = self._buffer.document
        candidates = [] if document.text_after_cursor else find_candidates(document.text_before_cursor, self._complete)
        choices = [
            Completion(each.text, -each.replaces, f"{each.text} {each.hint}".rstrip(), each.about)
            for each in candidates
        ]
        self._buffer.complete_state = CompletionState(document, choices) if choices else None
        self._offered = document.text_before_cursor

    def again(self) -> bool:
        """Show completions found meanwhile by a source; return False if the menu is not wanted any more."""
        state = self._buffer.complete_state
        if self._offered != self._buffer.document.text_before_cursor or (state and state.complete_index is not None):
            return False
        self.offer()
        return True

    def close(self) -> bool:
        """Close the menu; return False if it is not open."""
        self._offered = None
        is_open = self._buffer.complete_state is not None
        self._buffer.complete_state = None
        return is_open
