"""`python -m eindiff`: the command line."""

import sys

from eindiff.language.cli import main

sys.exit(main())
