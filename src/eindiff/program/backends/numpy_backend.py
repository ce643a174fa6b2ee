"""NumPy, with SciPy for special functions. Large arrays are changed in place."""

from eindiff.core.leaves import BANDS
from eindiff.program.backends.backend import Backend, Spelling, Word, slots
from eindiff.program.backends.numpy_factors import FACTOR_HELPERS
from eindiff.program.backends.numpy_helpers import NUMPY_HELPERS
from eindiff.program.backends.words import EAGER, EAGER_FUNCTIONS, FUNCTIONS, NUMPY, diagonal, solve
from eindiff.program.operations import ARITHMETIC, Op, Operation


def _solve(x: Operation, s: Spelling) -> str:
    if len(x.operands) > 2:
        return f"solved_by_diagonals({slots(x)})"
    if x.parameters[0] in BANDS:
        return f"{x.parameters[0]}_solve({{0}}, {{1}})"
    return solve(x, "np.linalg.solve({0}, {1})", "solve_triangular({{0}}, {{1}}, lower={})")


def _matmul(x: Operation, s: Spelling) -> str:
    """A product. Of vectors and matrices the method takes half a microsecond less than the operator, but it fills the
    result with zeros first."""
    if x.parameters:
        return "in_blocks({0}, {1}, cores=1)" if x.parameters[0] else "in_blocks({0}, {1})"
    is_plain = all(len(y.shape) <= 2 for y in x.operands)
    return "{0}.dot({1})" if is_plain and s.is_small(x) else "{0} @ {1}"


def _scale(x: Operation, s: Spelling) -> str:
    """A multiple; of what is no integer by a float."""
    text = s.number(x.parameters[0])
    is_whole = text.lstrip("-").isdigit() and not s.reading and x.operands[0].speed != ARITHMETIC
    return f"{text}.0 * {{0}}" if is_whole else f"{text} * {{0}}"


_WORDS: dict[Op, Word] = {**NUMPY, **EAGER, "solve": _solve, "matmul": _matmul, "scale": _scale}
# What starts sooner than the functions that people know.
_QUICK: dict[Op, Word] = {
    "outer": lambda x, s: "{0}[:, None].dot({1}[None])" if x.parameters else "{0}[:, None] * {1}",
    "logistic": "1.0 / (1.0 + {0})",  # NumPy finds a type for a float sooner than for a whole number
    "reciprocal": "1.0 / {0}",
    "swap": "{0}.swapaxes(-1, -2)",
    "contiguous": "{0}.copy()",  # never a view, which would change with what it is one of
    "diagonal": lambda x, s: diagonal(x, s, "{0}.diagonal()"),
    "trace": lambda x, s: diagonal(x, s, "{0}.trace()"),
    "take": lambda x, s: s.word(_WORDS["take"], x) if len(x.operands) > 2 else f"{{0}}.take({{1}}, {x.parameters[0]})",
}


def _quick(op: Op) -> Word:
    return lambda x, s: s.word((_WORDS if s.reading else _QUICK)[op], x)


BACKEND = Backend(
    "numpy",
    "np.",
    imports={
        "np.": "import numpy as np",
        "linalg.": "from scipy import linalg",
        "special.": "from scipy import special",
        "os.": "import os",
        "ThreadPoolExecutor(": "from concurrent.futures import ThreadPoolExecutor",
    },
    words={**_WORDS, **{op: _quick(op) for op in _QUICK}},
    functions={**FUNCTIONS, **EAGER_FUNCTIONS},
    helpers={**NUMPY_HELPERS, **FACTOR_HELPERS},
    functional=False,
)
