"""JAX: jax.numpy has NumPy's words. Programs can be traced: no branch depends on values, nothing changes in place."""

from math import prod

from eindiff.program.backends.backend import Backend, Spelling, slots
from eindiff.program.backends.helpers import helpers_of
from eindiff.program.backends.words import (
    FUNCTIONS,
    NUMPY,
    inner_or_einsum,
    places,
    reduction,
    reshaped,
    summed,
    words_of,
)
from eindiff.program.operations import MOST_FACTORS, Operation, is_unit

STORED = frozenset({"input", "matmul", "gram", "solve"})  # no part of loops over entries
SLOW_SUM = 2**12  # entries of a matrix from which on the compiler has slow loops for sums of rows and columns
RUNNING = 512  # rows of a triangle of ones from which running sums take less time than a product with it


def _product(x: Operation, s: Spelling) -> str:
    """A product of matrices; with a large triangle of ones, running sums."""
    first, second = x.operands
    triangle = first.operands[0] if first.op == "transpose" else first
    size = triangle.shape[0] if triangle.op == "triangle" else 0
    if not isinstance(size, int) or size < RUNNING or not second.shape:
        return "{0} @ {1}"
    axis = max(0, len(second.shape) - 2)
    return f"lax.cumsum({{1}}, axis={axis}{', reverse=True' if triangle is not first else ''})"


def _sum(x: Operation, s: Spelling) -> str:
    """A sum; that of the rows or columns of a large matrix which is stored, as a product with ones."""
    [matrix] = x.operands
    is_stored = matrix.op in STORED or (matrix.op == "transpose" and matrix.operands[0].op in STORED)
    is_matrix = len(matrix.shape) == 2 and all(isinstance(n, int) for n in matrix.shape)
    if s.reading or not is_stored or not is_matrix or len(x.parameters) != 1 or prod(map(int, matrix.shape)) < SLOW_SUM:
        return summed(x, s)
    return f"total({{0}}, {x.parameters[0]})"


LOGSUMEXP = '''
def logsumexp(x, axis=-1):
    """log(sum(exp(x))) along an axis, without overflow."""
    return special.logsumexp(x, axis=axis)
'''



def _times(x: Operation, s: Spelling) -> str:
    """Factors; with unit matrices a choice, of which the compiler computes only what is chosen."""
    slots = [f"{{{k}}}" for k in range(len(x.operands))]
    units = [slot for slot, y in zip(slots, x.operands, strict=True) if is_unit(y)]
    others = [slot for slot in slots if slot not in units]
    if not units or not any(y.shape and not is_unit(y) for y in x.operands):  # of numbers it would have their type
        return " * ".join(slots)
    return f"jnp.where({' * '.join(units)} > 0, {' * '.join(others)}, 0.0)"


BACKEND = Backend(
    "jax",
    "jnp.",
    compiled=True,
    repeated=frozenset({"sin", "cos"}),
    fast_power=MOST_FACTORS,
    imports={
        "jnp.": "import jax.numpy as jnp",
        "lax.": "from jax import lax",
        "np.": "import numpy as np",
        "linalg.": "from jax.scipy import linalg",
        "special.": "from jax.scipy import special",
        "nn.": "from jax import nn",
        "default_backend(": "from jax import default_backend",
        "device_count(": "from jax import device_count",
    },
    words={
        **words_of("jnp."),
        "einsum": lambda x, s: inner_or_einsum(x, s, f'jnp.einsum("{x.parameters[0]}", {slots(x)})'),
        "matmul": _product,
        "sum": _sum,
        "multiply": _times,
        "diagonal_matrix": lambda x, s: f"diagonal_{x.parameters[0]}({{0}})" if x.parameters else "jnp.diag({0})",
        "table": lambda x, s: f"np.asarray({places(x, s)}){reshaped(x)}",
        "range": lambda x, s: f"np.arange({s.size(x.parameters[0])}{s.integers})",  # known while a program is traced
        "repeat": NUMPY["broadcast"],
        "contiguous": lambda x, s: f"{'apart' if x.parameters else ''}({{0}})",
        "integers": "{0}.astype(int)",
    },
    functions={
        **words_of("jnp.", FUNCTIONS),
        "equal": "jnp.equal({0}, {1}).astype(DTYPE)",
        "softmax": reduction("nn.softmax"),
    },
    names={"float64": "float", "int64": "int"},  # the widest types that are switched on
    helpers={
        **helpers_of("jnp"),
        "put": '''
def put(shape, index, value, dtype, base=0):
    """Zeros, or a base, with a value added at some places."""
    sizes = shape if isinstance(shape, tuple) else (shape,)
    is_small = np.prod(sizes) <= (2**16 if sizes[-1:] >= (16,) else 2**12)
    done = lax.optimization_barrier if len(sizes) > 4 else lambda x: x  # compilers take seconds for what moves its axes
    if is_small and not any(isinstance(x, jnp.ndarray) for x in (value, base, *index)):  # all is known
        whole = np.zeros(shape, dtype) + base
        np.add.at(whole, index, value)
        return whole
    if all(isinstance(i, (int, slice)) for i in index):
        cuts = [range(n)[i] if isinstance(i, slice) else range(n)[i:][:1] for n, i in zip(sizes, index)]
        counts = [len(cut) for cut, i in zip(cuts, index) if isinstance(i, slice)]
        if np.prod(sizes) > max(2**20, 2**6 * np.prod([len(cut) for cut in cuts])) and jnp.shape(base) == sizes:
            return done(jnp.asarray(base, dtype).at[index].add(value))  # in place, without a loop over all of it
        if jnp.shape(value) != (*map(len, cuts),):
            value = jnp.broadcast_to(value, counts).reshape([len(cut) for cut in cuts])
        value = jnp.asarray(value, dtype)
        for axis, (n, i) in enumerate(zip(sizes, index)):
            if isinstance(i, int):  # compilers take less time for a choice than for a margin
                there = np.arange(n).reshape([-1 if k == axis else 1 for k in range(len(sizes))]) == i
                value, cuts[axis] = jnp.where(there, value, 0), range(n)
        edges = [(cut.start, n - 1 - cut[-1], cut.step - 1) if cut else (n, 0, 0) for n, cut in zip(sizes, cuts)]
        return done(base + (lax.pad(value, jnp.zeros((), dtype), edges) if value.shape != sizes else value))
    if any(isinstance(i, (slice, jnp.ndarray)) for i in index):
        return done(jnp.broadcast_to(jnp.asarray(base, dtype), shape).at[index].add(value))
    index = [np.asarray(place) for place in index]
    places = np.broadcast_arrays(*index)
    if not places[0].size:
        return jnp.broadcast_to(jnp.asarray(base, dtype), shape)
    value = jnp.broadcast_to(jnp.asarray(value, dtype), places[0].shape)
    along, runs = {}, {}  # axes of the value, by those that they run along, with steps of one length
    for axis, place in enumerate(index):
        gaps = np.diff(place.ravel())
        if place.size == max(place.shape, default=0) > 1 and gaps[0] and (gaps == gaps[0]).all():
            runs[axis] = value.ndim - place.ndim + int(np.argmax(place.shape)), int(gaps[0])
            if gaps[0] > 0:
                along.setdefault(runs[axis][0], (axis, runs[axis][1]))
    first = {axis: int(index[axis].min()) for axis, _ in along.values()}
    others = [axis for axis in range(len(sizes)) if axis not in first]
    alike = {axis: (runs[axis], (runs[axis][0], -runs[axis][1])) for axis in first}  # forwards or backwards
    beside = {axis: next((k for k in first if runs.get(axis) in alike[k]), None) for axis in others}
    is_small = is_small or (others and None not in beside.values() and np.prod(sizes) <= max(2**20, 2**6 * value.size))
    if is_small and len(along) == value.ndim:  # as a choice, which becomes a part of other loops
        steps = [(i, k, step, first[k]) for i, (k, step) in sorted(along.items())]
        edges = [(a, sizes[k] - 1 - a - step * (value.shape[i] - 1), step - 1) for i, k, step, a in steps]
        value = lax.pad(value, jnp.zeros((), dtype), edges) if any(map(any, edges)) else value
        value = jnp.expand_dims(value.transpose(sorted(along, key=along.get)), others)
        alone = value.shape
        value = lax.broadcast_in_dim(value, sizes, range(len(sizes))) if others else value
        for axis in others:
            there, k = lax.broadcasted_iota(np.int32, sizes, axis), beside[axis]
            if k is None:
                wanted = np.full(alone, -1, np.int32)
                wanted[tuple([places[k] if k in first else 0 for k in range(len(sizes))])] = places[axis]
            else:
                start, since = index[axis].flat[0], lax.broadcasted_iota(np.int32, sizes, k) - np.int32(first[k])
                wanted = np.int32(start) + (since if runs[axis] == runs[k] else -since)
            value = lax.select(there == wanted, value, lax.full(sizes, 0, value.dtype))
        return done(base + value)
    flat = np.ravel_multi_index(places, sizes).ravel()
    once = len(along) == value.ndim or bool((np.diff(np.sort(flat)) != 0).all())
    whole = jnp.broadcast_to(jnp.asarray(base, dtype), shape).reshape(-1).at[flat]
    value = lax.optimization_barrier(value) if value.ndim > 4 else value  # the same for axes in another order, in a row
    return done(whole.add(value.ravel(), mode="promise_in_bounds", unique_indices=once).reshape(sizes))
''',
        "apart": '''
def apart(x):
    """An array that a processor stores as it is, and not as the transpose of another one."""
    return lax.optimization_barrier(x) if default_backend() == "cpu" else x
''',
        "diagonal_alone": '''
def diagonal_alone(x):
    """A diagonal matrix. On a processor a small one is its entries with zeros between them: a choice counts as work for
    all of these, and the library hands what is much work to another thread, which takes longer than all of it."""
    n, zero = len(x), jnp.zeros((), x.dtype)
    if n <= 16:
        is_there = np.equal.outer(np.arange(n), np.arange(n))
        return lax.select(is_there, lax.broadcast_in_dim(x, (n, n), (0,)), lax.full((n, n), zero))
    if n <= 64 and default_backend() == "cpu" and device_count() == 1:
        return lax.pad(x, zero, [(0, 0, n)]).reshape(n, n)
    return jnp.diag(x)
''',
        "diagonal_again": '''
def diagonal_again(x):
    """A diagonal matrix; the compiler does not see that it is the same as another, which it would copy."""
    rows, columns = (lax.broadcasted_iota(np.int32, (len(x), len(x)), axis) for axis in (0, 1))
    return jnp.where(columns == rows, x[:, None], 0)
''',
        "total": '''
def total(x, axis):
    """The sum of the rows or columns of a matrix, as a product: the compiler's own loop takes several times as long."""
    ones = jnp.ones(x.shape[axis], x.dtype)
    return jnp.matmul(*((x, ones) if axis else (ones, x)), precision="highest")
''',
        "products_without_one": '''
def products_without_one(x):
    """Products along the last axis without each of its entries; of few in one loop, where running ones take several."""
    n = x.shape[-1]
    if n <= 16:
        return jnp.prod(jnp.where(jnp.arange(n)[:, None] == jnp.arange(n), 1.0, x[..., None, :]), -1)
    one = jnp.ones_like(x[..., :1])
    before = jnp.cumprod(jnp.concatenate([one, x[..., :-1]], -1), -1)
    after = jnp.cumprod(jnp.concatenate([one, jnp.flip(x, (-1,))[..., :-1]], -1), -1)
    return before * jnp.flip(after, (-1,))
''',
        "once": '''
def once(x):
    """Values between -1 and 1 as they are. The compiler computes sines anew for each entry, but remainders once."""
    return lax.rem(x, jnp.full_like(x, 2))
''',
        "together": '''
def together(x):
    """Values as they are: quotients are computed before they are used, with all that is in them; the compiler does not
    see that this one is by 1."""
    is_positive = x > 0
    return x / (is_positive | ~is_positive).astype(x.dtype)
''',
        "stored": '''
def stored(x):
    """Values as they are, which a processor computes before they are used at several places."""
    is_positive = x > 0
    return x / (is_positive | ~is_positive).astype(x.dtype) if default_backend() == "cpu" else x
''',
        "logsumexp": LOGSUMEXP,
    },
)
