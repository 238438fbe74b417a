"""Tests of the help: every command has a page in 80 columns, every option its words, and every example is one."""

import argparse
import re
import shlex
from collections.abc import Iterator

import pytest

from ikigai.cli import help_pages as manual
from ikigai.cli import run_options
from ikigai.cli import subcommands as admin
from ikigai.cli.main import SUBCOMMANDS
from tests.e2e.test_completion import every


def parsers() -> Iterator[tuple[str, argparse.ArgumentParser]]:
    _, *beside = every(admin.build_parser(run_options.common_options(), run_options.common_options(argparse.SUPPRESS)))
    yield from beside
    yield "", run_options.run_parser()


@pytest.fixture(params=[40, 80, 200])
def terminal(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setenv("COLUMNS", str(request.param))
    return request.param


def test_every_command_has_a_page_and_every_page_a_command() -> None:
    assert {path for path, _ in parsers()} == {"", *manual.load().pages}


def test_pages_are_read_only_when_help_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    manual.load.cache_clear()
    beside = admin.build_parser(run_options.common_options(), run_options.common_options(argparse.SUPPRESS))
    admin.parse(beside, ["config", "path"])
    run_options.run_parser().parse_intermixed_args(["a message"])
    assert manual.load.cache_info().currsize == 0
    with pytest.raises(SystemExit):
        admin.parse(beside, ["db", "dump", "--help"])
    assert manual.load.cache_info().currsize == 1 and "through another program" in capsys.readouterr().out


def test_every_page_says_all_in_80_columns(terminal: int) -> None:
    for path, parser in parsers():
        text = parser.format_help()
        assert max(map(len, text.splitlines())) <= 80, path
        if terminal == 80:  # in fewer, argparse may break a word
            assert parser.description and re.sub(r"\s+", " ", parser.description)[:60] in re.sub(r"\s+", " ", text), (
                path
            )
        assert "\nexamples:\n  " in text and "\nexit codes:\n  0 " in text, path
        assert ("\n  75 " in text) is not (path and manual.load().pages[path].is_local), path
        assert re.search(r"\n\n\n", text.rstrip("\n")) is None, path


def test_every_option_and_argument_is_explained() -> None:
    for path, parser in parsers():
        for action in parser._actions:
            if action.dest == "words" and not path:
                continue  # a message; the usage says so
            name = action.option_strings or action.dest
            if isinstance(action, argparse._SubParsersAction):
                assert {choice.dest for choice in action._choices_actions if choice.help} == {*action.choices}, name
            elif action.help != argparse.SUPPRESS:
                assert action.help and len(action.help) > 3, (path, name)


def examples() -> Iterator[tuple[str, str]]:
    for path, page in manual.load().pages.items():
        for command, _ in page.examples:
            yield path, command
    (block,) = re.findall(r"\nexamples:\n(.*?)\n\n", manual.main_text(), re.DOTALL)
    for line in block.splitlines():
        yield "", line.strip().split("   ")[0]


def test_every_example_is_understood() -> None:
    """The parsers accept it; the shell's syntax is left out."""
    common, main = run_options.common_options(), run_options.run_parser()
    beside = admin.build_parser(common, run_options.common_options(argparse.SUPPRESS))
    for path, example in examples():
        found = re.search(r"\bikigai\b(?P<words>(?:'[^']*'|\"[^\"]*\"|[^|<>)])*)", example)
        assert found, example
        words = shlex.split(found["words"])
        rest = common.parse_known_args(words)[1]
        if rest[:1] in SUBCOMMANDS:
            arguments = admin.parse(beside, words)
            assert path.split()[0] == arguments.command, example
            assert len(path.split()) == 1 or path.split()[1] == arguments.what, example
        else:
            assert path == "" and main.parse_intermixed_args(words), example
