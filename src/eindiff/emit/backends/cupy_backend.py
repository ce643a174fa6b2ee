"""CuPy: NumPy's words on the GPU, with nothing that waits for a value on the host."""

from eindiff.emit.backends import jax_backend
from eindiff.emit.backends.backend import Backend

BACKEND = Backend(
    "cupy",
    imports={
        "cp.": "import cupy as cp",
        "cupyx.": "import cupyx",
        "linalg.": "from cupyx.scipy import linalg",
        "special.": "from cupyx.scipy import special",
    },
    types="cp.",
    created=", dtype=cp.{dtype}",
    names={"np.*": "cp.", "linalg.expm": "linalg.expm", "special.*": "special."},
    helpers={
        **{name: text.replace("jnp.", "cp.") for name, text in jax_backend.BACKEND.helpers.items()},
        "put": '''
def put(shape, index, value, dtype):
    """Zeros, with a value added at some places."""
    out = cp.zeros(shape, dtype)
    cupyx.scatter_add(out, index, cp.asarray(value, dtype))
    return out
''',
    },
)
