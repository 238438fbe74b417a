"""`python -m ikigai`."""

import sys

from ikigai.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
