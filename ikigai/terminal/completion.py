"""What can follow what has been typed: commands, and what their arguments can be."""

from collections.abc import Callable, Iterable, Mapping

from ikigai.core.commands import BY_NAME, COMMANDS, is_command
from ikigai.core.record import Record

Sources = Mapping[str, Callable[..., Iterable[str]]]
"""What an argument can be, by the name that `Command.completes` gives it: marks, models, agents; a mapping says of each
what it is. Those of BY_TYPED are asked with what has been typed of it.
"""
BY_TYPED = ("files",)
SPACED = ("marks", "files", "pins")
"""Those that may hold spaces."""

MOST = 200


class Candidate(Record, frozen=True):
    """`text` replaces the last `replaces` characters before the cursor; `about` is one line of help."""

    text: str
    replaces: int
    about: str = ""


def candidates(before: str, sources: Sources) -> list[Candidate]:
    """What may complete the input line up to the cursor; nothing unless it is a command."""
    if before != "/" and not is_command(before):
        return []
    name, space, argument = before[1:].partition(" ")
    if not space:
        return [
            Candidate("/" + command.name, len(before), command.help)
            for command in COMMANDS
            if command.name.startswith(name) or any(alias.startswith(name) for alias in command.aliases if name)
        ]
    command = BY_NAME.get(name)
    if command is None or (" " in argument and command.completes not in SPACED):
        return []
    if command.completes == "commands":
        known = [(each.name, each.help) for each in COMMANDS]
    else:
        source = sources.get(command.completes, lambda *_: ())
        found = source(argument) if command.completes in BY_TYPED else source()
        known = list(found.items()) if isinstance(found, Mapping) else [(text, "") for text in found]
    others = [(text, about) for text, about in known if text != argument]
    first = [(text, about) for text, about in others if text.startswith(argument)]
    within = [(text, about) for text, about in others if argument.lower() in text.lower()]
    return [Candidate(text, len(argument), about) for text, about in dict.fromkeys(first + within)][:MOST]
