"""Digits that forms equal in exact arithmetic would lose: sums that may cancel are not multiplied out."""

import mpmath
import numpy as np
import pytest

import eindiff as ed

E = np.random.default_rng(0).integers(-8, 9, (4, 4)) * 2.0**-30  # what is left of I + E is exact
A, B, x = ed.matrix("A", 4, 4), ed.matrix("B", 4, 4), ed.vector("x", 4)
w, c = ed.vector("w", 4), ed.scalar("c")
VALUES = {"A": np.eye(4) + E, "B": np.diag([1.0, 2, 4, 0.5]), "x": np.arange(4.0), "w": np.arange(1.0, 5)}
VALUES["c"] = np.array(2.0**-70)
T, R, PLACES = ed.matrix("T", 6, 4), ed.matrix("R", 4, 4), np.array([2, 0, 3, 1])
VALUES |= {"T": np.vstack([np.ones((2, 4)), VALUES["A"]]), "R": VALUES["A"][np.argsort(PLACES)]}
s, G, SCALES = ed.vector("s", 4), ed.matrix("G", 4, 4), np.diag(VALUES["B"])
VALUES |= {"s": SCALES, "G": VALUES["A"] / SCALES[:, None]}

CASES = {
    "a residual": (ed.sum((x - A @ x) ** 2), 2 * E.T @ E),
    "weights": (ed.sum(w * (x - A @ x) ** 2), 2 * E.T @ np.diag(VALUES["w"]) @ E),
    "a diagonal": (ed.sum((w * x - ed.diag(w) @ A @ x) ** 2), 2 * E.T @ np.diag(VALUES["w"] ** 2) @ E),
    "a small addition": (ed.sum((x - A @ x) ** 2) + c * x @ x, 2 * E.T @ E + 2 * VALUES["c"] * np.eye(4)),
    "a part": (ed.sum((x - T[2:] @ x) ** 2), 2 * E.T @ E),
    "rows": (ed.sum((x - R[PLACES] @ x) ** 2), 2 * E.T @ E),
    "scaled rows": (ed.sum((x - s * (G @ x)) ** 2), 2 * E.T @ E),
    "rows scaled by numbers": (ed.sum((x - SCALES * (G @ x)) ** 2), 2 * E.T @ E),
    "rows scaled twice": (ed.sum((w * x - w * (s * (G @ x))) ** 2), 2 * E.T @ np.diag(VALUES["w"] ** 2) @ E),
    "a function of scaled rows": (ed.sum(ed.cosh(x - s * (G @ x))), E.T @ E),
    "products": (ed.sum((B @ (A @ x) - B @ x) ** 2), 2 * E.T @ VALUES["B"] ** 2 @ E),
}


@pytest.mark.parametrize("name", CASES)
def test_hessians_of_small_residuals(name: str) -> None:
    f, expected = CASES[name]
    hessian = ed.hessian(f, x)
    found = ed.evaluate(hessian, VALUES), ed.compile(hessian)(**{v.name: VALUES[v.name] for v in ed.variables(hessian)})
    for value in found:
        np.testing.assert_allclose(value, expected, rtol=0, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize(
    "text", ["norm2(eye(4) - A*B)^2", "sum((eye(4) - A*B).^2)", "tr((A*B - eye(4))'*(A*B - eye(4)))"]
)
def test_norms_of_small_residuals(text: str) -> None:
    f = ed.parse(text, "A(4,4); B(4,4)")
    values = {"A": VALUES["A"] * np.array([1, 0.5, 0.25, 2]), "B": VALUES["B"]}
    for value in (ed.evaluate(f, values), ed.compile(f)(**values)):
        np.testing.assert_allclose(value, np.sum((E * [1, 0.5, 0.25, 2] @ VALUES["B"]) ** 2), rtol=1e-6)


RIDGES = {
    "by the small side": lambda A, S, G, x: (x - A @ ed.solve(G, A.T @ x)) @ (x - A @ ed.solve(G, A.T @ x)),
    "by the large side": lambda A, S, G, x: ed.norm2(2 * x - A @ A.T @ ed.solve(S, 2 * x)) ** 2 / 4,
    "as matrices": lambda A, S, G, x: x @ (ed.eye(4) - A @ A.T @ ed.inv(S)).T @ (ed.eye(4) - A @ A.T @ ed.inv(S)) @ x,
}


@pytest.mark.parametrize("power", [1e-6, 1e-5, 1e-4])  # the order of factors depends on their digests
@pytest.mark.parametrize("name", RIDGES)
def test_hessians_of_residuals_of_ridges(name: str, power: float) -> None:
    """`|(I - A A' inv(A A' + c I)) x|^2`, whose Hessian is `2 c^2 inv(A A' + c I)^2`."""
    U, V = ed.matrix("U", 4, 9), np.random.default_rng(0).normal(size=(4, 9))
    f = RIDGES[name](U, U @ U.T + power * ed.eye(4), U.T @ U + power * ed.eye(9), x)
    inner = V @ V.T / power + np.eye(4)
    expected = 2 * np.linalg.inv(inner @ inner)
    values = {"U": V, "x": VALUES["x"]}
    for exprs in ([ed.hessian(f, x)], [ed.gradient(f, x), ed.hessian(f, x)]):
        given = {v.name: values[v.name] for v in ed.variables(*exprs)}
        for found in (ed.evaluate(exprs, given), ed.compile(exprs)(**given)):
            np.testing.assert_allclose(found[-1], expected, rtol=0, atol=1e-6 * np.abs(expected).max())
            for gradient in found[:-1]:
                exact = expected @ VALUES["x"]
                np.testing.assert_allclose(gradient, exact, rtol=0, atol=1e-6 * np.abs(exact).max())


def test_hessians_of_weighted_residuals_of_fits() -> None:
    """`(D P - D) (P - I)` for a fit P: an error of P cancels, to first order, where `D - D P` has all of it."""
    U, rng = ed.matrix("U", 6, 3), np.random.default_rng(3)
    y, p = ed.vector("y", 6), ed.vector("p", 6)
    f = ed.sum(p * (y - U @ ed.solve(U.T @ (p[:, None] * U), U.T @ (p * y))) ** 2)
    bases = [np.linalg.qr(rng.normal(size=shape))[0] for shape in ((6, 3), (3, 3))]
    values = {"U": bases[0] @ np.diag([1, 1e-2, 1e-5]) @ bases[1], "p": rng.uniform(0.5, 2, 6)}
    left, weights = mpmath.matrix(values["U"].tolist()), mpmath.diag(values["p"].tolist())
    with mpmath.workdps(50):
        rest = weights * left * mpmath.inverse(left.T * weights * left) * left.T * weights
        expected = np.array((2 * (weights - rest)).tolist(), float)
    hessian = ed.hessian(f, y)
    for found in (ed.evaluate(hessian, values), ed.compile(hessian)(**values)):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)


def test_gradients_of_small_residuals_are_those_of_the_interpreter_too() -> None:
    gradient = ed.gradient(ed.sum((x - A @ x) ** 2), x)
    expected = 2 * E.T @ (E @ VALUES["x"])
    np.testing.assert_allclose(ed.evaluate(gradient, VALUES), expected, rtol=0, atol=1e-6 * np.abs(expected).max())


def test_a_product_with_residuals_is_shown_as_such() -> None:
    assert str(ed.hessian(ed.sum((x - A @ x) ** 2), x)) == "2*(A' - eye(4))*(A - eye(4))"


NEAR_ONE = {
    "tr((eye(4) - diag(w))*(eye(4) - diag(w)))": lambda left: np.sum(left**2),
    "diag((eye(4) - diag(w))*(c*eye(4) - diag(w))*(eye(4) - diag(w)))": lambda left: left**2 * (left + 2.0**-70),
    "(eye(4) - diag(w)) .* (eye(4) - diag(w))": lambda left: np.diag(left**2),
    "tr(kron(eye(4) - diag(w), eye(4) - diag(w)))": lambda left: np.sum(left) ** 2,
}


@pytest.mark.parametrize("text", NEAR_ONE)
def test_products_of_sums_of_diagonal_matrices(text: str) -> None:
    f, left = ed.parse(text, "w(4); c()"), E[0]
    values = {"w": 1 - left, "c": np.array(1 + 2.0**-70)}
    for value in (ed.evaluate(f, values), ed.compile(f)(**{v.name: values[v.name] for v in ed.variables(f)})):
        np.testing.assert_allclose(value, NEAR_ONE[text](left), rtol=1e-12)


def test_softmaxes_of_large_entries() -> None:
    """`exp(z - logsumexp(z))` has the errors of z, also where the logarithm of the sum is needed."""
    z, t = ed.vector("z", 4), ed.scalar("t")
    f = ed.logsumexp(t * z)
    offsets = np.array([0.0, 1, -2, 0.5])
    p = np.exp(offsets) / np.exp(offsets).sum()
    values = {"z": 2.0**30 + offsets, "t": np.array(1.0)}
    wanted = [f, ed.gradient(f, z), ed.gradient(f, t)]
    expected = [2.0**30 + np.log(np.exp(offsets).sum()), p, 2.0**30 + p @ offsets]
    for found in (ed.evaluate(wanted, values), ed.compile(wanted)(**values)):
        for value, exact in zip(found, expected, strict=True):
            np.testing.assert_allclose(value, exact, rtol=1e-14)


def test_entropies_of_large_entries() -> None:
    z = ed.vector("z", 4)
    p = ed.softmax(z)
    gradient = ed.gradient(-ed.sum(p * ed.log(p)), z)
    offsets = np.array([0.0, 1, -2, 0.5])
    q = np.exp(offsets) / np.exp(offsets).sum()
    expected = q * (q @ np.log(q) - np.log(q))
    for value in (ed.evaluate(gradient, {"z": 2.0**30 + offsets}), ed.compile(gradient)(z=2.0**30 + offsets)):
        np.testing.assert_allclose(value, expected, rtol=1e-13)


def test_hessians_through_inverses_of_products_with_sums() -> None:
    """`tr(R inv(S (I + x x')) A)` is `tr(R B) - x'B R x / (1 + x'x)` with `B = inv(S) A`: S is inverted by itself."""
    S, y, R = ed.matrix("S", 6, 6, "psd"), ed.vector("y", 6), ed.matrix("R", 2, 6)
    hessian = ed.hessian(ed.tr(R @ ed.inv(S @ (ed.eye(6) + ed.outer(y, y))) @ ed.matrix("A", 6, 2)), y)
    rng = np.random.default_rng(0)
    root = np.linalg.qr(rng.normal(size=(6, 6)))[0] * np.geomspace(1, 1e-3, 6)
    values = {"S": root @ root.T, "A": rng.normal(size=(6, 2)), "R": rng.normal(size=(2, 6)), "y": rng.normal(size=6)}
    exact = mpmath.inverse(mpmath.matrix(values["S"].tolist())) * mpmath.matrix(values["A"].tolist())
    product, at = np.array(exact.tolist(), float) @ values["R"], values["y"]
    total = 1 + at @ at
    square = at @ product @ at * (np.eye(6) - 4 * np.outer(at, at) / total) / total
    half = (product - 2 * np.outer((product + product.T) @ at, at) / total - square) / total
    for found in (ed.evaluate(hessian, values), ed.compile(hessian)(**values)):
        np.testing.assert_allclose(found, -half - half.T, rtol=0, atol=1e-8 * np.abs(half).max())


def test_entries_of_one_array_are_subtracted_before_others_are_added() -> None:
    f = ed.parse("sum((x[:3] - x[1:] + s).^2)", "x(4); s()")
    values = {"x": 2.0**40 + np.arange(4.0) ** 2, "s": np.array(0.1)}
    for found in (ed.evaluate(f, values), ed.compile(f)(**values)):
        np.testing.assert_allclose(found, 0.9**2 + 2.9**2 + 4.9**2, rtol=1e-14)


def test_logarithms_of_totals_are_subtracted_before_others_are_added() -> None:
    f = ed.parse("softmax(x)'*((x - logsumexp(x)) - (y - logsumexp(y)))", "x(4); y(4)")
    values = {"x": np.sqrt(np.arange(1.0, 5)), "y": 2.0**40 + 100 * np.arange(4.0)}
    p = np.exp(values["x"]) / np.exp(values["x"]).sum()
    ratios = np.log(p) - (values["y"] - values["y"].max())
    gradient = ed.gradient(f, "x")
    for found in (ed.evaluate(gradient, values), ed.compile(gradient)(**values)):
        np.testing.assert_allclose(found, p * (ratios - p @ ratios), rtol=1e-13)
