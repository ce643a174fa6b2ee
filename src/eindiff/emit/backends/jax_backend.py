"""JAX: jax.numpy has NumPy's words. Programs can be traced: no branch depends on values, nothing changes in place."""

from eindiff.emit.backends.backend import Backend
from eindiff.emit.backends.helpers import helpers_of

LOGSUMEXP = '''
def logsumexp(x, axis=-1):
    """log(sum(exp(x))) along an axis, without overflow."""
    return special.logsumexp(x, axis=axis)
'''

BACKEND = Backend(
    "jax",
    imports={
        "jnp.": "import jax.numpy as jnp",
        "linalg.": "from jax.scipy import linalg",
        "special.": "from jax.scipy import special",
    },
    created=", dtype=np.{dtype}",
    rules=[
        (r"np\.ascontiguousarray\((.*)\)", r"\1"),
        (r"(.*)\.copy\(\)", r"\1"),
        (r"np\.where\(\{0\} (>|==) \{1\}, 1\.0, 0\.0\)", r"({0} \1 {1}).astype(DTYPE)"),
    ],
    names={
        "np.*": "jnp.",
        "np.float64": "float",  # the widest type that is switched on
        "np.int64": "int",
        "linalg.expm": "linalg.expm",
        "linalg.solve_triangular": "linalg.solve_triangular",
        "special.erf": "special.erf",
        "special.expit": "special.expit",
    },
    helpers={
        **helpers_of("jnp"),
        "put": '''
def put(shape, index, value, dtype):
    """Zeros, with a value added at some places."""
    return jnp.zeros(shape, dtype).at[index].add(value)
''',
        "logsumexp": LOGSUMEXP,
    },
)
