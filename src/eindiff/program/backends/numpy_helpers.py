"""Helper functions of NumPy programs, each for one operation that takes more than a line."""

from eindiff.functions.guards import ALIKE

NUMPY_HELPERS = {
    "alike": f'''
def alike(x):
    """The entries of a diagonal, refused if some are so much smaller than others that digits would be lost."""
    sizes = np.abs(x)
    if x.size and not 0 < sizes.max() <= {ALIKE:g} * sizes.min():
        raise ArithmeticError("some entries of a diagonal are much smaller than others: digits would be lost here")
    return x
''',
    "logsumexp": '''
def logsumexp(x, axis=-1):
    """log(sum(exp(x))) along an axis, without overflow."""
    top = finite_top(x, axis, True)
    entries = x - top
    np.exp(entries, out=entries)
    return (np.log(summed(entries, axis)) + top).squeeze(axis)
''',
    "finite_top": '''
def finite_top(x, axis=-1, keepdims=False):
    """The largest entries along an axis; infinite ones as numbers, so that others are infinite less."""
    if x.ndim == 2 and axis in (1, -1) and x.shape[1] < 32 < x.shape[0]:
        top = np.maximum.reduce(np.ascontiguousarray(x.T))  # NumPy's loops along short rows are slow
        top = top[:, None] if keepdims else top
    else:
        top = np.maximum.reduce(x, axis, keepdims=keepdims)
    if abs(top) < np.inf if top.ndim == 0 else np.vdot(top, top) < np.inf:
        return top
    largest = np.finfo(x.dtype).max
    return np.minimum(np.maximum(top, -largest), largest)
''',
    "summed": '''
def summed(x, axis):
    """The sum along an axis, which stays; of many entries along rows as a product, which takes less time."""
    if x.ndim == 2 and axis in (1, -1) and x.size > 500:
        return x.dot(np.ones((x.shape[1], 1), x.dtype))
    return np.add.reduce(x, axis, keepdims=True)
''',
    "softmax": '''
def softmax(x, axis):
    """exp(x) over its sum along an axis, without overflow."""
    entries = x - finite_top(x, axis, True)
    np.exp(entries, out=entries)
    entries /= summed(entries, axis)
    return entries
''',
    "complement": '''
def complement(x, y, out=None):
    """What y = 1 / (x + 1) is less than 1, to the last digit: x * y, and 1 where x is infinite."""
    out = np.multiply(x, y, out=out)
    if not np.vdot(out, out) < np.inf:
        out[y == 0 if out is x else x == np.inf] = 1
    return out
''',
    "log_weighted_sum": '''
def log_weighted_sum(x, weights):
    """log(sum(weights * exp(x))) along the last axis, without overflow."""
    x = np.where(weights == 0, -np.inf, x)
    top = x.max(-1, keepdims=True)
    top = np.where(np.isfinite(top), top, 0)
    return np.log((weights * np.exp(x - top)).sum(-1)) + top[..., 0]
''',
    "in_range": '''
def in_range(total, reach=1e140):
    """Whether numbers are positive, and so far from the ends of their range that their parts are exact."""
    return total.size and 1 / reach < total.min() and total.max() < reach
''',
    "side_by_side": '''
def side_by_side(total, parts):
    """Every second one of some arrays, and the others, each along a new last axis."""
    arrays = np.broadcast_arrays(total, *parts)
    return np.stack(arrays[1::2], -1), np.stack(arrays[2::2], -1)
''',
    "log_of_total": '''
def log_of_total(total, is_in_range, *parts):
    """The logarithm of the sum of weights * exp(x), where x and weights are given one after the other."""
    if is_in_range:
        return np.log(total)
    return log_weighted_sum(*side_by_side(total, parts))
''',
    "part_of_total": '''
def part_of_total(place, term, total, is_in_range, *parts):
    """A term of the sum of weights * exp(x) over the sum."""
    if is_in_range:
        return term / total
    return weighted_softmax(*side_by_side(total, parts))[..., place]
''',
    "weighted_softmax": '''
def weighted_softmax(x, weights):
    """weights * exp(x) over their sum along the last axis, without overflow."""
    x = np.where(weights == 0, -np.inf, x)
    top = x.max(-1, keepdims=True)
    entries = weights * np.exp(x - np.where(np.isfinite(top), top, 0))
    total = entries.sum(-1, keepdims=True)
    return entries / np.where(total > 0, total, np.nan)
''',
    "norm": '''
def norm(x, total, axes, reach=1e280):
    """The root of the total of the squares of x along some axes, where the squares may be out of range."""
    if total.ndim == 0:
        if 1 / reach < total < reach:
            return np.sqrt(total)
    elif total.size and 1 / reach < total.min() and (np.vdot(total, total) < reach or total.max() < reach):
        return np.sqrt(total)
    top = np.max(np.abs(x), axes, initial=0, keepdims=True)
    top = np.where((top == 0) | ~np.isfinite(top), 1, top)
    return np.sqrt(np.square(x / top).sum(axes)) * top.reshape(np.shape(total))
''',
    "norm_of_several": '''
def norm_of_several(total, parts, reach=1e280):
    """The root of the total of squares of parts, summed along so many last axes; these may be out of range."""
    total = np.asarray(total)
    if total.size and 1 / reach < total.min() and (np.vdot(total, total) < reach or total.max() < reach):
        return np.sqrt(total)
    parts = [(np.asarray(x), tuple(range(-count, 0))) for x, count in parts]
    top = np.zeros(np.shape(total))
    for x, axes in parts:
        top = np.maximum(top, np.max(np.abs(x), axes, initial=0))
    top = np.where((top == 0) | ~np.isfinite(top), 1, top)
    return np.sqrt(sum([np.square(x / top[(..., *[None] * len(axes))]).sum(axes) for x, axes in parts])) * top
''',
    "inverse_power": '''
def inverse_power(x, n):
    """x**-n; not a number where x is one but its power is out of range."""
    result = x ** float(-n)
    return np.where((x > 0) & np.isfinite(x) & ((result == 0) | np.isinf(result)), np.nan, result)
''',
    "logdet": '''
def logdet(A):
    """The logarithm of the determinant, which has to be positive."""
    sign, value = np.linalg.slogdet(A)
    return np.where(sign > 0, value, np.nan)
''',
    "full": '''
def full(shape, value, dtype=float):
    """An array with one number everywhere: in half the time of np.full."""
    result = np.empty(shape, dtype)
    result.fill(value)
    return result
''',
    "diagonal_of": '''
def diagonal_of(x, axis=0, other=1):
    """The entries for which two axes are equal, which are the last axis, to be changed: in half the time of einsum."""
    entries = x.diagonal(0, axis, other)
    entries.setflags(write=True)
    return entries
''',
    "gram": '''
def gram(X, d, out=None):
    """X.T @ diag(d) @ X, or a stack of these; as a product with its own transpose, which takes half the work, if all of
    d has one sign."""
    if not d.size or d.min() >= 0:
        Z = np.sqrt(d)[..., None] * X
        return np.matmul(Z.swapaxes(-1, -2), Z, out=out)
    if d.max() <= 0:
        Z = np.sqrt(-d)[..., None] * X
        out = np.matmul(Z.swapaxes(-1, -2), Z, out=out)
        return np.negative(out, out=out)
    return np.matmul(X.swapaxes(-1, -2), d[..., None] * X, out=out)
''',
    "core_count": '''
def core_count():
    """The cores that this process may use: fewer than it has where threads of libraries are limited."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limits = [os.environ.get(f"{library}_NUM_THREADS", "") for library in ("OMP", "OPENBLAS", "MKL")]
    return min([cores, *(int(limit) for limit in limits if limit.isdigit() and int(limit) > 0)])
''',
    "in_blocks": '''
def in_blocks(A, B, out=None, most=10**6, cores=core_count()):
    """A @ B. One core computes some rows at a time, so few that BLAS packs nothing, from a B that lies along rows."""
    rows = most // max(1, B.size) // 4 * 4
    if cores > 1 or not 0 < rows < len(A):
        return np.matmul(A, B, out=out)
    out = np.empty((len(A), B.shape[1]), A.dtype) if out is None else out
    B, end = np.ascontiguousarray(B), len(A) // rows * rows
    np.matmul(A[:end].reshape(-1, rows, len(B)), B, out=out[:end].reshape(-1, rows, B.shape[1]))
    if end < len(A):
        np.matmul(A[end:], B, out=out[end:])
    return out
''',
    "mirrored": '''
def mirrored(x, M, out=None, step=4):
    """The sum over s of x[i, s] * x[m, s] * M[s, k, l], in the order i, k, m, l: half of it, the rest is mirrored."""
    (I, _), (_, K, L) = x.shape, M.shape
    out = np.empty((I, K, I, L), M.dtype) if out is None else out
    x, slices = np.ascontiguousarray(x), np.ascontiguousarray(M.transpose(1, 0, 2))
    for start in range(0, I, step):
        end = min(start + step, I)
        for i in range(start, end):
            np.matmul(x[start:] * x[i], slices, out=out[i, :, start:])
        out[end:, :, start:end] = out[start:end, :, end:].transpose(2, 1, 0, 3)
    return out
''',
    "mirrored_twice": '''
def mirrored_twice(x, M, out=None, step=4):
    """The sum over s of x[i, s] * x[m, s] * M[s, k, l], in the order i, k, m, l: a quarter, as M[s] is symmetric."""
    (I, S), K = x.shape, M.shape[1]
    out = np.empty((I, K, I, K), M.dtype) if out is None else out
    x, (rows, columns), places = np.ascontiguousarray(x), np.triu_indices(K), np.empty((K, K), int)
    places[rows, columns] = places[columns, rows] = np.arange(len(rows))
    triangles = np.ascontiguousarray(M[:, rows, columns])
    part, whole = np.empty((step * I, len(rows)), M.dtype), np.empty((step * I, K, K), M.dtype)
    for i in range(0, I, step):
        end = min(i + step, I)
        pairs = (x[i:end, None] * x[i:]).reshape(-1, S)
        found = np.matmul(pairs, triangles, out=part[: len(pairs)])
        block = np.take(found, places, axis=1, out=whole[: len(pairs)], mode="clip").reshape(end - i, I - i, K, K)
        out[i:end, :, i:] = block.transpose(0, 2, 1, 3)
        out[end:, :, i:end] = block[:, end - i :].transpose(1, 2, 0, 3)
    return out
''',
    "zeros": '''
def zeros(shape, out=None, dtype=float):
    """Zeros, in a given array if there is one."""
    if out is None:
        return np.zeros(shape, dtype)
    out[...] = 0
    return out
''',
    "empty": '''
def empty(shape, out=None, dtype=float):
    """An array without values yet: a given one if there is one."""
    return np.empty(shape, dtype) if out is None else out
''',
    "flat_places": '''
def flat_places(shape, *axes):
    """Places along the axes of an array as places in its entries, one after the other."""
    return np.ravel(axes[0] if len(axes) == 1 else np.ravel_multi_index(np.broadcast_arrays(*axes), shape))
''',
    "add_at": '''
def add_at(out, places, values, add=np.add.at):
    """Add values at places in the entries of an array; those at equal places add up."""
    if out.flags.c_contiguous:
        add(out.reshape(-1), places, np.ravel(values))
    else:
        add(out, np.unravel_index(places, out.shape), np.ravel(values))
''',
    "windows": '''
def windows(x, axis, offset, steps):
    """A view with an axis for each of some steps along one of x: entries at the offset plus so many of each step."""
    x = x[(slice(None),) * axis + (slice(offset, None),)]
    shape = (*x.shape[:axis], *(size for _, size in steps), *x.shape[axis + 1 :])
    strides = (*x.strides[:axis], *(step * x.strides[axis] for step, _ in steps), *x.strides[axis + 1 :])
    return np.lib.stride_tricks.as_strided(x, shape, strides, writeable=False)
''',
    "stored": '''
def stored(value, out=None, copy=False):
    """The value, in a given array if there is one; copied if it is part of something else."""
    if out is None:
        return np.array(value) if copy else value
    out[...] = value
    return out
''',
    "store_columns": '''
def store_columns(value, out):
    """Write values into an array with a short last axis, along which NumPy would run: if they lie by columns, so."""
    if value.strides[-1] <= value.strides[-2]:
        out[...] = value
    else:
        for k in range(out.shape[-1]):
            out[..., k] = value[..., k]
''',
    "in_threads": '''
def in_threads(work, length, most, rows):
    """The sums of what `work(first, last, step)` gives for parts of a length, each in a thread, in equal steps."""
    count = max(1, min(core_count(), length, most))
    part = max(1, -(-length // count))
    step = -(-part // -(-part // rows))
    if count == 1:
        return work(0, length, step)
    ends = [length * k // count for k in range(count + 1)]
    state = np.geterr()

    def run(first, last):
        with np.errstate(**state):  # a thread does not know of what is around it
            return work(first, last, step)

    with ThreadPoolExecutor(count - 1) as pool:
        others = [pool.submit(run, *part) for part in zip(ends[1:], ends[2:])]
        parts = [work(0, ends[1], step), *(other.result() for other in others)]
    return [sum(part) for part in zip(*parts)]
''',
    "inverse_or_zero": '''
def inverse_or_zero(x):
    """1 / x, and 0 at 0."""
    x = np.asarray(x, dtype=float)
    return np.divide(1, x, out=np.zeros_like(x), where=x != 0)
''',
    "power_derivative": '''
def power_derivative(x, y, order, terms):
    """The derivative of x**y, `order` times by x and some by y; `terms` are powers of log(x), polynomials in y."""
    powers, result = x ** (y - order), 0.0  # neither x nor y has the other in it: this may be derived again
    for r, coefficients in terms:
        factor = 0.0 * y
        for c in coefficients:
            factor = factor * y + c
        none = (x == 0) & (y > order)
        logs = np.where(none, 0.0, powers * np.log(np.where(none, 1.0, x)) ** r) if r else powers
        result = result + np.where(factor == 0, 0.0, factor * logs)
    return result
''',
    "argmax": '''
def argmax(x):
    """1 at the largest entry along the last axis, shared evenly by equal ones, else 0."""
    hits = x == np.max(x, axis=-1, keepdims=True)
    return hits / np.sum(hits, axis=-1, keepdims=True)
''',
    "eigh": '''
def eigh(A):
    """Eigenvalues and eigenvectors of a symmetric matrix, NaN if it has an entry that is not finite."""
    return np.linalg.eigh(A + 0 * A.sum((-2, -1), keepdims=True))
''',
    "eigvalsh": '''
def eigvalsh(A):
    """Eigenvalues of a symmetric matrix, NaN if it has an entry that is not finite."""
    return np.linalg.eigvalsh(A + 0 * A.sum((-2, -1), keepdims=True))
''',
    "gaps": '''
def gaps(x):
    """x_j - x_i for all pairs along the last axis, NaN for two that are equal up to rounding."""
    n = x.shape[-1]
    gap = x[..., None, :] - x[..., :, None]
    tied = np.abs(gap) <= 8 * n * np.finfo(x.dtype).eps * np.max(np.abs(x), axis=-1)[..., None, None]
    return np.where(tied & ~np.eye(n, dtype=bool), np.nan, gap)
''',
    "simple": '''
def simple(x):
    """1 for each entry along the last axis, NaN for those that equal another one up to rounding."""
    n = x.shape[-1]
    gap = np.abs(x[..., None, :] - x[..., :, None])
    tied = gap <= 8 * n * np.finfo(x.dtype).eps * np.max(np.abs(x), axis=-1)[..., None, None]
    return np.where((tied & ~np.eye(n, dtype=bool)).any(-1), np.nan, np.ones_like(x))
''',
    "nonzero": '''
def nonzero(x):
    """1 for each entry along the last axis, NaN for those that are 0 up to rounding."""
    least = 8 * x.shape[-1] * np.finfo(x.dtype).eps * np.max(np.abs(x), axis=-1)[..., None]
    return np.where(np.abs(x) <= least, np.nan, np.ones_like(x))
''',
    "nonzero_pairs": '''
def nonzero_pairs(x):
    """1 for each pair of entries along the last axis, NaN where both are 0 up to rounding."""
    least = 8 * x.shape[-1] * np.finfo(x.dtype).eps * np.max(np.abs(x), axis=-1)[..., None, None]
    size = np.abs(x)[..., None, :] + np.abs(x)[..., :, None]
    return np.where(size <= least, np.nan, np.ones_like(size))
''',
    "products_without": '''
def products_without(x, count):
    """Products along the last axis without the entries i1, ..., i_count, which become axes; 0 where two are equal."""
    n = x.shape[-1]
    if count > 1:
        same = np.arange(n)[:, None] == np.arange(n)
        found = products_without(np.where(same, 1.0, x[..., None, :]), count - 1)
        for place in range(1, count):
            found = np.where(same.reshape((n,) + (1,) * (place - 1) + (n,) + (1,) * (count - 1 - place)), 0.0, found)
        return found
    return products_without_one(x)
''',
    "products_without_one": '''
def products_without_one(x):
    """Products along the last axis without each of its entries: of those before it and those after."""
    one = np.ones_like(x[..., :1])
    before = np.cumprod(np.concatenate([one, x[..., :-1]], -1), -1)
    after = np.cumprod(np.concatenate([one, np.flip(x, (-1,))[..., :-1]], -1), -1)
    return before * np.flip(after, (-1,))
''',
    "matrix_function": '''
def matrix_function(function, A, *directions):
    """The derivative of a matrix function at A in some directions (its value for none), for stacks of matrices."""
    shape = np.broadcast_shapes(*(X.shape[:-2] for X in (A, *directions)))
    spread = [np.broadcast_to(X, shape + X.shape[-2:]) for X in (A, *directions)]
    result = np.empty(shape + A.shape[-2:])
    n = A.shape[-1]
    for index in np.ndindex(shape):
        block = spread[0][index]
        for E in spread[1:]:
            above = np.kron(np.eye(len(block) // n), E[index])
            block = np.block([[block, above], [np.zeros_like(block), block]])
        finite = np.isfinite(block).all()
        value = np.asarray(function(block))[:n, -n:] if finite else np.full((n, n), np.nan)
        result[index] = np.where(np.abs(value.imag) > 1e-8 * (1 + np.abs(value.real)), np.nan, value.real)
    return result
''',
}
