"""JAX: jax.numpy has NumPy's words. Programs can be traced: no branch depends on values, nothing changes in place."""

from eindiff.emit.backends.backend import Backend

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
        "special.erf": "special.erf",
        "special.expit": "special.expit",
    },
    helpers={
        "gram": '''
def gram(X, d):
    """X.T @ diag(d) @ X, of which the block below the diagonal is mirrored: three quarters of the work."""
    half = X.shape[1] // 2
    Z = d[:, None] * X
    top = X[:, :half].T @ Z
    bottom = jnp.concatenate([top[:, half:].T, X[:, half:].T @ Z[:, half:]], 1)
    return jnp.concatenate([top, bottom])
''',
        "put": '''
def put(shape, index, value, dtype):
    """Zeros, with a value added at some places."""
    return jnp.zeros(shape, dtype).at[index].add(value)
''',
        "logsumexp": '''
def logsumexp(x, axis=-1):
    """log(sum(exp(x))) along an axis, without overflow."""
    return special.logsumexp(x, axis=axis)
''',
        "logdet": '''
def logdet(A):
    """The logarithm of the determinant, which has to be positive."""
    sign, value = jnp.linalg.slogdet(A)
    return jnp.where(sign > 0, value, jnp.nan)
''',
        "inverse_or_zero": '''
def inverse_or_zero(x):
    """1 / x, and 0 at 0."""
    return jnp.where(x == 0, 0.0, 1 / jnp.where(x == 0, 1.0, x))
''',
        "argmax": '''
def argmax(x):
    """1 at the largest entry along the last axis, shared evenly by equal ones, else 0."""
    hits = (x == jnp.max(x, axis=-1, keepdims=True)).astype(x.dtype)
    return hits / jnp.sum(hits, axis=-1, keepdims=True)
''',
        "products_without": '''
def products_without(x, count):
    """Products along the last axis without the entries i1, ..., i_count, which become axes; 0 where two are equal."""
    n = x.shape[-1]
    places = jnp.stack(jnp.meshgrid(*[jnp.arange(n)] * count, indexing="ij"), -1).reshape(-1, count)
    left_out = (places[:, :, None] == jnp.arange(n)).any(1)
    distinct = left_out.sum(-1) == count
    factors = jnp.where(left_out, 1.0, x[..., None, :])
    return (jnp.prod(factors, axis=-1) * distinct).reshape(x.shape[:-1] + (n,) * count)
''',
        "matrix_function": '''
def matrix_function(function, A, *directions):
    """The derivative of a matrix function at A in some directions (its value for none), for stacks of matrices."""
    n, block = A.shape[-1], A
    for E in directions:
        size = block.shape[-1] // n
        above = jnp.einsum("ab,...ij->...aibj", jnp.eye(size, dtype=A.dtype), E)
        above = above.reshape(above.shape[:-4] + (size * n, size * n))
        block, above = jnp.broadcast_arrays(block, above)
        lower = jnp.concatenate([jnp.zeros_like(block), block], -1)
        block = jnp.concatenate([jnp.concatenate([block, above], -1), lower], -2)
    return function(block)[..., :n, -n:]
''',
    },
)
