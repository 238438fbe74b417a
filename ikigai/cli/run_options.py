"""Options of a run: their parser, the checks that argparse cannot make, and the message."""

import argparse
import contextlib
import os
from pathlib import Path
from typing import NoReturn

from ikigai import __version__
from ikigai.core.errors import ConfigError

MUST_HAVE_TEXT = ("config", "db", "follow", "model", "profile", "schema")
"""Options that are empty only where a script's variable is not set; without them the run would be another one."""


SCHEMA_HELP = "the schema of the database for this run"


class OptionParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        from ikigai.cli import mistyped

        raise mistyped.usage_error(self, message)

    def format_help(self) -> str:
        from ikigai.cli import help_pages

        self.formatter_class, self.epilog = help_pages.HelpFormatter, help_pages.main_text()
        return super().format_help()


def common_options(default: str | None = None, *, schema_help: str = SCHEMA_HELP) -> argparse.ArgumentParser:
    """Return a parser of the options that every command takes, before its name and after it."""
    parser = OptionParser(prog="ikigai", add_help=False, allow_abbrev=False, argument_default=default)
    group = parser.add_argument_group("options of every command")
    group.add_argument("--config", metavar="FILE", help="read this configuration file instead of yours")
    group.add_argument("--db", metavar="DSN", help="the database for this run, without password")
    group.add_argument("--schema", metavar="NAME", help=schema_help)
    group.add_argument("--debug", action="store_true", default=default or False, help="write more to the log file")
    return parser


def run_parser() -> argparse.ArgumentParser:
    parser = OptionParser(
        prog="ikigai",
        usage="ikigai [options] [message | @file ...]\n       ikigai COMMAND ...",
        description="A terminal for one lasting conversation with any large language model.",
        allow_abbrev=False,
        parents=[common_options(schema_help=f"{SCHEMA_HELP}; with -p, a FILE with the JSON schema of the reply")],
    )
    add = parser.add_argument
    add("words", nargs="*", help=argparse.SUPPRESS)
    add("-p", "--print", action="store_true", help="answer once and exit")
    add("--output-format", choices=("text", "json", "stream-json"), help="the format of print mode (text)")
    add("--json", action="store_const", const="json", dest="output_format", help="same as --output-format json")
    add("--input-format", choices=("text", "stream-json"), help="the format of piped input (text)")
    add("--timeout", type=_parse_seconds, default=0.0, metavar="S", help="with -p, stop after S seconds")
    add("--raw", action="store_true", help="with -p, write text as it is, escape sequences too")
    add("-c", "--continue", action="store_true", help="go on with the agent used last (the default, but not of -p)")
    add("-r", "--resume", nargs="?", const="", metavar="NAME|ID", help="go on with this agent; alone: choose one")
    add("--follow", metavar="NAME|ID", help="watch an agent live, read-only")
    add("--new", action="store_true", help="start a new agent")
    add("--ephemeral", action="store_true", help="start a new agent, and purge it at the end")
    add("--max-turns", type=_parse_count, default=0, metavar="N", help="at most N requests for one message")
    add("--max-usd", type=_parse_dollars, metavar="X", help="a spending cap for this run, in US dollars")
    add("--yolo", action="store_true", help="let models run every tool without asking")
    add("--no-tools", action="store_true", help="offer models no tools")
    add("--yes", action="store_true", help="answer yes to confirmations in print mode (never to tools)")
    add("-m", "--model", metavar="PROVIDER/NAME[:LEVEL]", help="the model for this run")
    add("--profile", metavar="NAME", help="the profile for this run, default for none")
    add("--system-prompt", metavar="TEXT", help="the system prompt for this run")
    add("--screen-reader", action="store_true", help="print everything once, as words, without redrawing")
    add("-v", "-V", "--version", action="version", version=f"ikigai {__version__}")
    return parser


def parse_run(words: list[str]) -> argparse.Namespace:
    """Parse the words of a run. Raise UsageError."""
    parser = run_parser()
    arguments = parser.parse_intermixed_args(words)
    if empty := [name for name in MUST_HAVE_TEXT if getattr(arguments, name) == ""]:
        parser.error(f"argument --{empty[0]}: expected a value, not an empty one")
    return arguments


def _parse_count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of requests; write 1 or more")
    return int(text)


def _parse_dollars(text: str) -> float:
    try:
        dollars = float(text.removeprefix("$"))
    except ValueError:
        dollars = 0.0
    if not 0 < dollars <= 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is not an amount in US dollars; write more than 0")
    return dollars


def _parse_seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a time in seconds; write more than 0")
    return seconds


def read_message(words: list[str]) -> str:
    """Return the message on the command line; a word with spaces that is all the name of a file stays a mention."""
    return " ".join(map(_quote_mention, words))


def _quote_mention(word: str) -> str:
    """Return `@my file.txt`, which the shell has freed of its quotes, as a message mentions the file."""
    if not word.startswith("@") or " " not in word:
        return word
    from ikigai.core.commands import mentions

    path = Path(word[1:])
    with contextlib.suppress(OSError, RuntimeError, ValueError):
        if path.expanduser().exists():
            return mentions.format_mention(word[1:])
    return word


def check_options(arguments: argparse.Namespace, prints: bool) -> None:
    """Raise ConfigError for options that do not fit each other, or a run that `prints`; complete the output format."""
    for_print = {"--input-format": arguments.input_format, "--timeout": arguments.timeout}
    if not prints and (flags := [flag for flag, value in for_print.items() if value]):
        raise ConfigError(f"{flags[0]} is for print mode.", f"Add -p, or leave out {flags[0]}.")
    if arguments.input_format == "stream-json":
        if arguments.output_format not in (None, "stream-json"):
            raise ConfigError(
                "--input-format stream-json is answered in stream-json.", "Leave out --json and --output-format."
            )
        arguments.output_format = "stream-json"
    if arguments.follow and (prints or arguments.new or arguments.resume is not None):
        raise ConfigError(
            "--follow needs a terminal and follows one agent.", "Leave out -p, --new, -r and redirections."
        )
    if arguments.ephemeral and (arguments.resume is not None or getattr(arguments, "continue") or arguments.follow):
        raise ConfigError(
            "--ephemeral starts a new agent, so it cannot continue one.", "Leave out -r, -c and --follow."
        )
    if arguments.raw and (not arguments.print or arguments.output_format not in (None, "text")):
        raise ConfigError(
            "--raw only applies to the text output of print mode.", "Add -p, and leave out --json and --output-format."
        )
    if arguments.resume == "" and (prints or os.environ.get("TERM") == "dumb" or arguments.screen_reader):
        raise ConfigError(
            "-r without a name needs a terminal to choose an agent.", "Usage: ikigai -r NAME; see ikigai agents."
        )
