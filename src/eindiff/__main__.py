"""`python -m eindiff`: the command line."""

import sys

from eindiff.apps.cli import main

if __name__ == "__main__":
    sys.exit(main())
