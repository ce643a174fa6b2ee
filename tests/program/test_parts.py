"""Programs with parts of arrays: nothing is made of which only a part is needed."""

import mpmath
import numpy as np
import pytest

import eindiff as ed


def compiled(function, *shapes, by="abc"):
    """Value and gradients of a function of NumPy arrays."""
    f = ed.symbolic(function, *shapes)
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    outputs = ed.compile([f, *(ed.gradient(f, name) for name in names if name in by)])
    return outputs, names


def variances(a, y):
    """The logarithms of variances that depend on the entry before."""
    return np.sum(np.log(np.exp(a[0]) + np.exp(a[1]) * y[:-1] ** 2))


def exact_variances(a, y):
    """The same with 60 digits: the value and the derivative by a."""
    mpmath.mp.dps = 60
    first, second = [mpmath.exp(mpmath.mpf(float(v))) for v in a]
    terms = [(first, second * mpmath.mpf(float(v)) ** 2) for v in y[:-1]]
    shares = [sum(term[k] / sum(term) for term in terms) for k in (0, 1)]
    return float(sum(mpmath.log(sum(term)) for term in terms)), [float(v) for v in shares]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("a", [(0.1, -0.2), (900.0, 905.0), (-900.0, 2.0), (-400.0, -350.0), (50.0, 20.0), (-80, -75)])
def test_a_logarithm_of_few_exponentials_is_that_of_their_sum(a, dtype):
    y = np.random.default_rng(0).normal(size=7).astype(dtype)
    y[2] = 0.0
    program, _ = compiled(variances, 2, 7, by="a")
    value, gradient = program(a=np.array(a, dtype), y=y)
    exact = exact_variances(np.array(a, dtype), y)
    rtol = 1e-12 if dtype == "float64" else 1e-5
    np.testing.assert_allclose(gradient, exact[1], rtol=rtol)
    np.testing.assert_allclose(value, exact[0], rtol=rtol)
    assert value.dtype == gradient.dtype == dtype
    assert "log_of_total(" in program.source and "zeros((" not in program.source  # no array of all terms
    assert np.isnan(program(a=np.array([np.nan, 0], dtype), y=y)[0])


def test_a_logarithm_of_exponentials_of_nothing_is_nothing():
    program, _ = compiled(variances, 2, "n", by="a")
    value, gradient = program(a=np.zeros(2), y=np.ones(1))
    assert value == 0 and not gradient.any()


def test_sums_of_one_part_are_made_of_others():
    def energy(a):
        return np.sum((a[1:, :-1] - a[:-1, :-1]) ** 2 + (a[:-1, 1:] - a[:-1, :-1]) ** 2)

    program, _ = compiled(energy, (9, 9))
    a = np.random.default_rng(0).normal(size=(9, 9))
    value, gradient = program(a=a)
    down, right = a[1:, :-1] - a[:-1, :-1], a[:-1, 1:] - a[:-1, :-1]
    expected = np.zeros((9, 9))
    expected[1:, :-1] += 2 * down
    expected[:-1, 1:] += 2 * right
    expected[:-1, :-1] -= 2 * (down + right)
    np.testing.assert_allclose(gradient, expected, rtol=1e-13)
    np.testing.assert_allclose(value, energy(a), rtol=1e-13)
    assert ed.plan([*program.exprs]).flops < 13 * 81  # a difference is computed once, and used three times


def test_what_two_sums_have_in_common_does_not_cancel():
    def f(a, b, c):
        return np.sum((a + c) ** 2) - np.sum((b + c) ** 2) + np.sum(c * (a - b))

    program, _ = compiled(f, 3, 3, 3)
    a, b, c = np.array([1.0, 2.0, 3.0]), np.array([0.5, 4.0, 1.0]), np.full(3, 1e17)
    np.testing.assert_array_equal(program(a=a, b=b, c=c)[3], 3 * (a - b))


def random_energy(seed):
    """A function of two matrices, by windows of them at random places, and their shape."""
    rng = np.random.default_rng(seed)
    rows, columns = (int(n) for n in rng.integers(5, 12, size=2))
    functions = [
        lambda z, w: z**2 + w,
        lambda z, w: np.sqrt(1 + z**2 + w**2),
        lambda z, w: np.log(z**2 + 0.1) * w,
        lambda z, w: z / (1 + w**2) - np.exp(-z),
        lambda z, w: np.tanh(z) * w**2,
    ]
    terms = []
    for _ in range(rng.integers(1, 4)):
        less = rng.integers(0, 4, size=2)  # rows and columns of the matrices that windows do not have
        starts = [[int(rng.integers(0, n + 1)) for n in less] for _ in range(rng.integers(2, 5))]
        cuts = [tuple(slice(s, s + n - d) for s, n, d in zip(at, (rows, columns), less, strict=True)) for at in starts]
        chosen = functions[rng.integers(len(functions))]
        terms.append((chosen, cuts, rng.normal(size=len(cuts))))

    def energy(u, v):
        total = 0.0
        for chosen, cuts, weights in terms:
            z = sum(c * u[cut] for c, cut in zip(weights, cuts, strict=True))
            total = total + np.sum(chosen(z, v[cuts[0]]))
        return total + (np.sum(u * v) if len(terms) > 1 else 0.0)

    return energy, (rows, columns)


@pytest.mark.parametrize("seed", range(24))
def test_windows_of_matrices_as_pieces_of_vectors(seed):
    energy, shape = random_energy(seed)
    program, _ = compiled(energy, shape, shape, by="uv")
    rng = np.random.default_rng(seed)
    u, v, du, dv = rng.normal(size=(4, *shape)).astype(np.longdouble)
    step = np.longdouble(1e-6)
    slope = (energy(u + step * du, v + step * dv) - energy(u - step * du, v - step * dv)) / (2 * step)
    given = {"u": u.astype(float), "v": v.astype(float)}
    value, *gradients = program(**given)
    np.testing.assert_allclose(value, float(energy(u, v)), rtol=1e-12)
    found = sum(np.vdot(g, d) for g, d in zip(gradients, (du, dv), strict=True))
    np.testing.assert_allclose(float(found), float(slope), rtol=1e-7, atol=1e-8)
    turned = {name: np.asfortranarray(x) for name, x in given.items()}
    stored = [np.empty(()), np.empty(shape), np.empty(shape)]
    for others in (program(**turned), program(**given, out=stored)):
        for one, other in zip((value, *gradients), others, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-13)


def test_entries_that_no_window_has_do_no_harm():
    def energy(u):
        inner = u[1:-1, 1:-1] - (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2]) / 4
        return np.sum(np.log(2 + inner**2)) + np.sum(inner**2)

    program, _ = compiled(energy, (8, 9), by="u")
    assert "u.reshape(72)" in program.source
    u = np.random.default_rng(0).normal(size=(8, 9))
    expected = program(u=u)
    for corner, wrong in (((0, 0), np.nan), ((0, 8), np.inf), ((7, 0), -np.inf), ((7, 8), np.nan)):
        u[corner] = wrong
    for one, other in zip(program(u=u), expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_what_goes_to_all_places_is_read_in_the_opposite_order():
    order = np.random.default_rng(1).permutation(8)

    def energy(a):
        around = np.roll(a, (1, -2), (0, 1))
        return np.sum(np.sin(around) * a[::-1]) + np.sum((a[order] - a) ** 2) + np.sum(np.roll(a[:, 0], 3) ** 3)

    program, _ = compiled(energy, (8, 5))
    assert "] +=" not in program.source and "] -=" not in program.source and "at(" not in program.source
    rng = np.random.default_rng(0)
    a, d = rng.normal(size=(2, 8, 5)).astype(np.longdouble)
    value, gradient = program(a=a.astype(float))
    step = np.longdouble(1e-6)
    slope = (energy(a + step * d) - energy(a - step * d)) / (2 * step)
    np.testing.assert_allclose(value, float(energy(a)), rtol=1e-13)
    np.testing.assert_allclose(float(np.vdot(gradient, d)), float(slope), rtol=1e-9)


def test_a_function_of_parts_that_overlap_is_computed_once():
    def energy(a, b):
        return np.sum(np.tanh(a[1:] + b[1:]) * np.tanh(a[:-1] + b[:-1])) + np.sum(np.exp(a[3:4]))

    program, _ = compiled(energy, 9, 9)
    assert program.source.count("np.tanh(") == 1 and program.source.count("np.exp(") == 1
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 9))
    value, by_a, by_b = program(a=a, b=b)
    t = np.tanh(a + b)
    slope = (np.append(t[1:], 0) + np.append(0, t[:-1])) * (1 - t**2)
    np.testing.assert_allclose(value, energy(a, b), rtol=1e-13)
    np.testing.assert_allclose(by_b, slope, rtol=1e-13)
    slope[3] += np.exp(a[3])
    np.testing.assert_allclose(by_a, slope, rtol=1e-13)


@pytest.mark.parametrize("k", [1, 2, 3, 7, 20])
def test_sums_of_products_in_rows(k):
    def length(a, b):
        steps = a[1:] - a[:-1]
        return np.sum(np.sqrt(np.sum(steps**2, axis=1))) + np.sum(np.tanh(np.sum(a * b, axis=1)))

    program, _ = compiled(length, (6, k), (6, k))
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 6, k))
    value, by_a, by_b = program(a=a, b=b)
    steps, slope = a[1:] - a[:-1], 1 - np.tanh(np.sum(a * b, axis=1)) ** 2
    units = steps / np.sqrt(np.sum(steps**2, axis=1))[:, None]
    expected = slope[:, None] * b
    expected[1:] += units
    expected[:-1] -= units
    np.testing.assert_allclose(value, length(a, b), rtol=1e-13)
    np.testing.assert_allclose(by_a, expected, rtol=1e-12)
    np.testing.assert_allclose(by_b, slope[:, None] * a, rtol=1e-12)
    far = program(a=1e200 * a, b=b)  # squares are out of range
    np.testing.assert_allclose(far[0], 1e200 * np.sum(np.sqrt(np.sum(steps**2, axis=1))), rtol=1e-12)


@pytest.mark.parametrize("n", [2, 5, 40])
def test_entries_beside_a_diagonal_are_a_diagonal_of_a_window(n):
    x, u = ed.vector("x", n), ed.matrix("u", 4, n)
    chain = ed.sum(ed.exp(x[1:] - x[:-1])) + ed.sum(x[: n - 1 : 2] * x[1::2][: len(range(0, n - 1, 2))])
    grid = ed.sum(ed.exp(u[1:] * u[:-1])) + ed.sum(ed.exp(u[:, 1:] * u[:, :-1]))
    for f, variable in ((chain, x), (grid, u)):
        hessian = ed.compile(ed.hessian(f, variable))
        at = np.random.default_rng(0).normal(size=tuple(variable.shape))
        found = hessian(**{variable.name: at})
        assert "[P" not in hessian.source
        expected = ed.evaluate(ed.hessian(f, variable), {variable.name: at})
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
        stored = np.empty((*found.shape, 2))[..., 0]  # with steps
        hessian(**{variable.name: at}, out=stored)
        np.testing.assert_array_equal(stored, found)
        gradient, h = ed.compile(ed.gradient(f, variable)), 1e-6
        step = np.random.default_rng(1).normal(size=at.shape)
        slope = (gradient(**{variable.name: at + h * step}) - gradient(**{variable.name: at - h * step})) / (2 * h)
        np.testing.assert_allclose(np.tensordot(found, step, at.ndim), slope, rtol=1e-6, atol=1e-6)


def test_numbers_that_are_left_of_arrays_have_axes():
    x = ed.matrix("x", 2, 3)
    z = ed.take(x, [0, 0, 0, 2], 1)
    both = ed.stack([z, ed.sum(z, 0) * z**2], 1)
    found = [ed.sum(ed.sin(both) * both)]
    for _ in range(3):
        found.append(ed.derivative(found[-1], x, mode="forward"))
    at = np.random.default_rng(0).normal(size=(2, 3))
    for value, expected in zip(ed.compile(found)(x=at), ed.evaluate(found, {"x": at}), strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-11, atol=1e-11)


PARTS = {  # operations, up to those on single entries
    "a row of a sum": ("(A*B + C)[2,:]", 2 * 30 * 40),
    "a column": ("(A*B - 2*C)[:,3]", 2 * 30 * 50),
    "some rows": ("(A*B + C)[2:9,:]", 2 * 7 * 30 * 40),
    "an entry": ("(A*B + C)[3,4]", 2 * 30),
    "a block": ("exp(A*B + C)[2:9,3:5]", 2 * 7 * 2 * 30 + 28),
    "an entry of a product with a vector": ("exp(A*x + y)[1]", 2 * 30),
    "some entries of one": ("(x'*A' - y')[2:5]", 3 * 2 * 30),
    "a column of a product with a triangle": ("(L*C + A*B)[:,1]", 2 * 30 * 50 + 2 * 50 * 50),
    "a row of a product with a band": ("exp(T*C)[4,:]", 2 * 50 * 40),
    "a row of a product with a permutation": ("(P*C - A*B)[5,:]", 2 * 30 * 40 + 2 * 50 * 40),
}


@pytest.mark.parametrize("name", PARTS)
def test_parts_of_products_are_products_of_parts(name):
    """Whatever is added to them, and however little the whole takes."""
    text, most = PARTS[name]
    declared = "A(n,m); B(m,k); C(n,k); L(n,n) lower; T(n,n) tridiagonal; P(n,n) permutation; x(m); y(n)"
    expr, sizes = ed.parse(text, declared), {"n": 50, "m": 30, "k": 40}
    assert ed.plan(expr, sizes).flops <= 1.05 * most + 200
    rng = np.random.default_rng(0)
    arrays = {v.name: rng.normal(size=[sizes[size] for size in v.shape]) for v in ed.variables(expr)}
    keep = {"L": np.tril, "T": lambda x: np.triu(np.tril(x, 1), -1), "P": lambda x: np.eye(50)[rng.permutation(50)]}
    arrays = {name: keep.get(name, np.array)(x) for name, x in arrays.items()}
    np.testing.assert_allclose(ed.compile(expr)(**arrays), ed.evaluate(expr, arrays), rtol=1e-10, atol=1e-10)
