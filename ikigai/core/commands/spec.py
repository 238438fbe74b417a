"""Record of one slash command, from which every list of commands is derived."""

import contextlib
from collections.abc import Callable, Generator
from enum import Enum
from typing import Literal, TypeAlias

from ikigai.core.commands.parsers import Meaning, ProgramCommand
from ikigai.core.errors import Rejected, WrongArgument
from ikigai.core.events.record import Record


class CommandTiming(Enum):
    """The time at which a command runs that is entered at the prompt."""

    AGENT = "agent"
    """It is an input to the agent, which decides when."""
    NOW = "now"
    """The program runs it at once, beside all that goes on."""
    QUEUED = "queued"
    """It waits for the entries before it: it means the agent that is on screen then."""
    BLOCKING = "blocking"
    """As QUEUED, and later entries wait for it: the next message is sent with its changes."""
    SWITCHING = "switching"
    """As QUEUED, and later entries are meant for the agent to which it leads."""


class PrintMode(Enum):
    """The action of print mode for a command."""

    NO = "no"
    SHOW = "show"
    """Print its answer; with an argument that makes it an input, as CHANGE."""
    CHANGE = "change"
    """Give it to the agent, if the argument makes it an input."""
    TREE = "tree"
    """Change the tree of agents."""


CommandGroup: TypeAlias = Literal["Basics", "Context", "Models", "Agents", "History", "Tools", "Program"]
"""The heading of a command in help. The table of commands gives the order of the headings."""


class CommandSpec(Record, frozen=True):
    """One slash command. An `argument` of "" means that it takes none; `question` asks for a missing one.

    `related` holds the names of related commands, with blanks between them. `parser` returns None for the command
    itself with its argument as typed. `completes` names the kind of completion: marks, models, agents, code, commands …
    Only the help of this command prints `more`.
    """

    name: str
    argument: str
    help: str
    group: CommandGroup
    example: str
    related: str
    timing: CommandTiming = CommandTiming.NOW
    parser: Callable[[str], Meaning | None] | None = None
    question: str = ""
    completes: str = ""
    print_mode: PrintMode = PrintMode.NO
    multiline: bool = False
    aliases: tuple[str, ...] = ()
    more: str = ""

    @property
    def usage(self) -> str:
        """The line that says how the command is typed."""
        return f"Usage: /{self.name} {self.argument}".rstrip()

    def parse(self, argument: str) -> Meaning:
        """Return the meaning of the command with this stripped argument. Raise Rejected for a wrong one."""
        with self.explaining_usage():
            if argument and not self.argument:
                raise WrongArgument(f"/{self.name} takes no argument.")
            if self.question and not argument:
                raise WrongArgument(self.question)
            meaning = self.parser(argument) if self.parser else None
        return ProgramCommand(self.name, argument) if meaning is None else meaning

    @contextlib.contextmanager
    def explaining_usage(self) -> Generator[None]:
        """Add the usage to a WrongArgument that is raised inside."""
        try:
            yield
        except WrongArgument as error:
            raise Rejected(error.what, f"{error.remedy} {self.usage}".strip()) from None
