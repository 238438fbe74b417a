"""Questions to the user that block an operation until they are answered."""

from ikigai.core.events.record import Record


class Choice(Record, frozen=True):
    """One answer: its key and its meaning. `prompt` asks for words that go with it."""

    key: str
    label: str
    prompt: str = ""


class Question(Record, frozen=True):
    """A question to the user."""

    title: str
    lines: tuple[str, ...]
    """The explanation, which is shown whole."""
    choices: tuple[Choice, ...]
    default: str
    """The answer of Esc, and where nobody can be asked."""
    yes: str = ""
    """The key for users who have agreed beforehand."""
    subject: tuple[int, ...] = ()
    """Indexes of the lines that the question is about: a command, an address."""
    of_command: bool = False
    """True for a command's question: while it is open, the user's input waits for the answer."""
    about: str = ""
    """The tool call that the question is about, in a few words."""
    remedy: str = ""
    """Advice that would allow the call where nobody can be asked."""
    headings: tuple[int, ...] = ()
    """Indexes of the lines that name a call."""
    calls: tuple[str, ...] = ()
    """Ids of the calls."""
    diffs: tuple[tuple[int, int], ...] = ()
    """Ranges of lines, from and up to an index, that are a unified diff."""


class QuestionAnswer(Record, frozen=True):
    """An answer to a question. `not_asked` says that nobody could be asked: then the key is the default."""

    key: str
    words: str = ""
    not_asked: bool = False


def yes_or_no(title: str, lines: tuple[str, ...]) -> Question:
    """Return the question of a command."""
    return Question(title, lines, (Choice("y", "yes"), Choice("n", "no")), default="n", yes="y", of_command=True)
