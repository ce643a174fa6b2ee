"""What a request may ask for, so that a server that anybody can reach stays one that answers."""

from __future__ import annotations

LONGEST_EXPRESSION = 2000  # characters
LONGEST_DOUBT = 300  # characters of an expression that is tried in other ways
LONGEST_DECLARATIONS = 2000
LONGEST_NAME = 80
LONGEST_BODY = 128_000  # bytes of a request: room for the longest texts, every character escaped
MOST_VARIABLES = 8  # to differentiate by
MOST_BLOCKS = 12  # derivatives in one answer
MOST_SIZES = 40
LARGEST_SIZE = 1_000_000
HIGHEST_ORDER = 3  # of a derivative
MOST_AXES = 12  # of a derivative
MOST_NODES = 1500  # of a function
CHECKED_ENTRIES = 60_000  # of a derivative that is computed numerically
DEEPEST = 120  # brackets inside of each other

TIME = 5.0  # seconds for one request
MEMORY = 1 << 30  # bytes that a worker may take on top of what it starts with
QUEUE = 32  # requests that wait for a worker, for each worker
OWN_QUEUE = 24  # requests of one client that wait
QUICK_SECONDS = 0.5  # seconds after which a request is not a quick one
GRACE = 0.3  # seconds until work that nobody waits for is ended, as most ends by itself before
WAIT = 10.0  # seconds after which a request that still waits is refused
LONGEST_ANSWER = 4_000_000  # bytes
CACHE = 32_000_000  # bytes of answers that are kept
