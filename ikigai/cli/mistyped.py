"""Find the meaning of a mistyped word: a subcommand, which would go to a model as a message, or an option."""

import argparse
import re
from collections.abc import Sequence

from ikigai.cli.ask import read_answer
from ikigai.core.errors import ConfigError, UsageError, closest_names

MAX_MISTYPED_CHARACTERS = 20
"""Characters of a word beyond which it cannot be a subcommand with mistakes."""
SLASH_COMMANDS = ("exit", "quit")
"""Words that are commands once ikigai runs, and are hardly meant for a model."""


def explain_slash_command(word: str) -> tuple[str, str]:
    """Explain why a word of SLASH_COMMANDS does not work in the shell, and what to do instead."""
    return f"There is no command {word!r}.", f"/{word} leaves ikigai once it runs. To send the word: ikigai -p {word}"


def explain_late_subcommand(word: str) -> tuple[str, str]:
    """Explain why a subcommand does not work behind options that it does not take there, and what to do instead."""
    return (
        f"The command {word} does not take the options before it.",
        f"Write the command first: ikigai {word} --help. To send the word as a message, write it after --.",
    )


def nearest_subcommand(word: str, names: Sequence[str]) -> str:
    """Return the subcommand that `word` is with at most two mistakes, one in four characters or fewer; else ""."""
    if len(word) > MAX_MISTYPED_CHARACTERS or not word.isalpha():
        return ""
    distance, name = min((edit_distance(word, name), name) for name in names)
    return name if distance <= (1 if len(word) <= 4 else 2) and len(word) > 2 else ""


def edit_distance(one: str, other: str) -> int:
    """Return how many characters have to be inserted, removed, replaced or swapped with the next one."""
    before: list[int] = []
    above = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        row = [i]
        for j, b in enumerate(other, 1):
            cost = min(above[j] + 1, row[-1] + 1, above[j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and one[i - 2] == b:
                cost = min(cost, before[j - 2] + 1)
            row.append(cost)
        before, above = above, row
    return above[-1]


def choose_meaning(word: str, name: str, interactive: bool) -> str:
    """Return what the user means: the subcommand, or the word as a message. Raise ConfigError if neither, or if nobody
    can be asked.
    """
    what = f"There is no command {word!r}."
    if not interactive:
        raise ConfigError(what, f"Did you mean: ikigai {name}? To send it as a message: ikigai -p {word}")
    answer = read_answer(f"{what} Run `ikigai {name}`? [y] yes, [m] send {word!r} as a message, [n] neither: ")
    if answer.lower() in ("y", "yes"):
        return name
    if answer.lower() in ("m", "message"):
        return word
    raise ConfigError("Nothing was run.", "`ikigai --help` lists the commands.")


def usage_error(parser: argparse.ArgumentParser, message: str) -> UsageError:
    """Return the error of words that `parser` refuses; it names what may be missing or meant."""
    if unknown := re.match(r"unrecognized arguments: --([^\s=]+)", message):
        known = parser._option_string_actions.items()
        names = [name[2:] for name, action in known if name.startswith("--") and action.help != argparse.SUPPRESS]
        begun = [name for name in names if name.startswith(unknown[1])]
        if near := begun or closest_names(unknown[1], names):
            message += f". Did you mean --{near[0]}?"
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction) and message.endswith(f"required: {action.dest}"):
            message = f"name one of {', '.join(action.choices)}"
    return UsageError(message, parser.format_usage(), parser.prog)
