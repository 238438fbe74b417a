"""Run the real program as if it were installed in the folder that `TEST_SITE` holds."""

import os
import sys

from ikigai.cli import main as cli

if __name__ == "__main__":
    sys.path.insert(1, os.environ.pop("TEST_SITE"))
    sys.exit(cli.main())
