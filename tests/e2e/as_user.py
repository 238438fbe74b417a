"""This module runs the real program with the real user id that `TEST_UID` holds.

Root starts it and lends its rights to files, since the interpreter may lie where other users cannot read.
"""

import os
import sys

from ikigai.cli import main as cli

if __name__ == "__main__":
    os.setresuid(int(os.environ.pop("TEST_UID")), 0, 0)
    sys.exit(cli.main())
