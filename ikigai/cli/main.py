"""Parse the command line, run what it names, and return the exit code."""

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
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING

from ikigai import __version__
from ikigai.cli.run_options import check_options, common_options, parse_run, read_message, run_parser
from ikigai.core.errors import ConfigError, ExitCode, IkigaiError, Stopped, UsageError
from ikigai.system import paths

if TYPE_CHECKING:
    from ikigai.config import Config

_NAMES = (
    *("agents", "completion", "config", "db", "doctor", "history", "login", "mcp", "models", "plugins", "setup"),
    *("skills", "usage"),
)
SUBCOMMANDS = tuple([name] for name in _NAMES)


def main(argv: Sequence[str] | None = None) -> int:
    """Run ikigai and return the exit code. No exception and no traceback leaves here."""
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
    options, rest = common_options().parse_known_args(words)
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

        subparser = subcommands.build_parser(common_options(), common_options(argparse.SUPPRESS))
        arguments = subcommands.parse(subparser, [*words, *literal])
        if arguments.command == "completion":
            return subcommands.completion.run(run_parser(), subparser, arguments)
        if arguments.command == "config" and arguments.what in subcommands.configuration.OF_FILE:
            return subcommands.configuration.run_on_file(_config_file(arguments), arguments)
        return subcommands.run(_warned(_load_config(arguments)), arguments)
    arguments = parse_run(words)
    if arguments.words[:1] in SUBCOMMANDS and not arguments.print:
        from ikigai.cli import mistyped

        raise ConfigError(*mistyped.explain_late_subcommand(arguments.words[0]))
    prompt = read_message([*arguments.words, *literal[1:]])
    interactive = sys.stdin.isatty() and sys.stdout.isatty()
    prints = arguments.print or arguments.output_format or not interactive
    check_options(arguments, bool(prints))
    if prints:
        from ikigai.headless import print_mode

        arguments.reply_schema, arguments.schema = arguments.schema, None  # there it is the schema of the reply
        return print_mode.run(_warned(_load_config(arguments)), arguments, prompt)
    return _at_the_terminal(arguments, prompt)


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
        flags, others = run_parser().parse_known_intermixed_args(words)
        if flags.print or flags.words != ["doctor"]:
            return None
        others = ["doctor", *others]
    from ikigai.cli import subcommands

    arguments = subcommands.parse(subcommands.build_parser(common_options(), common_options(argparse.SUPPRESS)), others)
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


def _is_switched_on(variable: str) -> bool:
    if not (text := os.environ.get(variable)):
        return False
    from ikigai.config.value_types import SWITCH_WORDS

    return SWITCH_WORDS.get(text.lower(), False)


def _at_the_terminal(arguments: argparse.Namespace, prompt: str) -> int:
    """Run the REPL; the prompt is on screen and keys are taken before anything heavy is imported."""
    from ikigai.terminal.render.theme import USER, terminal_theme
    from ikigai.terminal.tty import Tty

    gc.disable()  # looking through the imported objects, again and again, would take a tenth of the start
    tty = Tty()
    reader = arguments.screen_reader or _is_switched_on("IKIGAI_TERMINAL_SCREEN_READER")
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
    from ikigai.config import api_key_sources, load
    from ikigai.core.tools.approval_mode import ApprovalMode

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
        "database.schema": arguments.schema,
        "tools.approval": ApprovalMode.YOLO.value if getattr(arguments, "yolo", False) else None,
        "terminal.screen_reader": True if getattr(arguments, "screen_reader", False) else None,
        "limits.run_usd": getattr(arguments, "max_usd", None),
        "tools.enabled": False if getattr(arguments, "no_tools", False) else None,
    }
    _check_address(arguments.db)
    file = _config_file(arguments)
    logins = api_key_sources.stored_logins()
    return load(file, os.environ, flags, must_exist=bool(arguments.config), logins=logins)


def _warned(config: Config) -> Config:
    """Return the configuration; print a line for each variable that looks like one of ikigai's and sets nothing."""
    for notice in config.unknown_variables:
        _write_error(f"ikigai: {notice}")
    return config


def _check_address(dsn: str | None) -> None:
    """Raise ConfigError if the address of --db holds a password: all users of the machine see command lines."""
    if dsn and re.search(r":.*@|password|secret|%", dsn, re.IGNORECASE):  # psycopg is imported only where it may be so
        from ikigai.store.transfer.pg_programs import has_secret

        if has_secret(dsn):
            raise ConfigError(
                "The address of --db holds a password, which every user of this machine can see (ps).",
                "Write the whole address in IKIGAI_DATABASE_URL or [database] url of your configuration, or the "
                "password into ~/.pgpass or a service file.",
            )


class _PrivateLog(logging.FileHandler):
    def _open(self) -> TextIOWrapper:
        return TextIOWrapper(paths.open_private(Path(self.baseFilename), "wb" if self.mode == "w" else "ab"), "utf-8")


def _log_file() -> Path:
    return paths.state_dir() / "ikigai.log"


def _start_log() -> None:
    """Log to the state folder; if that cannot be written, to nowhere: a log is not a reason to stop."""
    logging.raiseExceptions = False
    root = logging.getLogger()
    try:
        paths.make_private(paths.state_dir())
        handler: logging.Handler = _PrivateLog(_log_file(), mode=_log_mode(), encoding="utf-8", delay=True)
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
    from ikigai.core.text.sanitize import clean

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
