"""TensorFlow 2: programs run eagerly and inside `tf.function`, under a GradientTape, and need no switch of the library.

Types are never promoted there, so every array is made with its type, and numbers take that of the arrays they meet.
"""

from eindiff.program.backends import words
from eindiff.program.backends.backend import Backend, Spelling, slots
from eindiff.program.backends.numpy_helpers import NUMPY_HELPERS
from eindiff.program.operations import Operation, is_number

SLICED = 8  # axes of arrays that TensorFlow slices


def _expand(x: Operation, s: Spelling) -> str:
    """New axes."""
    if len(x.parameters) <= SLICED:
        return f"{{0}}[{words.index(x)}]"
    text = "{0}"
    for axis, present in enumerate(x.parameters):
        text = text if present else f"tf.expand_dims({text}, {axis})"
    return text


def _take(x: Operation, s: Spelling) -> str:
    several = len(x.operands) > 2
    [axis] = x.parameters
    return f"gathered({{0}}, {axis}, {slots(x, 1)})" if several else f"tf.gather({{0}}, {{1}}, axis={axis})"


def _diagonal(x: Operation, s: Spelling, of_matrix: str) -> str:
    """A diagonal or a trace: TensorFlow's einsum refuses repeated subscripts of arrays with many axes."""
    subscripts = x.parameters[0]
    return of_matrix if subscripts in ("ii->i", "ii->") else f'diagonals({{0}}, "{subscripts}")'


def _table(x: Operation, s: Spelling) -> str:
    shape, text = x.parameters[0], f"tf.constant({words.places(x, s)}{s.integers})"
    return f"tf.reshape({text}, [{', '.join(map(str, shape))}])" if len(shape) > 1 else text


def _listed(x: Operation, s: Spelling) -> str:
    """The shape of a new array: TensorFlow takes a number for a shape of no axes."""
    return f"[{s.size(x.shape[0])}]" if len(x.shape) == 1 else s.shape(x.shape)


def _with_types(text: str) -> str:
    """A helper of NumPy's; numbers that are chosen from have the type of the array x in graphs too."""
    for number, array in (("0.0", "tf.zeros_like(x)"), ("1.0", "tf.ones_like(x)")):
        text = text.replace(f", {number}, ", f", {array}, ")
    return text.replace("np.where(", "tf.where(").replace("np.log(", "tf.math.log(")


BACKEND = Backend(
    "tensorflow",
    "tf.",
    imports={"tf.": "import tensorflow as tf"},
    words={
        **words.SHARED,
        "constant": lambda x, s: f"tf.constant({words.numbers(x, s)}{s.created})",
        "table": _table,
        "zeros": lambda x, s: f"tf.zeros({_listed(x, s)}{s.created})",
        "ones": lambda x, s: f"tf.ones({_listed(x, s)}{s.created})",
        "identity": lambda x, s: f"tf.eye({s.size(x.parameters[0])}{s.created})",
        "triangle": lambda x, s: "tf.linalg.band_part(tf.ones([{0}, {0}]{1}), -1, 0)".format(
            s.size(x.parameters[0]), s.created
        ),
        "range": lambda x, s: f"tf.range({s.size(x.parameters[0])}{s.integers})",
        "transpose": "tf.transpose({0})",
        "swap": "tf.linalg.matrix_transpose({0})",
        "permute": lambda x, s: f"tf.transpose({{0}}, ({', '.join(map(str, x.parameters))}))",
        "expand": _expand,
        "reshape": lambda x, s: f"tf.reshape({{0}}, [{s.sizes(x.parameters)}])",
        "broadcast": lambda x, s: f"repeated({{0}}, {_listed(x, s)})",
        "diagonal": lambda x, s: _diagonal(x, s, "diagonal({0})"),
        "array": lambda x, s: f"tf.constant({{0}}{s.created})",
        "full": lambda x, s: f"filled({s.shape(x.shape)}, {{0}}{s.created})",
        "repeat": lambda x, s: f"repeated({{0}}, {_listed(x, s)})",
        "contiguous": "({0})",
        "integers": "tf.cast({0}, tf.int64)",
        "diagonal_matrix": "diagonal({0})",
        "take": _take,
        "concatenate": lambda x, s: f"tf.concat([{slots(x)}], axis={x.parameters[0]})",
        "power": lambda x, s: "tf.square({0})" if x.parameters[0] == 2 and not is_number(x) else words.power(x, s),
        "sum": lambda x, s: f"tf.reduce_sum({{0}}{f', axis={words.axes_text(x.parameters)}' if x.parameters else ''})",
        "trace": lambda x, s: _diagonal(x, s, "tf.linalg.trace({0})"),
        "matmul": "matmul({0}, {1})",
        "outer": "tf.tensordot({0}, {1}, 0)",
        "inner": "tf.reduce_sum(tf.multiply({0}, {1}))",
        "einsum": lambda x, s: f'tf.einsum("{x.parameters[0]}", {slots(x)})',
        "solve": lambda x, s: words.solve(x, "solved({0}, {1})"),
    },
    functions={
        **words.HELPED,
        "sqrt": "tf.math.sqrt({0})",
        "equal": "tf.cast(tf.equal({0}, {1}), DTYPE)",
        "where_greater": "tf.where({0} > {1}, tf.convert_to_tensor({2}, DTYPE), tf.convert_to_tensor({3}, DTYPE))",
        "where_at_least": "tf.where({0} >= {1}, tf.convert_to_tensor({2}, DTYPE), tf.convert_to_tensor({3}, DTYPE))",
        "max": words.reduction("tf.reduce_max"),
        "prod": words.reduction("tf.reduce_prod"),
        "svd": "svd({0})",
        "softmax": words.reduction("tf.nn.softmax"),
    },
    names={"inf": 'float("inf")', "nan": 'float("nan")'},
    broadcasts=5,
    copied="tf.identity({0})",
    helpers={
        "gram": '''
def gram(X, d):
    """X.T @ diag(d) @ X, of which the block below the diagonal is mirrored: three quarters of the work."""
    half = X.shape[1] // 2
    Z = d[:, None] * X
    top = tf.matmul(X[:, :half], Z, transpose_a=True)
    bottom = tf.concat([tf.transpose(top[:, half:]), tf.matmul(X[:, half:], Z[:, half:], transpose_a=True)], 1)
    return tf.concat([top, bottom], 0)
''',
        "matmul": '''
def matmul(A, B):
    """A @ B; both may be vectors."""
    if len(A.shape) == 1:
        return tf.tensordot(A, B, 1) if len(B.shape) == 1 else tf.linalg.matvec(B, A, transpose_a=True)
    return tf.linalg.matvec(A, B) if len(B.shape) == 1 else tf.matmul(A, B)
''',
        "gathered": '''
def gathered(x, axis, *index):
    """The entries of an array at some places along axes that follow each other."""
    sizes, places = tf.shape(x, out_type=tf.int64), tf.zeros([], tf.int64)
    for k, i in enumerate(index, axis):
        places = places * sizes[k] + tf.cast(i, tf.int64)
    merged = tf.concat([sizes[:axis], [-1], sizes[axis + len(index) :]], 0)
    return tf.gather(tf.reshape(x, merged), places, axis=axis)
''',
        "diagonals": '''
def diagonals(x, subscripts):
    """Diagonals along axes whose subscripts are repeated, and sums over those that the result does not have."""
    letters, result = subscripts.split("->")
    while len(set(letters)) < len(letters):
        k = next(k for k in range(len(letters)) if letters[k] in letters[:k])
        pair = [letters.index(letters[k]), k]
        rest = [axis for axis in range(len(letters)) if axis not in pair]
        x = tf.linalg.diag_part(tf.transpose(x, rest + pair))
        letters = "".join([letters[axis] for axis in [*rest, k]])
    x = tf.reduce_sum(x, axis=[axis for axis in range(len(letters)) if letters[axis] not in result])
    letters = [letter for letter in letters if letter in result]
    return tf.transpose(x, [letters.index(letter) for letter in result])
''',
        "put": '''
def put(shape, index, value, dtype, base=0):
    """Zeros, or a base, with a value added at some places."""
    sizes = shape if isinstance(shape, tuple) else (shape,)
    places, step, seen = tf.zeros([], tf.int64), 1, 0  # counted through all entries
    for n, i in zip(sizes[::-1], index[::-1]):
        if isinstance(i, slice):
            i = tf.reshape(tf.range(n, dtype=tf.int64)[i], [-1] + [1] * seen)
            seen += 1
        places, step = places + step * i, step * n
    value = tf.convert_to_tensor(value, dtype)
    value = tf.reshape(value, [1] * (len(places.shape) - len(value.shape)) + value.shape.as_list())
    for axis, n in enumerate(places.shape):  # TensorFlow itself repeats along a few axes only
        value = value if value.shape[axis] == n else tf.gather(value, tf.zeros(n, tf.int64), axis=axis)
    return tf.reshape(tf.math.unsorted_segment_sum(value, places, step), sizes) + tf.cast(base, dtype)
''',
        "repeated": '''
def repeated(x, shape):
    """An array with axes repeated; TensorFlow itself does that along a few of them only."""
    x = tf.reshape(x, [1] * (len(shape) - len(x.shape)) + x.shape.as_list())
    for axis, n in enumerate(shape):
        x = x if x.shape[axis] == n else tf.gather(x, tf.zeros(n, tf.int64), axis=axis)
    return x
''',
        "filled": '''
def filled(sizes, value, dtype):
    """An array with one value everywhere."""
    return tf.fill(sizes if isinstance(sizes, tuple) else [sizes], tf.convert_to_tensor(value, dtype))
''',
        "spread": '''
def spread(function, *arrays):
    """A function of arrays that are repeated along more axes than TensorFlow does by itself."""
    shape = tf.TensorShape([])
    for x in arrays:
        shape = tf.broadcast_static_shape(shape, tf.TensorShape(getattr(x, "shape", [])))
    repeated = []
    for x in arrays:
        sizes = [1] * (len(shape) - len(x.shape)) + x.shape.as_list() if tf.is_tensor(x) else []
        for axis in range(len(sizes)):
            if sizes[axis] != shape[axis]:
                after = tf.TensorShape(sizes[axis + 1 :]).num_elements()
                x = tf.tile(tf.reshape(x, [-1, 1, after]), [1, shape[axis], 1])
                sizes[axis] = shape[axis]
        repeated.append(tf.reshape(x, sizes) if sizes else x)
    return function(*repeated)
''',
        "diagonal": '''
def diagonal(x):
    """The diagonal of a matrix, or a matrix with this diagonal."""
    return tf.linalg.diag(x) if len(x.shape) == 1 else tf.linalg.diag_part(x)
''',
        "balanced": '''
def balanced(x, axis, other):
    """x with what the entries beside the diagonal of two axes add up to along the first one, negative, on it."""
    n, ndim = x.shape[axis], len(x.shape)
    first, second = ([n if k == place else 1 for k in range(ndim)] for place in (axis, other))
    is_on = tf.reshape(tf.range(n), first) == tf.reshape(tf.range(n), second)
    beside = tf.where(is_on, tf.zeros_like(x), x)
    return tf.where(is_on, -tf.reduce_sum(beside, axis, keepdims=True), beside)
''',
        "solve_triangular": '''
def solve_triangular(A, b, lower):
    """The solution of a triangular system for a vector or a matrix."""
    columns = b[:, None] if len(b.shape) == 1 else b
    return tf.reshape(tf.linalg.triangular_solve(A, columns, lower=lower), b.shape)
''',
        "solved": '''
def solved(A, b):
    """The solution of A x = b, for a vector or a matrix."""
    return tf.linalg.solve(A, b[:, None])[:, 0] if len(b.shape) == 1 else tf.linalg.solve(A, b)
''',
        "svd": '''
def svd(A):
    """Left singular vectors, singular values, and right singular vectors as rows."""
    values, left, right = tf.linalg.svd(A)
    return left, values, tf.linalg.matrix_transpose(right)
''',
        "logsumexp": '''
def logsumexp(x, axis=-1):
    """log(sum(exp(x))) along an axis, without overflow."""
    return tf.reduce_logsumexp(x, axis)
''',
        "log_weighted_sum": '''
def log_weighted_sum(x, weights):
    """log(sum(weights * exp(x))) along the last axis, without overflow."""
    x = tf.where(tf.equal(weights, 0), tf.constant(float("-inf"), x.dtype), x)
    top = tf.reduce_max(x, axis=-1, keepdims=True)
    top = tf.where(tf.math.is_finite(top), top, tf.zeros_like(top))
    return tf.math.log(tf.reduce_sum(weights * tf.exp(x - top), axis=-1)) + top[..., 0]
''',
        "weighted_softmax": '''
def weighted_softmax(x, weights):
    """weights * exp(x) over their sum along the last axis, without overflow."""
    x = tf.where(tf.equal(weights, 0), tf.constant(float("-inf"), x.dtype), x)
    top = tf.reduce_max(x, axis=-1, keepdims=True)
    entries = weights * tf.exp(x - tf.where(tf.math.is_finite(top), top, tf.zeros_like(top)))
    total = tf.reduce_sum(entries, axis=-1, keepdims=True)
    return entries / tf.where(total > 0, total, tf.constant(float("nan"), x.dtype))
''',
        "norm": '''
def norm(x, total, axes):
    """The root of the total of the squares of x along some axes, where the squares may be out of range."""
    if 0 in x.shape:
        return tf.sqrt(total)
    top = tf.reduce_max(tf.abs(x), axes, keepdims=True)
    top = tf.where(tf.equal(top, 0) | ~tf.math.is_finite(top), tf.ones_like(top), top)
    return tf.sqrt(tf.reduce_sum(tf.square(x / top), axes)) * tf.reshape(top, total.shape)
''',
        "norm_of_several": '''
def norm_of_several(total, parts):
    """The root of the total of squares of parts, summed along so many last axes; these may be out of range."""
    parts = [(x if hasattr(x, "shape") else x * tf.ones_like(total), list(range(-count, 0))) for x, count in parts]
    parts = [(x, axes) for x, axes in parts if 0 not in x.shape]
    top = tf.zeros_like(total)
    for x, axes in parts:
        top = tf.maximum(top, tf.reduce_max(tf.abs(x), axes))
    top = tf.where(tf.equal(top, 0) | ~tf.math.is_finite(top), tf.ones_like(top), top)
    squares = [tf.square(x / tf.reshape(top, top.shape + [1] * len(axes))) for x, axes in parts]
    return tf.sqrt(sum([tf.reduce_sum(x, axes) for x, (_, axes) in zip(squares, parts)])) * top
''',
        "inverse_power": '''
def inverse_power(x, n):
    """x**-n; not a number where x is one but its power is out of range."""
    result = x ** float(-n)
    lost = (x > 0) & tf.math.is_finite(x) & (tf.equal(result, 0) | tf.math.is_inf(result))
    return tf.where(lost, tf.constant(float("nan"), x.dtype), result)
''',
        "logdet": '''
def logdet(A):
    """The logarithm of the determinant, which has to be positive."""
    sign, value = tf.linalg.slogdet(A)
    return tf.where(sign > 0, value, tf.constant(float("nan"), A.dtype))
''',
        "inverse_or_zero": '''
def inverse_or_zero(x):
    """1 / x, and 0 at 0."""
    return tf.math.reciprocal_no_nan(x)
''',
        "power_derivative": _with_types(NUMPY_HELPERS["power_derivative"]),
        "argmax": '''
def argmax(x):
    """1 at the largest entry along the last axis, shared evenly by equal ones, else 0."""
    hits = tf.cast(tf.equal(x, tf.reduce_max(x, axis=-1, keepdims=True)), x.dtype)
    return hits / tf.reduce_sum(hits, axis=-1, keepdims=True)
''',
        "eigh": '''
def eigh(A):
    """Eigenvalues and eigenvectors of a symmetric matrix, NaN if it has an entry that is not finite."""
    bad = 0 * tf.reduce_sum(A, axis=(-2, -1), keepdims=True)
    values, vectors = tf.linalg.eigh(tf.where(tf.math.is_finite(bad), A, tf.zeros_like(A)))
    return values + bad[..., 0], vectors + bad
''',
        "eigvalsh": '''
def eigvalsh(A):
    """Eigenvalues of a symmetric matrix, NaN if it has an entry that is not finite."""
    bad = 0 * tf.reduce_sum(A, axis=(-2, -1), keepdims=True)
    return tf.linalg.eigvalsh(tf.where(tf.math.is_finite(bad), A, tf.zeros_like(A))) + bad[..., 0]
''',
        "gaps": '''
def gaps(x):
    """x_j - x_i for all pairs along the last axis, NaN for two that are equal up to rounding."""
    gap = x[..., None, :] - x[..., :, None]
    rounding = 8 * x.shape[-1] * (2.0**-52 if x.dtype == tf.float64 else 2.0**-23)
    tied = tf.abs(gap) <= rounding * tf.reduce_max(tf.abs(x), axis=-1)[..., None, None]
    tied = tied & ~tf.eye(x.shape[-1], dtype=tf.bool)
    return tf.where(tied, tf.constant(float("nan"), x.dtype), gap)
''',
        "simple": '''
def simple(x):
    """1 for each entry along the last axis, NaN for those that equal another one up to rounding."""
    gap = tf.abs(x[..., None, :] - x[..., :, None])
    rounding = 8 * x.shape[-1] * (2.0**-52 if x.dtype == tf.float64 else 2.0**-23)
    tied = gap <= rounding * tf.reduce_max(tf.abs(x), axis=-1)[..., None, None]
    tied = tf.reduce_any(tied & ~tf.eye(x.shape[-1], dtype=tf.bool), axis=-1)
    return tf.where(tied, tf.constant(float("nan"), x.dtype), tf.ones_like(x))
''',
        "nonzero": '''
def nonzero(x):
    """1 for each entry along the last axis, NaN for those that are 0 up to rounding."""
    rounding = 8 * x.shape[-1] * (2.0**-52 if x.dtype == tf.float64 else 2.0**-23)
    least = rounding * tf.reduce_max(tf.abs(x), axis=-1)[..., None]
    return tf.where(tf.abs(x) <= least, tf.constant(float("nan"), x.dtype), tf.ones_like(x))
''',
        "nonzero_pairs": '''
def nonzero_pairs(x):
    """1 for each pair of entries along the last axis, NaN where both are 0 up to rounding."""
    rounding = 8 * x.shape[-1] * (2.0**-52 if x.dtype == tf.float64 else 2.0**-23)
    least = rounding * tf.reduce_max(tf.abs(x), axis=-1)[..., None, None]
    size = tf.abs(x)[..., None, :] + tf.abs(x)[..., :, None]
    return tf.where(size <= least, tf.constant(float("nan"), x.dtype), tf.ones_like(size))
''',
        "products_without": '''
def products_without(x, count):
    """Products along the last axis without the entries i1, ..., i_count, which become axes; 0 where two are equal."""
    n = x.shape[-1]
    if count > 1:
        same = tf.equal(tf.range(n)[:, None], tf.range(n))
        found = products_without(tf.where(same, tf.ones([], x.dtype), x[..., None, :]), count - 1)
        for place in range(1, count):
            axes = [n] + [1] * (place - 1) + [n] + [1] * (count - 1 - place)
            found = tf.where(tf.reshape(same, axes), tf.zeros([], x.dtype), found)
        return found
    return tf.math.cumprod(x, -1, exclusive=True) * tf.math.cumprod(x, -1, exclusive=True, reverse=True)
''',
        "matrix_function": '''
def matrix_function(function, A, *directions):
    """The derivative of a matrix function at A in some directions (its value for none), for stacks of matrices."""
    n, block, factor = A.shape[-1], A, 1
    for E in directions:
        size = tf.reduce_sum(tf.abs(E), (-2, -1), True)  # directions of size 1: large ones cost the function digits
        size += tf.cast(tf.equal(size, 0), size.dtype)
        copies, factor = block.shape[-1] // n, factor * size
        above = tf.einsum("ab,...ij->...aibj", tf.eye(copies, dtype=A.dtype), E / size)
        above = tf.reshape(above, [*above.shape[:-4], copies * n, copies * n])
        block, above = block + tf.zeros_like(above), above + tf.zeros_like(block)
        lower = tf.concat([tf.zeros_like(block), block], -1)
        block = tf.concat([tf.concat([block, above], -1), lower], -2)
    corners = tf.reshape(function(block), [-1, *block.shape[-2:]])[:, :n, -n:]
    return tf.reshape(corners, [*block.shape[:-2], n, n]) * factor
''',
    },
)
