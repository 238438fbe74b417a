"""What can follow what has been typed: commands, what their arguments can be, files behind an @; and the menu of it."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from prompt_toolkit.buffer import Buffer, CompletionState
from prompt_toolkit.completion import Completion

from ikigai.core.commands.table import BY_NAME, COMMANDS, is_command
from ikigai.core.record import Record

Sources = Mapping[str, Callable[..., Iterable[str]]]
"""What an argument can be, by the name that `Command.completes` gives it: marks, models, agents; a mapping says of each
what it is. Those of BY_TYPED are asked with what has been typed of it; "mentions" are the files behind an @, as the
words that mean them.
"""
BY_TYPED = ("files",)
SPACED = ("marks", "files", "pins", "sets", "modes", "turns")
"""Those that may hold spaces."""

MOST = 200

_MENTION = re.compile(r"""(?:^|(?<=[\s(\[{<"'“‘«]))@(?:"([^"\n]*)|'([^'\n]*)|((?!["'])(?:\\.|[^\s\\])*))\Z""")
"""An @ at the start of a word and the path begun behind it, as `ikigai.images.files` reads it; what is begun may hold
a quote, behind which that would not go on: what completes it stands in others."""


class Candidate(Record, frozen=True):
    """`text` replaces the last `replaces` characters before the cursor; `about` is one line of help."""

    text: str
    replaces: int
    about: str = ""


def candidates(before: str, sources: Sources) -> list[Candidate]:
    """What may complete the input up to the cursor: a command, its argument, or in a message the file behind an @."""
    if before != "/" and not is_command(before):
        return list(_mentioned(before, sources)) if "@" in before else []
    from ikigai.core.search import fuzzy  # not before somebody types a command

    name, space, argument = before[1:].partition(" ")
    if not space:
        by_name = {command.name: command for command in COMMANDS}
        aliased = [BY_NAME[each].name for each in BY_NAME if name and each.startswith(name)]
        begun = [each for each in by_name if each.startswith(name) or each in aliased]
        found = begun or fuzzy.names(name, by_name)
        return [Candidate("/" + each, len(before), by_name[each].help) for each in found]
    command = BY_NAME.get(name)
    if command is None or (" " in argument and command.completes not in SPACED):
        return []
    if command.completes == "commands":
        known: Mapping[str, str] = {each.name: each.help for each in COMMANDS}
    else:
        source = sources.get(command.completes, lambda *_: ())
        given = source(argument) if command.completes in BY_TYPED else source()
        known = given if isinstance(given, Mapping) else dict.fromkeys(given, "")
    found = fuzzy.names(argument, (text for text in known if text != argument))
    return [Candidate(text, len(argument), known[text]) for text in found][:MOST]


def _mentioned(before: str, sources: Sources) -> Iterator[Candidate]:
    if found := _MENTION.search(before):
        quoted, bare = found[1] or found[2] or "", found[3] or ""
        given = sources.get("mentions", lambda _: ())(quoted or re.sub(r"\\(.)", r"\1", bare))
        about = given if isinstance(given, Mapping) else dict.fromkeys(given, "")
        for text in about:
            if text != found[0]:
                yield Candidate(text, len(found[0]), about[text])


class Menu:
    """The completions of the input, below it. Nothing in it is chosen until somebody goes there."""

    def __init__(self, buffer: Buffer, sources: Sources) -> None:
        self._buffer, self._sources = buffer, sources
        self._offered: str | None = None  # the text before the cursor that it was offered for

    def offer(self) -> None:
        """Show what can complete the text before the cursor."""
        document = self._buffer.document
        found = [] if document.text_after_cursor else candidates(document.text_before_cursor, self._sources)
        choices = [Completion(each.text, -each.replaces, display_meta=each.about) for each in found]
        self._buffer.complete_state = CompletionState(document, choices) if choices else None
        self._offered = document.text_before_cursor

    def again(self) -> bool:
        """There may be more by now, of a source that goes on looking; False where nobody waits for it."""
        state = self._buffer.complete_state
        if self._offered != self._buffer.document.text_before_cursor or (state and state.complete_index is not None):
            return False
        self.offer()
        return True

    def close(self) -> bool:
        """Take it away; False if there is none."""
        self._offered = None
        is_open = self._buffer.complete_state is not None
        self._buffer.complete_state = None
        return is_open
