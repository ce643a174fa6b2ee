"""`python -m eindiff`: the command line."""

import sys

from eindiff.language.cli import main

if __name__ == "__main__":
    sys.exit(main())
