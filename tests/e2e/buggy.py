"""Run the real program with bugs in its screen: showing a message, and Ctrl+C, divide by zero."""

import sys

from ikigai.cli import main as cli
from ikigai.terminal.input.input_actions import InputActions
from ikigai.terminal.output.conversation import ConversationView

if __name__ == "__main__":
    ConversationView.show = InputActions.ask_to_leave = lambda *_: 1 / 0  # type: ignore[method-assign]
    sys.exit(cli.main())
