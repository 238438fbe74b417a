"""This module parses the command line, runs what it names, and returns the exit code."""

from __future__ import annotations

import argparse
import contextlib
import gc
import logging
import os
import re
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from ikigai import __version__
from ikigai.core.errors import ConfigError, ExitCode, IkigaiError, Stopped, UsageError
from ikigai.core.switch_words import SWITCH_WORDS
from ikigai.system import paths

if TYPE_CHECKING:
    from ikigai.config import Config

_NAMES = ("agents", "completion", "config", "db", "doctor", "history", "login", "mcp", "models", "setup", "usage")
SUBCOMMANDS = tuple([name] for name in _NAMES)
MUST_HAVE_TEXT = ("config", "db", "follow", "model", "profile", "schema")
"""Options that are empty only where a script's variable is not set; without them the run would be another one."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run ikigai and return the exit code. No exception and no traceback leaves here."""
    os.umask(0o077)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # an exception in the middle of an import can crash Python
    _open_streams()
    words = sys.argv[1:] if argv is None else list(argv)
    _start_log()
    try:
        return _run_and_flush(words)
    except IkigaiError as error:
        logging.getLogger(__name__).debug("refused", exc_info=True)
        return _fail(error, words)
    except KeyboardInterrupt:
        return _fail(Stopped(signal.SIGINT), words)
    except BrokenPipeError:
        return ExitCode.OK
    except Exception as error:
        logging.getLogger(__name__).exception("ikigai stopped")
        what = f"ikigai failed with an internal error ({type(error).__name__})."
        return _fail(IkigaiError(what, f"The details are in {_log_file()}."), words)
    finally:
        _close_output()


def _fail(error: IkigaiError, words: Sequence[str]) -> int:
    """Say what went wrong on standard error, and as an object on standard output if JSON was asked for; return the
    exit code.
    """
    if isinstance(error, UsageError):
        _write_error(f"{error.usage}{error.program}: error: {error.what}")
    elif not isinstance(error, Stopped):
        _write_error(f"ikigai: {error}")
    if wants_json(words) and sys.stdout is not None:
        from ikigai.app.json_records.json_output import print_error

        print_error(error)
    return error.exit_code


def wants_json(words: Sequence[str]) -> bool:
    """Return True if an option asks for JSON, also among words that are refused."""
    options, _ = _split_at_dashes([*words])
    formats = re.findall(r"--output-format[ =](?:stream-)?json(?= |$)", " ".join(options))
    return "--json" in options or bool(formats)


def _run_and_flush(words: list[str]) -> int:
    """Run ikigai. Help and the version are written here: argparse does not look whether they could be."""
    try:
        return _run(words)
    except SystemExit as leaving:
        if sys.stdout is not None:
            from ikigai.system.output import write_output

            write_output()
        return leaving.code if isinstance(leaving.code, int) else ExitCode.UNUSABLE


def _run(words: list[str]) -> int:
    if sys.stdout is None:
        raise ConfigError("The standard output is closed, so nothing can be written.", "Redirect it to a file.")
    words, literal = _split_at_dashes(words)
    options, rest = _common().parse_known_args(words)
    if rest[:1] == ["help"] and (len(rest) == 1 or [*rest[1:2]] in SUBCOMMANDS):
        words = [*rest[1:], "--help"]
        rest = words
    if rest[:2] == ["completion", "--names"]:  # the user has pressed Tab
        from ikigai.cli.completion import offered_names

        return offered_names.print_names(rest[2:], lambda: _load_config(options))
    if "doctor" in rest and (arguments := _doctor_arguments(words, rest)):
        from ikigai.cli import doctor

        return doctor.run(lambda: _load_config(arguments), arguments)
    if len(rest) == 1 and not literal and rest not in SUBCOMMANDS and rest[0].isalpha():
        meant = _correct(rest[0])
        words[words.index(rest[0])] = meant
        rest = [meant]
    if rest[:1] in SUBCOMMANDS:
        from ikigai.cli import subcommands

        subparser = subcommands.build_parser(_common(), _common(argparse.SUPPRESS))
        arguments = subcommands.parse(subparser, [*words, *literal])
        if arguments.command == "completion":
            return subcommands.completion.run(_parser(), subparser, arguments)
        if arguments.command == "config" and arguments.what in subcommands.configuration.OF_FILE:
            return subcommands.configuration.run_on_file(_config_file(arguments), arguments)
        return subcommands.run(_warned(_load_config(arguments)), arguments)
    parser = _parser()
    arguments = parser.parse_intermixed_args(words)
    if empty := [name for name in MUST_HAVE_TEXT if getattr(arguments, name) == ""]:
        parser.error(f"argument --{empty[0]}: expected a value, not an empty one")
    if arguments.words[:1] in SUBCOMMANDS and not arguments.print:
        from ikigai.cli import mistyped

        raise ConfigError(*mistyped.explain_late_subcommand(arguments.words[0]))
    prompt = _read_message([*arguments.words, *literal[1:]])
    interactive = sys.stdin.isatty() and sys.stdout.isatty()
    prints = arguments.print or arguments.output_format or not interactive
    _check_run_options(arguments, bool(prints))
    if prints:
        from ikigai.headless import print_mode

        return print_mode.run(_warned(_load_config(arguments)), arguments, prompt)
    return _at_the_terminal(arguments, prompt)


def _check_run_options(arguments: argparse.Namespace, prints: bool) -> None:
    """Raise ConfigError for options that do not fit each other, or a run that `prints`; complete the output format."""
    for_print = {"--schema": arguments.schema, "--input-format": arguments.input_format, "--timeout": arguments.timeout}
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


def _split_at_dashes(words: list[str]) -> tuple[list[str], list[str]]:
    """Return the words before the first `--`, and those from it on, which are no options whatever they begin with."""
    end = words.index("--") if "--" in words else len(words)
    return words[:end], words[end:]


def _doctor_arguments(words: list[str], rest: list[str]) -> argparse.Namespace | None:
    """Return the arguments of `doctor`, also behind flags of a run, which it looks at then; None for a message.

    What is wrong with them is a finding of doctor's.
    """
    flags, others = argparse.Namespace(), words
    if rest[0] != "doctor":
        flags, others = _parser().parse_known_intermixed_args(words)
        if flags.print or flags.words != ["doctor"]:
            return None
        others = ["doctor", *others]
    from ikigai.cli import subcommands

    arguments = subcommands.parse(subcommands.build_parser(_common(), _common(argparse.SUPPRESS)), others)
    arguments.json = arguments.json or getattr(flags, "output_format", None) == "json"
    given = {name: value for name, value in vars(arguments).items() if value is not None}
    return argparse.Namespace(**{**vars(arguments), **vars(flags), **given})


def _correct(word: str) -> str:
    """Return a word alone as it was meant: most are messages, but some are subcommands with a mistake."""
    from ikigai.cli import mistyped

    if word in mistyped.SLASH_COMMANDS:
        raise ConfigError(*mistyped.explain_slash_command(word))
    name = mistyped.nearest_subcommand(word, _NAMES)
    interactive = sys.stdin.isatty() and sys.stdout.isatty()
    return mistyped.choose_meaning(word, name, interactive) if name else word


def _at_the_terminal(arguments: argparse.Namespace, prompt: str) -> int:
    """Run the REPL; the prompt is on screen and keys are taken before anything heavy is imported."""
    from ikigai.terminal.render.theme import USER, terminal_theme
    from ikigai.terminal.tty import Tty

    gc.disable()  # looking through what is being imported, again and again, would take a tenth of the start
    tty = Tty()
    reader = arguments.screen_reader or SWITCH_WORDS.get(
        os.environ.get("IKIGAI_TERMINAL_SCREEN_READER", "").lower(), False
    )
    early = terminal_theme(os.environ, words=reader)
    tty.open(early.paint("prompt", early.sign(USER)) + " ")
    try:
        config = _load_config(arguments)
        from ikigai.repl import repl

        return repl.run(tty, config, arguments, prompt)
    finally:
        tty.restore()


def _config_file(arguments: argparse.Namespace) -> Path:
    return Path(arguments.config) if arguments.config else paths.config_dir() / "config.toml"


def _load_config(arguments: argparse.Namespace) -> Config:
    from ikigai.config import key_sources, load
    from ikigai.core.approval_mode import ApprovalMode

    if arguments.debug:
        logger = logging.getLogger("ikigai")
        logger.setLevel(logging.DEBUG)
        python = ".".join(map(str, sys.version_info[:3]))
        logger.debug("ikigai %s, Python %s, %s, %s", __version__, python, sys.platform, _config_file(arguments))
    flags = {
        "model": getattr(arguments, "model", None),
        "system_prompt": getattr(arguments, "system_prompt", None),
        "profile": getattr(arguments, "profile", None),
        "database.url": arguments.db,
        "tools.approval": ApprovalMode.YOLO.value if getattr(arguments, "yolo", False) else None,
        "terminal.screen_reader": True if getattr(arguments, "screen_reader", False) else None,
        "limits.run_usd": getattr(arguments, "max_usd", None),
        "tools.enabled": False if getattr(arguments, "no_tools", False) else None,
    }
    _check_address(arguments.db)
    file = _config_file(arguments)
    logins = key_sources.stored_logins()
    return load(file, os.environ, flags, must_exist=bool(arguments.config), logins=logins)


def _warned(config: Config) -> Config:
    """Return the configuration; print a line for each variable that looks like one of ikigai's and sets nothing."""
    for notice in config.unknown_variables:
        _write_error(f"ikigai: {notice}")
    return config


def _check_address(dsn: str | None) -> None:
    """Raise ConfigError if the address of --db holds a password: all users of the machine see command lines."""
    if dsn and re.search(r":.*@|password|secret|%", dsn, re.IGNORECASE):  # psycopg is imported only where it may be so
        from ikigai.store.pg_programs import has_secret

        if has_secret(dsn):
            raise ConfigError(
                "The address of --db holds a password, which every user of this machine can see (ps).",
                "Write the whole address in IKIGAI_DATABASE_URL or [database] url of your configuration, or the "
                "password into ~/.pgpass or a service file.",
            )


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        from ikigai.cli import mistyped

        raise mistyped.usage_error(self, message)

    def format_help(self) -> str:
        from ikigai.cli import help_pages  # imported only for help

        self.formatter_class, self.epilog = help_pages.HelpFormatter, help_pages.main_text()
        return super().format_help()


def _common(default: str | None = None) -> argparse.ArgumentParser:
    """Return a parser of the options that every command takes, before its name and after it."""
    parser = _Parser(prog="ikigai", add_help=False, allow_abbrev=False, argument_default=default)
    group = parser.add_argument_group("options of every command")
    group.add_argument("--config", metavar="FILE", help="read this configuration file instead of yours")
    group.add_argument("--db", metavar="DSN", help="the database for this run, without password")
    group.add_argument("--debug", action="store_true", default=default or False, help="write more to the log file")
    return parser


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="ikigai",
        usage="ikigai [options] [message | @file ...]\n       ikigai COMMAND ...",
        description="A terminal for one lasting conversation with any large language model.",
        allow_abbrev=False,
        parents=[_common()],
    )
    add = parser.add_argument
    add("words", nargs="*", help=argparse.SUPPRESS)
    add("-p", "--print", action="store_true", help="answer once and exit")
    add("--output-format", choices=("text", "json", "stream-json"), help="the format of print mode (text)")
    add("--json", action="store_const", const="json", dest="output_format", help="same as --output-format json")
    add("--input-format", choices=("text", "stream-json"), help="the format of piped input (text)")
    add("--schema", metavar="FILE", help="with -p, ask for a reply that matches a JSON schema")
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


def _read_message(words: list[str]) -> str:
    """Return the message on the command line; a word with spaces that is all the name of a file stays a mention."""
    return " ".join(map(_quote_mention, words))


def _quote_mention(word: str) -> str:
    """Return `@my file.txt`, which the shell has freed of its quotes, as a message mentions the file."""
    if not word.startswith("@") or " " not in word:
        return word
    from ikigai.core import mentions

    path = Path(word[1:])
    with contextlib.suppress(OSError, RuntimeError, ValueError):
        if path.expanduser().exists():
            return mentions.format_mention(word[1:])
    return word


def _log_file() -> Path:
    return paths.state_dir() / "ikigai.log"


def _start_log() -> None:
    """Log to the state folder; if that cannot be written, to nowhere: a log is no reason to stop."""
    logging.raiseExceptions = False
    root = logging.getLogger()
    try:
        paths.make_private(paths.state_dir())
        handler: logging.Handler = logging.FileHandler(_log_file(), mode=_log_mode(), encoding="utf-8", delay=True)
    except OSError:
        handler = logging.NullHandler()
    # What SDKs log below a warning holds requests; variables of theirs, meant for other programs, ask for it.
    handler.addFilter(lambda record: record.levelno >= logging.WARNING or record.name.partition(".")[0] == "ikigai")
    handler.setFormatter(logging.Formatter("%(asctime)s %(process)d %(levelname)s %(name)s: %(message)s"))
    root.addHandler(handler)
    root.setLevel(logging.WARNING)


def _log_mode() -> str:
    """Return the mode that begins the log anew past 5 MB: a log that nobody reads must not fill the disk."""
    try:
        return "w" if _log_file().stat().st_size > 5_000_000 else "a"
    except OSError:
        return "a"


def _write_error(text: str) -> None:
    from ikigai.core.sanitize import clean

    with contextlib.suppress(OSError):
        sys.stderr.write(f"{clean(text)}\n")


def _open_streams() -> None:
    """Open closed standard streams on /dev/null: else the next file or connection would take their number."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    sys.stdin = sys.stdin or os.fdopen(0)
    sys.stderr = sys.stderr or os.fdopen(2, "w")


def _close_output() -> None:
    """Flush the output; if its reader is gone, keep the interpreter from complaining about it at exit."""
    for number, stream in ((1, sys.stdout), (2, sys.stderr)):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), number)
