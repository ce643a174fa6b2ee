"""Helper functions of programs that change nothing in place, in words that JAX, CuPy and PyTorch have in common."""

from __future__ import annotations

from eindiff.program.backends.numpy_helpers import NUMPY_HELPERS

AS_IN_NUMPY = (
    "inverse_power", "logdet", "power_derivative", "products_without", "products_without_one", "eigh", "eigvalsh",
)  # fmt: skip

HELPERS = {
    **{name: NUMPY_HELPERS[name] for name in AS_IN_NUMPY},
    "gram": '''
def gram(X, d):
    """X.T @ diag(d) @ X, of which the block below the diagonal is mirrored: three quarters of the work."""
    half = X.shape[1] // 2
    Z = d[:, None] * X
    top = X[:, :half].T @ Z
    bottom = np.concatenate([top[:, half:].T, X[:, half:].T @ Z[:, half:]], 1)
    return np.concatenate([top, bottom])
''',
    "log_weighted_sum": '''
def log_weighted_sum(x, weights):
    """log(sum(weights * exp(x))) along the last axis, without overflow."""
    x = np.where(weights == 0, -np.inf, x)
    top = np.amax(x, axis=-1, keepdims=True)
    top = np.where(np.isfinite(top), top, np.zeros_like(top))
    return np.log(np.sum(weights * np.exp(x - top), axis=-1)) + top[..., 0]
''',
    "weighted_softmax": '''
def weighted_softmax(x, weights):
    """weights * exp(x) over their sum along the last axis, without overflow."""
    x = np.where(weights == 0, -np.inf, x)
    top = np.amax(x, axis=-1, keepdims=True)
    entries = weights * np.exp(x - np.where(np.isfinite(top), top, np.zeros_like(top)))
    total = np.sum(entries, axis=-1, keepdims=True)
    return entries / np.where(total > 0, total, np.nan)
''',
    "norm": '''
def norm(x, total, axes):
    """The root of the total of the squares of x along some axes, where the squares may be out of range."""
    if 0 in x.shape:
        return np.sqrt(total)
    top = np.amax(np.abs(x), axes, keepdims=True)
    top = np.where((top == 0) | ~np.isfinite(top), np.ones_like(top), top)
    return np.sqrt(np.sum(np.square(x / top), axes)) * top.reshape(total.shape)
''',
    "norm_of_several": '''
def norm_of_several(total, parts):
    """The root of the total of squares of parts, summed along so many last axes; these may be out of range."""
    parts = [(x if hasattr(x, "shape") else x * np.ones_like(total), tuple(range(-count, 0))) for x, count in parts]
    parts = [(x, axes) for x, axes in parts if 0 not in x.shape]
    top = np.zeros_like(total)
    for x, axes in parts:
        top = np.maximum(top, np.amax(np.abs(x), axes) if axes else np.abs(x))
    top = np.where((top == 0) | ~np.isfinite(top), np.ones_like(top), top)
    squares = [np.square(x / top.reshape(top.shape + (1,) * len(axes))) for x, axes in parts]
    return np.sqrt(sum([np.sum(x, axes) if axes else x for x, (_, axes) in zip(squares, parts)])) * top
''',
    "balanced": '''
def balanced(x, axis, other):
    """x with what the entries beside the diagonal of two axes add up to along the first one, negative, on it."""
    n = x.shape[axis]
    steps = np.arange(n)
    first, second = ([n if k == place else 1 for k in range(x.ndim)] for place in (axis, other))
    is_on = steps.reshape(first) == steps.reshape(second)
    beside = np.where(is_on, 0.0, x)
    return np.where(is_on, -np.sum(beside, axis, keepdims=True), beside)
''',
    "inverse_or_zero": '''
def inverse_or_zero(x):
    """1 / x, and 0 at 0."""
    return np.where(x == 0, 0.0, 1 / np.where(x == 0, 1.0, x))
''',
    "argmax": '''
def argmax(x):
    """1 at the largest entry along the last axis, shared evenly by equal ones, else 0."""
    hits = np.where(x == np.amax(x, axis=-1, keepdims=True), np.ones_like(x), np.zeros_like(x))
    return hits / np.sum(hits, axis=-1, keepdims=True)
''',
    "gaps": '''
def gaps(x):
    """x_j - x_i for all pairs along the last axis, NaN for two that are equal up to rounding."""
    n = x.shape[-1]
    steps = np.arange(n)
    gap = x[..., None, :] - x[..., :, None]
    tied = np.abs(gap) <= 8 * n * np.finfo(x.dtype).eps * np.amax(np.abs(x), axis=-1)[..., None, None]
    return np.where(tied & (steps[:, None] != steps), np.nan, gap)
''',
    "simple": '''
def simple(x):
    """1 for each entry along the last axis, NaN for those that equal another one up to rounding."""
    n = x.shape[-1]
    steps = np.arange(n)
    gap = np.abs(x[..., None, :] - x[..., :, None])
    tied = gap <= 8 * n * np.finfo(x.dtype).eps * np.amax(np.abs(x), axis=-1)[..., None, None]
    return np.where((tied & (steps[:, None] != steps)).any(-1), np.nan, np.ones_like(x))
''',
    "nonzero": '''
def nonzero(x):
    """1 for each entry along the last axis, NaN for those that are 0 up to rounding."""
    least = 8 * x.shape[-1] * np.finfo(x.dtype).eps * np.amax(np.abs(x), axis=-1)[..., None]
    return np.where(np.abs(x) <= least, np.nan, np.ones_like(x))
''',
    "nonzero_pairs": '''
def nonzero_pairs(x):
    """1 for each pair of entries along the last axis, NaN where both are 0 up to rounding."""
    least = 8 * x.shape[-1] * np.finfo(x.dtype).eps * np.amax(np.abs(x), axis=-1)[..., None, None]
    size = np.abs(x)[..., None, :] + np.abs(x)[..., :, None]
    return np.where(size <= least, np.nan, np.ones_like(size))
''',
    "matrix_function": '''
def matrix_function(function, A, *directions):
    """The derivative of a matrix function at A in some directions (its value for none), for stacks of matrices."""
    n, block, factor = A.shape[-1], A, 1
    for above in directions:
        size = np.sum(np.abs(above), (-2, -1))[..., None, None]
        size = np.where(size > 0, size, np.ones_like(size))  # directions of size 1: large ones cost the function digits
        above, factor = above / size, factor * size
        while above.shape[-1] < block.shape[-1]:  # once for each block of the diagonal
            zero = np.zeros_like(above)
            rows = [np.concatenate([above, zero], -1), np.concatenate([zero, above], -1)]
            above = np.concatenate(rows, -2)
        block, above = block + np.zeros_like(above), above + np.zeros_like(block)  # the same stack
        lower = np.concatenate([np.zeros_like(block), block], -1)
        block = np.concatenate([np.concatenate([block, above], -1), lower], -2)
    return function(block)[..., :n, -n:] * factor
''',
}


def helpers_of(module: str) -> dict[str, str]:
    """The helpers with the name of a module for NumPy's."""
    return {name: text.replace("np.", f"{module}.") for name, text in HELPERS.items()}
