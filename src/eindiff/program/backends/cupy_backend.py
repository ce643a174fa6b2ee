"""CuPy: NumPy's words on the GPU, with nothing that waits for a value on the host."""

from eindiff.program.backends.backend import Backend
from eindiff.program.backends.helpers import helpers_of
from eindiff.program.backends.jax_backend import LOGSUMEXP
from eindiff.program.backends.words import FUNCTIONS, reduction, words_of
from eindiff.program.operations import MOST_FACTORS

_SHARED = helpers_of("cp")
_OF_ONE_MATRIX = """    values = [function(x)[:n, -n:] for x in block.reshape(-1, *block.shape[-2:])]
    return cp.stack(values).reshape(*block.shape[:-2], n, n) * factor
"""

BACKEND = Backend(
    "cupy",
    "cp.",
    fast_power=MOST_FACTORS,  # one kernel instead of several
    imports={
        "cp.": "import cupy as cp",
        "cupyx.": "import cupyx",
        "linalg.": "from cupyx.scipy import linalg",
        "special.": "from cupyx.scipy import special",
    },
    words=words_of("cp."),
    functions={
        **words_of("cp.", FUNCTIONS),
        "equal": "({0} == {1}).astype(DTYPE)",
        "softmax": reduction("special.softmax"),
    },
    copied="{0}.copy()",
    helpers={
        **_SHARED,
        "logsumexp": LOGSUMEXP,
        "matrix_function": _SHARED["matrix_function"].replace(
            "    return function(block)[..., :n, -n:] * factor\n", _OF_ONE_MATRIX
        ),
        "put": '''
def put(shape, index, value, dtype, base=0):
    """Zeros, or a base, with a value added at some places."""
    out = cp.zeros(shape, dtype) + base
    cupyx.scatter_add(out, index, cp.asarray(value, dtype))
    return out
''',
    },
)
