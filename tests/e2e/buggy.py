"""The real program with bugs in its screen: showing what was said, and Ctrl+C, divide by zero."""

import sys

from ikigai.cli import main as cli
from ikigai.terminal.input.actions import Actions
from ikigai.terminal.screen import Screen

if __name__ == "__main__":
    Screen.show = Actions.ask_to_leave = lambda *_: 1 / 0  # type: ignore[method-assign]
    sys.exit(cli.main())
