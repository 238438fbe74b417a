"""Run the real program with files that take SECONDS to read, and that leaving hardly waits for."""

import os
import sys
import time

from ikigai.app.attachments import attachments
from ikigai.cli import main as cli
from ikigai.repl import repl

read_mentions = attachments.read_mentions


def read_slowly(*arguments):
    time.sleep(float(os.environ["SECONDS"]))
    return read_mentions(*arguments)


if __name__ == "__main__":
    attachments.read_mentions = read_slowly
    repl.CLOSE_WITHIN = repl.READ_WITHIN = float(os.environ.get("WAITS", "0.1"))
    sys.exit(cli.main())
