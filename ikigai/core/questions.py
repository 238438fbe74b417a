"""Questions to the user that block an operation until they are answered."""

from ikigai.core.record import Record


class Choice(Record, frozen=True):
    """One answer: its key and its meaning. `prompt` asks for words that go with it."""

    key: str
    label: str
    prompt: str = ""


class Question(Record, frozen=True):
    """A question to the user. `lines` explain it and are shown whole. `default` is the answer of Esc, and the one where
    nobody can be asked. `yes` is the key for users who have agreed beforehand. `subject` are the indexes of the lines
    that the question is about: a command, an address. While a question `of_command` is open, what the user enters waits
    for the answer.

    A question about tool calls: `about` is the call in a few words, `remedy` says what would allow it where nobody can
    be asked, and `calls` are the ids of the calls. `headings` are the indexes of the lines that name one, `diffs` the
    ranges of lines, from and up to an index, that are a unified diff.
    """

    title: str
    lines: tuple[str, ...]
    choices: tuple[Choice, ...]
    default: str
    yes: str = ""
    subject: tuple[int, ...] = ()
    of_command: bool = False
    about: str = ""
    remedy: str = ""
    headings: tuple[int, ...] = ()
    calls: tuple[str, ...] = ()
    diffs: tuple[tuple[int, int], ...] = ()


class QuestionAnswer(Record, frozen=True):
    """An answer to a question. `not_asked` says that nobody could be asked: then the key is the default."""

    key: str
    words: str = ""
    not_asked: bool = False


def yes_or_no(title: str, lines: tuple[str, ...]) -> Question:
    """Return the question of a command."""
    return Question(title, lines, (Choice("y", "yes"), Choice("n", "no")), default="n", yes="y", of_command=True)
