"""Products of an array with itself: half the work, one copy, axes in the order that is wanted."""

from __future__ import annotations

import numpy as np
import pytest

import eindiff as ed
from eindiff.planning import tuning
from eindiff.program.interpreter import evaluate

SIZES = {"m": 60, "n": 7, "k": 3}
RNG = np.random.default_rng(0)


def softmax_regression() -> ed.Expr:
    f = ed.parse("sum(logsumexp(X*W, 1))", "X(m,n); W(n,k)")
    return ed.hessian(f, next(v for v in ed.variables(f) if v.name == "W"))


@pytest.mark.parametrize("coefficient", [-1, -0.5, 3])
@pytest.mark.parametrize("order", ["ijkl", "jikl", "klij", "iljk"])
def test_a_coefficient_keeps_both_sides_equal(coefficient, order):
    X, P = ed.tensor("X", ("m", "n")), ed.tensor("P", ("m", "k"))
    expr = coefficient * ed.einsum(f"bi,bj,bk,bl->{order}", X, P, X, P)
    compiled = ed.compile(expr, sizes=SIZES)
    rng = np.random.default_rng(0)
    arrays = {"X": rng.normal(size=(60, 7)), "P": rng.normal(size=(60, 3))}
    expected = coefficient * np.einsum(f"bi,bj,bk,bl->{order}", *(arrays[x] for x in "XPXP"))
    np.testing.assert_allclose(compiled(**arrays), expected, rtol=1e-12, atol=1e-12)
    if order not in ("iljk", "jikl"):
        assert ".T.dot(" in compiled.source


@pytest.mark.parametrize("order", ["ijkl", "jikl"])
@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("with_weights", [False, True])
def test_products_of_equal_halves_take_half_the_work(order, sign, with_weights):
    """Each side is one matrix, whose product with itself NumPy sees; weights of one sign are divided between both."""
    X, P, d = ed.tensor("X", ("m", "n")), ed.tensor("P", ("m", "k")), ed.tensor("d", "m")
    weights = (f",b->{order}", [d]) if with_weights else (f"->{order}", [])
    expr = sign * ed.einsum(f"bi,bj,bk,bl{weights[0]}", X, P, X, P, *weights[1])
    compiled = ed.compile(expr, sizes={"m": 90, "n": 12, "k": 10})
    rng = np.random.default_rng(0)
    arrays = {"X": rng.normal(size=(90, 12)), "P": rng.normal(size=(90, 10)), "d": rng.normal(size=90)}
    for d_ in (arrays["d"], np.abs(arrays["d"]), -np.abs(arrays["d"])) if with_weights else (np.ones(90),):
        expected = sign * np.einsum(f"bi,bj,bk,bl,b->{order}", *(arrays[x] for x in "XPXP"), d_, optimize=True)
        given = {v.name: {**arrays, "d": d_}[v.name] for v in ed.variables(expr)}
        np.testing.assert_allclose(compiled(**given), expected, rtol=1e-10, atol=1e-10)
    if order == "ijkl":
        assert ("gram(" if with_weights else "t0.T @ t0") in compiled.source


@pytest.mark.parametrize(
    "form, is_symmetric",
    [
        ("ksi,ks,ksj->kij", True), ("ski,ks,skj->kij", True), ("ksi,s,ksj->kij", True), ("si,ks,sj->kij", True),
        ("klsi,kls,klsj->klij", True), ("ksi,ki,ks,ksj,kj->kij", True), ("ksp,ksq,ks,ksx,ksy->kpqxy", True),
        ("ksi,kls,ksj->kij", True), ("ksi,kss,ksj->kij", True), ("si,ss,sj->ij", True),
        ("ksi,ks,ksj->ijk", False), ("ksi,ks,lsj->klij", False),
    ],
)  # fmt: skip
def test_stacks_of_products_take_half_the_work(form, is_symmetric):
    """Also where only the weights are a stack, or only the matrices, and where weights are sums or diagonals; what is
    no stack is computed as it stands."""
    inputs, sizes = form.split("->")[0].split(","), dict(zip("klsijpqxy", (3, 2, 20, 70, 70, 8, 9, 8, 9), strict=True))
    same = [labels.translate(str.maketrans("jxy", "ipq")) for labels in inputs]
    rng, names = np.random.default_rng(0), dict(zip(dict.fromkeys(same), "ABCDE", strict=False))
    arrays = {name: rng.normal(size=[sizes[label] for label in labels]) for labels, name in names.items()}
    weight = names[next(labels for labels in same if not {*labels} & {*"ipq"})]
    compiled = ed.compile(-2 * ed.einsum(form, *[ed.tensor(names[x], *arrays[names[x]].shape) for x in same]))
    for values in (arrays[weight], np.abs(arrays[weight]), -np.abs(arrays[weight])):
        given = {**arrays, weight: values}
        expected = -2 * np.einsum(form, *[given[names[x]] for x in same])
        np.testing.assert_allclose(compiled(**given), expected, rtol=1e-10, atol=1e-10)
    assert ("gram(" in compiled.source) == is_symmetric


def test_the_hessian_of_a_softmax_is_a_quarter_of_one_product_and_forms_nothing_else():
    """The matrix of each sample is one array, its diagonal among it; the result is written where it stays."""
    plan = ed.plan(softmax_regression(), {"m": 500, "n": 100, "k": 10})
    assert "mirrored_twice(X.T, " in plan.source and "return mirrored_twice" in plan.source
    assert plan.largest <= 500 * 100
    assert plan.peak <= plan.result_bytes + 8 * (2 * 500 * 100 + 4 * 100 * (500 + 200))


X, Z, T = ed.tensor("X", ("m", "n")), ed.tensor("Z", ("m", "p", "n")), ed.tensor("T", ("n", "p", "k"))
W, V, B = (ed.tensor(name, tuple(axes)) for name, axes in (("W", "nk"), ("V", "kn"), ("B", "kk")))
SUMS = {  # functions whose Hessians are sums over samples
    "softmax": (ed.sum(ed.logsumexp(X @ W, 1)), W),
    "with a penalty": (ed.sum(ed.logsumexp(X @ W, 1)) + ed.sum(W**2) ** 2 + ed.sum(W**4), W),
    "a layer more": (ed.sum(ed.tanh(ed.tanh(X @ W) @ B) ** 2), W),
    "a layer below": (ed.sum(ed.logsumexp(ed.tanh(ed.sin(X) @ W) @ B, 1)) / 3, W),
    "samples with two axes": (ed.sum(ed.logsumexp(ed.einsum("bpi,ij->bpj", Z, W), 2)), W),
    "three axes": (ed.sum(ed.exp(ed.sum(ed.einsum("bi,ipj->bpj", X, T) ** 2, (1, 2)))), T),
    "columns": (ed.sum(ed.logsumexp(X @ V.T, 1)), V),
    "one class at a time": (ed.sum(ed.exp(X @ W)), W),
    "mixed": (ed.sum(ed.logsumexp(X @ W, 1)) * ed.sum(ed.exp(W)), W),
}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("helper", ["mirrored_twice(", "mirrored(", ""])
@pytest.mark.parametrize("name", SUMS)
def test_sums_over_samples(name, helper, dtype, monkeypatch, tiny_is_large):
    """Halves and quarters, in new arrays and in given ones, are what the interpreter gives for the whole."""
    monkeypatch.setattr(tuning, "PACKED", 1 if helper == "mirrored_twice(" else 99)
    monkeypatch.setattr(tuning, "MIRRORED", (1, 1 if helper else 99))
    monkeypatch.setattr(tuning, "NARROW", 0)
    function, by = SUMS[name]
    hessian = ed.hessian(function, by)
    rng = np.random.default_rng(0)
    sizes = {"m": 7, "n": 6, "k": 3, "p": 2}
    arrays = {
        v.name: rng.normal(size=[sizes[size] for size in v.shape]).astype(dtype) / 2 for v in ed.variables(hessian)
    }
    compiled, expected = ed.compile(hessian), evaluate(hessian, {name: x.astype(float) for name, x in arrays.items()})
    tolerance = (1e-10 if dtype == "float64" else 1e-4) * np.abs(expected).max()
    out = np.full(expected.shape, np.nan, dtype)
    for found in (compiled(**arrays), compiled(**arrays, out=out), out):
        assert found.dtype == dtype
        np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)
    if helper and name not in ("one class at a time", "mixed"):
        assert helper in compiled.source
    else:
        assert "mirrored" not in compiled.source


def test_one_sample_is_one_outer_product_and_nothing_is_added_to_it():
    plan = ed.plan(ed.hessian(ed.sum(ed.exp(ed.sum(ed.tanh(X @ W) ** 2, 1))), W), {"m": 1, "n": 40, "k": 40})
    assert plan.source.count("= diagonal_of(t5, 1, 2)\n") == 1 and "for tile_start" not in plan.source
    assert plan.peak <= plan.result_bytes + 8 * 2 * 40**3


def test_what_is_not_known_to_be_symmetric_is_not_taken_for_it(monkeypatch, tiny_is_large):
    monkeypatch.setattr(tuning, "PACKED", 1)
    P = ed.tensor("P", ("m", "k", "k"))
    expr = ed.einsum("bi,bk,bjl->ijkl", X, X, P)
    rng = np.random.default_rng(0)
    arrays = {"X": rng.normal(size=(5, 4)), "P": rng.normal(size=(5, 3, 3))}
    compiled = ed.compile(expr)
    np.testing.assert_allclose(compiled(**arrays), evaluate(expr, arrays), rtol=1e-12, atol=1e-12)
    assert "mirrored(" in compiled.source and "mirrored_twice" not in compiled.source


def test_hessians_at_kinks_are_not_taken_for_symmetric_ones(monkeypatch, tiny_is_large):
    """Where several absolute values are 0 the derivatives of the gradient along entries are what they are."""
    monkeypatch.setattr(tuning, "PACKED", 1)
    monkeypatch.setattr(tuning, "MIRRORED", (1, 1))
    hessian = ed.hessian(ed.sum(ed.sum(ed.abs(X @ W @ B), 1) ** 2), W)
    rng = np.random.default_rng(0)
    arrays = {"X": rng.normal(size=(7, 6)), "B": rng.normal(size=(3, 3)), "W": np.zeros((6, 3))}
    expected = evaluate(hessian, arrays)
    assert np.abs(expected - expected.transpose(2, 3, 0, 1)).max() > 0.1
    np.testing.assert_allclose(ed.compile(hessian)(**arrays), expected, rtol=1e-12, atol=1e-12)


def test_compressed_terms_with_common_factors_are_one_where_a_sum_would_be_formed():
    hessian = softmax_regression()
    rng = np.random.default_rng(0)
    arrays = {"X": rng.normal(size=(400, 80)), "W": rng.normal(size=(80, 10)) / 9}
    value = ed.compile(hessian, sizes={"m": 400, "n": 80, "k": 10}, form="structured")(**arrays)
    assert value.nbytes <= 8 * (400 * 80 + 400 * 100)
    small = {"X": arrays["X"][:30, :4], "W": arrays["W"][:4]}
    for given in (arrays, small):
        structured = ed.structured(hessian, given).as_tensor()
        np.testing.assert_allclose(structured, evaluate(hessian, given), rtol=1e-10, atol=1e-12)


def test_narrow_outer_products_are_no_sums_over_samples():
    """With four classes a product of `x ⊗ p` with itself takes less time than one with the ten entries of `p p'`."""
    plan = ed.plan(softmax_regression(), {"m": 500, "n": 100, "k": 4})
    assert "mirrored" not in plan.source and ".T @ t" in plan.source


def test_covariances_are_squares_of_deviations() -> None:
    """That of the rows of A, with the chances of a softmax: half a product, which keeps the digits of deviations."""
    a, x = ed.matrix("a", 400, 300), ed.vector("x", 300)
    hessian = ed.hessian(ed.logsumexp(a @ x), x)
    assert ed.plan(hessian).flops < 1.1 * 400 * 300**2
    arrays = {"a": 1e6 + RNG.normal(size=(400, 300)), "x": RNG.normal(size=300) / 300}
    scores = (arrays["a"] - 1e6) @ arrays["x"]
    chances = np.exp(scores) / np.exp(scores).sum()
    deviations = arrays["a"] - 1e6 - chances @ (arrays["a"] - 1e6)
    expected = deviations.T @ (chances[:, None] * deviations)
    np.testing.assert_allclose(ed.compile(hessian)(**arrays), expected, rtol=1e-6, atol=1e-8)
