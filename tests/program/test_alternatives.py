"""Equal forms of expressions: the cheapest one for the sizes is taken, and all have the same values."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import eindiff as ed
from eindiff.core import sizes as sz
from eindiff.planning.alternatives import alternatives

DECLARED = (
    "A(n,n); B(n,n) psd; C(n,n) psd; D(n,n); H(m,n); K(m,n); R(m,m) psd; T(m,m); S(n,m); x(n); y(m); w(n) positive;"
    "v(n); c; e; g positive; Q(n,n) orthogonal"
)
WIDE = {"n": 600, "m": 40}

CASES = {
    "sum of two products": ("A*D + A*B", 2 * 600**3 + 600**2),
    "sum of chains": ("A*B*D*x + A*B*x + A*x", 6 * 600**2),
    "sum of chains with a thin matrix": ("A*D*S + A*B*S + A*S", 4 * 600**2 * 40 + 600**2),
    "sum of chains that end alike": ("x'*D*B*A - x'*B*A + v'*A", 6 * 600**2),
    "a long chain": ("A*D*A'*D*D*A*A*D'*A*D*S", 20 * 600**2 * 40),
    "a long chain around a matrix": ("H*A*D*A*D'*B*D*A'*D'*A'*H'", 10 * 600**2 * 40 + 2 * 600 * 40**2),
    "a long chain and its transpose": ("H*A*D*A*D'*A*A'*D*A'*D'*A'*H'", 10 * 600**2 * 40 + 2 * 600 * 40**2),
    "a long chain and its transpose, by a name": ("Z = A*D*A'*D*A*S*H; Z*Z'", 10 * 600**2 * 40 + 4 * 600**2 * 40),
    "a long chain with a thin product within": ("A*D*A*S*H*D'*A*D*A*D", 16 * 600**2 * 40 + 2 * 600**2 * 40),
    "product of a difference": ("(A - H'*H)*x", 2 * 600**2 + 4 * 600 * 40 + 600),
    "product of a matrix and an outer product": ("(A - 2*x*v')*w", 2 * 600**2 + 10 * 600),
    "product of several and a difference": ("w'*S*H*(A - H'*H)*(eye(n) - S*K)*x", 2 * 600**2 + 16 * 600 * 40),
    "product of such a product": ("A'*(D + x*v')*w", 4 * 600**2 + 10 * 600),
    "product of two such": ("(A + x*x')*(A + x*x')*v", 4 * 600**2 + 20 * 600),
    "Kronecker product": ("inv(kron(T,R))*vec(T)", 10 * 40**3),
    "push-through": ("inv(inv(B) + H'*inv(R)*H)*H'*inv(R)*y", 4 * 600**2 * 40),
    "push-through of a ridge": ("inv(H'*H + c*eye(n))*H'*y", 4 * 40**2 * 600),
    "push-through, other side": ("x'*inv(H'*H + c*eye(n))*H'*y", 4 * 40**2 * 600),
    "Woodbury": ("inv(H'*H + c*eye(n))*x", 4 * 40**2 * 600),
    "Woodbury, diagonal": ("inv(H'*H + diag(w))*x", 4 * 40**2 * 600),
    "Woodbury, bounded diagonal": ("inv(H'*H + c*diag(1 + sigmoid(v)))*x", 4 * 40**2 * 600),
    "Woodbury, a function on the diagonal": ("inv(H'*H + c*diag(exp(v)))*x", 4 * 40**2 * 600),
    "Woodbury, another matrix within": ("inv(H'*T*K + c*eye(n))*x", 8 * 40**2 * 600),
    "Woodbury, scaled": ("inv(e*H'*H - c*eye(n))*x", 4 * 40**2 * 600),
    "Woodbury of a product of inverses": ("inv(inv(A)*inv(D) + S*R*S')*x", 4 * 600**2 * 40 + 12 * 600**2),
    "Woodbury of an inverse": ("inv(H'*inv(R)*H + inv(B))*x", 4 * 600**2 * 40),
    "Woodbury, any diagonal": ("inv(H'*H + diag(v))*x", 4 * 40**2 * 600),
    "Woodbury, a sum of diagonals": ("inv(H'*H + diag(w) + g*eye(n))*x", 4 * 40**2 * 600),
    "Woodbury, orthogonal": ("inv(Q + S*H)*x", 2 * 600**2 * 40 + 8 * 40**2 * 600),
    "Sherman and Morrison": ("inv(diag(w) + 2*c*x*v')*x", 20 * 600),
    "Sherman and Morrison, a product": ("inv(g*eye(n) - (A*x)*v')*x", 3 * 600**2),
    "both or none": ("x'*inv(diag(w) + S*S')*v + sum(inv(diag(w) + S*S')*A*x)", 4 * 40**2 * 600),
    "two outer products": ("inv(g*eye(n) - x*x' - 2*v*v')*w", 40 * 600),
    "a square beside another": ("inv(diag(w) + 3*H'*H + x*x')*v", 5 * 40**2 * 600),
    "determinant of two squares": ("logdet(diag(w) + 3*H'*H + x*x')", 5 * 40**2 * 600),
    "two inverses": ("inv(inv(B) + 2*inv(C))*x", 0.9 * 600**3),
    "two inverses beside each of them": ("inv(inv(B) + inv(C))*(inv(B)*x + inv(C)*v)", 600**3 / 3 + 8 * 600**2),
    "two multiples beside each of them": (
        "inv(2*inv(B) + g*inv(D))*(2*inv(B)*S + inv(D)*H')",
        2 * 600**3 / 3 + 8 * 600**2 * 40,
    ),
    "an inverse and a diagonal": ("x'*inv(3*inv(B) + diag(v))*v", 0.9 * 600**3),
    "determinant of two inverses": ("logdet(inv(B) + inv(C))", 1.4 * 600**3),
    "determinant": ("logdet(H'*H + g*eye(n))", 3 * 40**2 * 600),
    "determinant, diagonal": ("logdet(diag(w) - H'*H/9)", 3 * 40**2 * 600),
    "determinant, negative": ("logabsdet(3*H'*K - diag(w))", 4 * 40**2 * 600),
    "determinant, another matrix within": ("logdet(2*H'*inv(R)*H + diag(w))", 4 * 40**2 * 600),
    "determinant, one column": ("logdet(diag(w) + g*x*x') + logabsdet(diag(w) - v*x')", 20 * 600),
    "determinant of an inverse": ("logdet(inv(B) + S*R*S') + logdet(B)", 1.5 * 600**3),
    "determinant beside a system": ("x'*inv(H'*H + g*eye(n))*x + logdet(H'*H + g*eye(n))", 4 * 40**2 * 600),
    "determinant whose factors may be negative": (
        "logdet(H'*H + c*eye(n)) + logdet(e*H'*T*T'*H + g*eye(n))", 8 * 40**2 * 600,
    ),
    "determinant, no logarithm": ("det(eye(n) + S*H)", 3 * 40**2 * 600),
    "determinant, one column, no logarithm": ("det(eye(n) - x*v') + det(diag(w) + x*v')", 20 * 600),
    "determinant, any diagonal, no logarithm": ("det(diag(v)/3 - H'*R*H)", 4 * 40**2 * 600),
    "weights within": ("inv(H'*diag(exp(y))*H + diag(w))*x", 2 * 40**2 * 600),
    "weights of any sign within": ("inv(H'*diag(y)*H + g*eye(n))*x", 3 * 40**2 * 600),
    "weights without": ("inv(diag(v)*S*S'*diag(v) + g*eye(n))*x", 2 * 40**2 * 600),
    "determinant with weights": ("logdet(S*diag(y.^2)*R*diag(y.^2)*S' + diag(w))", 2 * 40**2 * 600 + 8 * 40**3),
    "several changes": (
        "A - (A*B - eye(n))*S*inv(S'*B*C*B*S)*S'*B*C - (A*B*S*inv(S'*B*C*B*S)*S'*B*C)'"
        " + C*B*S*inv(S'*B*C*B*S)*S'*(B*A*B - B)*S*inv(S'*B*C*B*S)*S'*B*C",
        11 * 600**2 * 40,
    ),
    "a matrix between projections": ("(eye(n) - c*x*v')*A*(eye(n) - c*v*x')*w + c*x*x'*w", 2 * 600**2),
    "a symmetric one between two": ("(eye(n) - c*x*v')*B*(eye(n) - c*v*x')*w + c*x*x'*w", 2 * 600**2),
    "products in sums and in numbers": ("A*x*(v'*w) + c*A*v - w*(x'*A*v)", 4 * 600**2),
    "the large side": ("inv(H*H' + c*eye(m))*y", 2 * 40**2 * 600 + 40**3),
}


def _arrays(sizes: dict[str, int], seed: int) -> dict[str, np.ndarray]:
    rng, n, m = np.random.default_rng(seed), sizes["n"], sizes["m"]
    arrays = {name: rng.normal(size=(n, n)) / np.sqrt(n) for name in "AD"}
    for name, size in {"B": n, "C": n, "R": m}.items():
        half = rng.normal(size=(size, size)) / np.sqrt(size)
        arrays[name] = half @ half.T + np.eye(size)
    arrays |= {name: rng.normal(size=(m, n)) / np.sqrt(n) for name in "HK"} | {"T": rng.normal(size=(m, m))}
    arrays["S"] = rng.normal(size=(n, m)) / np.sqrt(n)
    arrays |= {"x": rng.normal(size=n), "y": rng.normal(size=m), "w": rng.uniform(0.5, 2, n)}
    arrays |= {"v": rng.normal(size=n) + 3, "Q": np.linalg.qr(rng.normal(size=(n, n)))[0]}
    return arrays | {"c": np.array(rng.uniform(1, 2)), "g": np.array(3.0), "e": np.array(-rng.uniform(0.5, 1))}


@pytest.mark.parametrize("name", CASES)
def test_the_cheapest_form_is_taken(name: str) -> None:
    text, most = CASES[name]
    expr = ed.parse(text, DECLARED)
    assert ed.plan(expr, WIDE).flops <= 1.2 * most
    arrays = {v.name: x for v in ed.variables(expr) for x in [_arrays(WIDE, 0)[v.name]]}
    expected = ed.evaluate(expr, arrays)
    np.testing.assert_allclose(ed.compile(expr)(**arrays), expected, rtol=1e-8, atol=1e-9 * np.abs(expected).max())


BESIDE_DERIVATIVES = {
    "a sum that all are multiplied with": ("sum(((D + S*H)*x).^2)", "x", 4 * 600**2 + 20 * 600 * 40),
    "systems with several": (
        "norm2(inv(S'*inv(H'*T*T'*H + diag(w))*S)*S'*inv(H'*T*T'*H + diag(w))*x)^2", "w", 20 * 40**2 * 600,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BESIDE_DERIVATIVES)
def test_a_function_beside_its_gradient_has_the_cheapest_form(name: str) -> None:
    """Where a change pays only for all uses of a sum at once, or another way to share parts is better before it."""
    text, by, most = BESIDE_DERIVATIVES[name]
    f = ed.parse(text, DECLARED)
    variables = {v.name: v for v in ed.variables(f)}
    both = [f, ed.gradient(f, variables[by])]
    assert ed.plan(both, WIDE).flops <= most
    arrays = {name: _arrays(WIDE, 0)[name] for name in variables}
    for found, expected in zip(ed.compile(both)(**arrays), ed.evaluate(both, arrays), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize("text", ["S'*(D*A - A*D)", "S'*(D*A - A*D)*B"])
def test_a_product_beside_its_own_product_with_a_vector_has_the_cheapest_form(text: str) -> None:
    """Both are multiplied out, or none: else the sum is formed all the same."""
    product = ed.parse(text, DECLARED)
    alone = ed.plan(product, WIDE).flops
    both = [product, product @ ed.vector("x", "n"), product @ ed.diag(ed.vector("x", "n"))]
    assert ed.plan(both, WIDE).flops <= alone + 12 * 600**2


def test_a_sum_of_a_band_and_its_inverse_has_a_plan() -> None:
    """Their products with a vector have it in common again."""
    total = ed.parse("((inv(T)' + T')*S*H)[1,:]", "T(n,n) tridiagonal; S(n,m); H(m,n)")
    assert ed.plan(total, WIDE).flops <= 20 * 600 * 40 + 600**2


def test_a_sum_beside_an_inverse_is_one_system() -> None:
    """Cayley's transform is no difference of `inv(I + A)`, which would have to be formed, and `inv(I + A) A`."""
    A, n = ed.matrix("A", "n", "n"), 300
    assert ed.plan(ed.inv(ed.eye("n") + A) @ (ed.eye("n") - A), {"n": n}).flops <= 2.7 * n**3


@pytest.mark.parametrize("name", CASES)
def test_all_forms_have_the_same_value(name: str) -> None:
    expr = ed.parse(CASES[name][0], DECLARED)
    sizes = {"n": 7, "m": 3}
    arrays = {v.name: x for v in ed.variables(expr) for x in [_arrays(sizes, 1)[v.name]]}
    expected = ed.evaluate(expr, arrays)
    for [other] in alternatives([expr], lambda size: sz.evaluate(size, sizes), True):
        np.testing.assert_allclose(ed.evaluate(other, arrays), expected, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("text", ["inv(H'*T*H + c*eye(n))*x", "inv(e*H'*H + c*eye(n))*x", "inv(H'*H + diag(v))*x"])
def test_nothing_is_inverted_that_was_not(text: str) -> None:
    """A matrix within, a factor or a part of a diagonal may be 0."""
    expr = ed.parse(text, DECLARED)
    arrays = _arrays(WIDE, 2) | {"T": np.zeros((40, 40)), "e": np.array(0.0)}
    arrays["v"] = np.where(np.arange(600) < 10, 0.0, 1.0)
    given = {v.name: arrays[v.name] for v in ed.variables(expr)}
    np.testing.assert_allclose(ed.compile(expr)(**given), ed.evaluate(expr, given), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("factor", ["", "2*"])
def test_signs_and_factors_leave_products_that_are_there(factor: str) -> None:
    """S' A is computed once, whether or not a multiple of what it is part of is subtracted."""
    texts = ["S*inv(S'*A*W*A'*S)*S'", f"X + {factor}W*A'*S*inv(S'*A*W*A'*S)*S'*(eye(n) - A*X)"]
    plan = ed.plan([ed.parse(text, "A(n,n); W(n,n) psd; X(n,n); S(n,m)") for text in texts], {"n": 1250, "m": 125})
    assert plan.flops <= 10 * 1250**2 * 125


@pytest.mark.parametrize("text", ["det(c*eye(n) + S*H)", "det(diag(v) + S*H)", "det(g*eye(n) + diag(v) + x*x')"])
def test_determinants_are_zero_where_the_sum_is_singular(text: str) -> None:
    expr, arrays = ed.parse(text, DECLARED), _arrays(WIDE, 2) | {"c": np.array(0.0)}
    arrays["v"] = np.where(np.arange(600) < 50, -3.0 if "g*" in text else 0.0, 1.0)
    assert abs(ed.compile(expr)(**{v.name: arrays[v.name] for v in ed.variables(expr)})) < 1e-100


def test_determinants_are_products_of_numbers_that_are_too_large_and_too_small() -> None:
    expr, n = ed.parse("det(g*eye(n) + H'*H)", "H(m,n); g positive"), 300
    H = np.zeros((20, n))
    H[np.arange(20), np.arange(20)] = 1e8
    g = np.array(1e-1)  # 280 of which make 1e-280
    found = ed.compile(expr)(H=H * np.sqrt(10), g=g)
    assert found == pytest.approx(1e60, rel=1e-10)
    assert ed.plan(expr, {"n": n, "m": 20}).flops < 4 * 20**2 * n


def test_squares_in_longer_products_take_half() -> None:
    S, R, w = ed.matrix("S", "n", "m"), ed.matrix("R", "m", "m"), ed.vector("w", "n")
    n, m = 600, 100
    plan = ed.plan(R @ S.T @ ed.diag(w) @ S @ R, {"n": n, "m": m})
    assert plan.flops < 1.05 * (n * m * m + n * m + 4 * m**3)
    arrays = {"S": np.random.default_rng(0).normal(size=(n, m)), "R": np.eye(m) * 2 + np.eye(m, k=1)}
    arrays["w"] = np.random.default_rng(1).normal(size=n)
    expected = arrays["R"] @ arrays["S"].T @ np.diag(arrays["w"]) @ arrays["S"] @ arrays["R"]
    np.testing.assert_allclose(ed.compile(R @ S.T @ ed.diag(w) @ S @ R)(**arrays), expected, rtol=1e-10, atol=1e-9)


def test_small_programs_are_not_looked_at_again() -> None:
    assert "H.T.dot(H)" in ed.plan(ed.parse("inv(H'*H + c*eye(n))*x", DECLARED), {"n": 5, "m": 2}).source


def test_conditions_are_not_multiplied() -> None:
    """`inv(c I + X' inv(K) inv(K) X)` takes factors of K, and not of its square."""
    K, X, v = ed.symmetric("K", "m", "psd"), ed.matrix("X", "m", "n"), ed.vector("v", "n")
    expr = ed.inv(X.T @ ed.inv(K) @ ed.inv(K) @ X + ed.scalar("c", "positive") * ed.eye("n")) @ v
    rng = np.random.default_rng(3)
    Q = np.linalg.qr(rng.normal(size=(60, 60)))[0]
    arrays = {"K": (Q * np.geomspace(1, 1e6, 60)) @ Q.T, "X": rng.normal(size=(60, 400)), "c": np.array(2.0)}
    arrays |= {"v": rng.normal(size=400)}
    arrays["K"] = (arrays["K"] + arrays["K"].T) / 2
    Z = np.linalg.solve(arrays["K"], arrays["X"])
    expected = np.linalg.solve(Z.T @ Z + 2 * np.eye(400), arrays["v"])
    f = ed.compile(expr)
    np.testing.assert_allclose(f(**arrays), expected, rtol=1e-10, atol=1e-11 * np.abs(expected).max())
    assert "eye(n)" not in f.source


@pytest.mark.parametrize("text", ["inv(H'*H + diag(w))*x", "inv(H'*H + diag(w))*H'*y", "x'*inv(H'*H + diag(w))"])
def test_no_digits_are_lost_where_a_diagonal_has_small_entries(text: str) -> None:
    """As regularizations have that leave out some parameters: the system is well-conditioned all the same. Another
    program solves it."""
    expr, arrays = ed.parse(text, DECLARED), _arrays(WIDE, 3)
    arrays["H"] = 10 * arrays["H"]
    f, out = ed.compile(expr), np.empty(600)
    for small in (0.1, 1e-14, 0.5):
        arrays["w"] = np.where(np.arange(600) < 5, small, 1.0)
        given = {v.name: arrays[v.name] for v in ed.variables(expr)}
        right = arrays["H"].T @ arrays["y"] if "y" in given else arrays["x"]
        expected = np.linalg.solve(arrays["H"].T @ arrays["H"] + np.diag(arrays["w"]), right)
        for found in (f(**given), f(**given, out=out), pickle.loads(pickle.dumps(f))(**given)):
            np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10 * np.abs(expected).max())
    assert "alike(w)" in f.plan(WIDE).source
    assert "alike(w)" not in ed.to_source(expr, sizes=WIDE)


@pytest.mark.parametrize("text", ["u", "3*u", "H'*y"])
def test_a_vector_is_pushed_through_the_inverse_of_its_outer_product(text: str) -> None:
    """`inv(I + u u') u = u / (1 + u'u)`, which loses no digits, as `u - u (u'u) / (1 + u'u)` would."""
    u = ed.parse(text, "u(300); H(20,300); y(20)")
    rng = np.random.default_rng(1)
    values = {"u": 1e5 * rng.normal(size=300), "H": 1e4 * rng.normal(size=(20, 300)), "y": rng.normal(size=20)}
    expr = 2 * ed.solve(ed.eye(300) + ed.outer(u, u), u)
    vector = {"u": values["u"], "3*u": 3 * values["u"], "H'*y": values["H"].T @ values["y"]}[text]
    found = ed.compile(expr)(**{v.name: values[v.name] for v in ed.variables(expr)})
    np.testing.assert_allclose(found, 2 * vector / (1 + vector @ vector), rtol=1e-12)


@pytest.mark.parametrize("text", ["x'*inv(G)*inv(G)*x", "y'*H*inv(G)*inv(G)*H'*y", "sum((inv(G)*H'*y).^2)"])
@pytest.mark.parametrize("base", ["g*eye(n)", "diag(w)"])
def test_no_more_digits_are_lost_than_the_condition_has(text: str, base: str) -> None:
    """Also in derivatives, with powers of an inverse, and where what is solved for lies in the range of H'."""
    loss = ed.parse(text.replace("G", f"H'*H + {base}"), DECLARED)
    arrays = _arrays({"n": 300, "m": 12}, 4) | {"g": np.array(1e-4), "w": np.full(300, 1e-4)}
    by = "w" if "w" in base else "g"
    given = {v.name: arrays[v.name] for v in ed.variables(loss)}
    found = ed.compile([loss, ed.gradient(loss, by)])(**given)
    U, s, V = np.linalg.svd(arrays["H"])
    squares = np.concatenate([s**2, np.zeros(288)]) + 1e-4
    right = np.concatenate([s * (U.T @ arrays["y"]), np.zeros(288)]) if "y" in text else V @ arrays["x"]
    entries = right / squares
    by_entry = -2 * (V.T @ entries) * (V.T @ (entries / squares))
    expected = [entries @ entries, by_entry.sum() if by == "g" else by_entry]
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, y, atol=1e-10 * np.abs(y).max())


@pytest.mark.parametrize("text", ["norm2(A*x - b)^2", "sum(w.*(A*x - b).^2)", "norm2(A*x - b)^2 + c*norm2(x)^2"])
def test_gradients_of_small_residuals_beside_hessians(text: str) -> None:
    """A'A is there, but `(A'A) x - A'b` would be a small difference of large vectors."""
    loss = ed.parse(text, "A(m,n); x(n); b(m); w(m); c")
    m, n, rng = 20000, 20, np.random.default_rng(4)
    A, x, w, residual = rng.normal(size=(m, n)), rng.normal(size=n), rng.uniform(1, 2, m), 1e-8 * rng.normal(size=m)
    arrays = {"A": A, "x": x, "b": A @ x - residual, "w": w, "c": np.array(0.0)}
    given = {v.name: arrays[v.name] for v in ed.variables(loss)}
    found = ed.compile([ed.gradient(loss, "x"), ed.hessian(loss, "x")])(**given)[0]
    expected = 2 * A.T @ ((w if "w" in given else 1) * (A @ x - arrays["b"]))
    np.testing.assert_allclose(found, expected, atol=1e-6 * np.abs(expected).max())


def test_differences_of_points_stay_together() -> None:
    """Points far from the origin, most pairs of which are so far from each other that they hardly count."""
    B = ed.matrix("B", "m", "k")
    energy = ed.sum(ed.exp(-ed.sum((B[:, None, :] - B[None, :, :]) ** 2, 2)))
    points = 1000 + np.random.default_rng(5).normal(size=(300, 10))
    differences = points[:, None] - points[None]
    expected = -4 * (np.exp(-(differences**2).sum(2))[:, :, None] * differences).sum(1)
    found = ed.compile(ed.gradient(energy, B))(B=points)
    np.testing.assert_allclose(found, expected, atol=1e-13 * np.abs(expected).max())


def test_determinants_of_kronecker_products_are_those_of_the_factors() -> None:
    """Also where a power of one is too large and that of the other too small, or a factor is singular."""
    det = ed.parse("det(-kron(A,T))", DECLARED)
    assert ed.plan(det, {"n": 30, "m": 20}).flops <= 2 * (30**3 + 20**3)
    f, rng = ed.compile(det), np.random.default_rng(0)
    for n, m in ((8, 7), (7, 8), (9, 9), (7, 9), (1, 20), (20, 1)):
        A, T = rng.normal(size=(n, n)), rng.normal(size=(m, m))
        np.testing.assert_allclose(f(A=A, T=T), np.linalg.det(-np.kron(A, T)), rtol=1e-9)
    A[0] = 0
    assert f(A=A, T=T) == 0
    np.testing.assert_allclose(f(A=1e-60 * np.eye(8), T=1e60 * np.eye(7)), 1, rtol=1e-12)
