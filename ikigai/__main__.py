"""`python -m ikigai`."""

import sys

from ikigai.cli import main

if __name__ == "__main__":
    sys.exit(main())
