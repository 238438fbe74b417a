"""What the program asks the user while something waits for the answer."""

from ikigai.core.record import Record


class Choice(Record, frozen=True):
    """One answer: the key that gives it, and what it means. `wants` asks for words that go with it."""

    key: str
    label: str
    wants: str = ""


class Question(Record, frozen=True):
    """`lines` say what it is about and are shown whole; `default` is what Esc answers, and whoever cannot be asked.
    `yes` is the key of those who have agreed beforehand.
    """

    title: str
    lines: tuple[str, ...]
    choices: tuple[Choice, ...]
    default: str
    yes: str = ""


class Answered(Record, frozen=True):
    """`nobody` says that nobody could be asked: then the key is the default."""

    key: str
    words: str = ""
    nobody: bool = False


def yes_or_no(title: str, lines: tuple[str, ...]) -> Question:
    return Question(title, lines, (Choice("y", "yes"), Choice("n", "no")), default="n", yes="y")
