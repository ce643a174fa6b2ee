"""NumPy, with SciPy for special functions. Large arrays are changed in place."""

from eindiff.program.backends.backend import Backend, Spelling
from eindiff.program.backends.numpy_factors import FACTOR_HELPERS
from eindiff.program.backends.numpy_helpers import NUMPY_HELPERS
from eindiff.program.backends.words import EAGER, FUNCTIONS, NUMPY, solve
from eindiff.program.operations import Operation


def _solve(x: Operation, s: Spelling) -> str:
    if x.parameters[0] == "tridiagonal":
        return "tridiagonal_solve({0}, {1})"
    return solve(x, "np.linalg.solve({0}, {1})", "solve_triangular({{0}}, {{1}}, lower={})")


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
    words={**NUMPY, **EAGER, "solve": _solve},
    functions=FUNCTIONS,
    helpers={**NUMPY_HELPERS, **FACTOR_HELPERS},
    functional=False,
)
