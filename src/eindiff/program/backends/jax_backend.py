"""JAX: jax.numpy has NumPy's words. Programs can be traced: no branch depends on values, nothing changes in place."""

from eindiff.program.backends.backend import Backend
from eindiff.program.backends.helpers import helpers_of

LOGSUMEXP = '''
def logsumexp(x, axis=-1):
    """log(sum(exp(x))) along an axis, without overflow."""
    return special.logsumexp(x, axis=axis)
'''

BACKEND = Backend(
    "jax",
    imports={
        "jnp.": "import jax.numpy as jnp",
        "np.": "import numpy as np",
        "linalg.": "from jax.scipy import linalg",
        "special.": "from jax.scipy import special",
    },
    created=", dtype=np.{dtype}",
    rules=[
        (r"np\.ascontiguousarray\((.*)\)", r"(\1)"),
        (r"(.*)\.copy\(\)", r"\1"),
        (r"np\.where\(\{0\} == \{1\}, 1\.0, 0\.0\)", r"np.equal({0}, {1}).astype(DTYPE)"),
        (r"np\.array\((.*), dtype=np\.int64\)(.*)", r"np.asarray(\1)\2"),
    ],
    names={
        "np.*": "jnp.",
        "np.arange": "np.arange",  # indices are known while a program is traced
        "np.asarray": "np.asarray",
        "np.float64": "float",  # the widest type that is switched on
        "np.int64": "int",
        "linalg.expm": "linalg.expm",
        "linalg.solve_triangular": "linalg.solve_triangular",
    },
    helpers={
        **helpers_of("jnp"),
        "put": '''
def put(shape, index, value, dtype, base=0):
    """Zeros, or a base, with a value added at some places."""
    whole = jnp.broadcast_to(jnp.asarray(base, dtype), shape)
    if any(isinstance(i, slice) for i in index):
        return whole.at[index].add(value)
    sizes = shape if isinstance(shape, tuple) else (shape,)
    places = np.broadcast_arrays(*index)
    flat = np.ravel_multi_index(places, sizes).ravel()
    once = len(np.unique(flat)) == len(flat)
    value = jnp.broadcast_to(jnp.asarray(value, dtype), places[0].shape).ravel()
    whole = whole.reshape(-1).at[flat]
    return whole.add(value, mode="promise_in_bounds", unique_indices=once).reshape(sizes)
''',
        "logsumexp": LOGSUMEXP,
    },
)
