"""The real program with a bug in its screen: showing what was said divides by zero."""

import sys

from ikigai import cli
from ikigai.terminal import screen

if __name__ == "__main__":
    screen.Screen.show = lambda *_: 1 / 0  # type: ignore[method-assign]
    sys.exit(cli.main())
