"""Structured results: the same numbers as the dense ones, in the factors that a person would keep."""

from __future__ import annotations

import numpy as np
import pytest

import eindiff as ed
from eindiff.program.check import random_point
from grammar import OPERATIONS, Example, array_of, examples, names_in, run, variable_of
from models import MODELS, attention, factorization, logistic, multinomial, net, pairwise_energy
from oracles import assert_close

RTOL = 1e-10


def structured(function: ed.Expr, x: ed.Expr, sizes: dict[str, int]) -> ed.Derivative:
    """The structured Hessian at a random point, checked against the interpreter."""
    point = random_point([function], sizes)
    hessian = ed.hessian(function, x)
    result = ed.compile(hessian, form="structured")(**point)
    assert_close(result.as_tensor(), ed.evaluate(hessian, point), RTOL, 1e-6)
    return result


def patterns(result: ed.Derivative) -> dict[str, list[tuple[int, ...]]]:
    return {term.subscripts: [array.shape for array in term.arrays] for term in result.terms}


@pytest.mark.parametrize("name", [name for name in MODELS if name not in ("20-layer net", "recurrent net")])
def test_models(name):
    function, wrt, sizes = MODELS[name]()
    structured(function, wrt[0], {size: 3 + k for k, size in enumerate(sizes)})


def check(example: Example) -> None:
    arrays = {name: array_of(name) for name in names_in(example.text)}
    variables = {name: variable_of(name) for name in arrays}
    y = eval(example.text, {"ed": ed, "np": np} | variables)
    derivative = ed.derivative(y, *(variables[name] for name in example.by))
    try:
        expected = ed.evaluate([y, derivative], arrays)
    except ed.EindiffError:  # not a number here
        return
    for one, other in zip(ed.compile([y, derivative], form="structured")(**arrays), expected, strict=True):
        if np.isfinite(other).all():
            assert one.shape == other.shape
            assert_close(one.as_tensor(), other, RTOL, 1e-2, str(one))


@pytest.mark.parametrize("root", OPERATIONS)
def test_random_expressions(root):
    run(examples(root, 2), 8, check)


def test_logistic_regression_is_dense_or_a_product_of_low_rank():
    """`X' diag(d) X` is formed if it is smaller than X, and else kept as two factors."""
    function, (w,), _ = logistic()
    assert patterns(structured(function, w, {"m": 60, "n": 20})) == {"ab->ab": [(20, 20)]}
    assert patterns(structured(function, w, {"m": 5, "n": 60})) == {"ab,ac->bc": [(5, 60), (5, 60)]}


def test_matrix_factorization():
    function, (U, _), _ = factorization()
    assert patterns(structured(function, U, {"m": 40, "n": 30, "k": 5})) == {"ab->cacb": [(5, 5)]}


def test_masked_matrix_factorization():
    """A core for each row, which the ridge is added to."""
    function, (U, _), _ = factorization(mask=True, ridge=True)
    result = structured(function, U, {"m": 40, "n": 30, "k": 5})
    assert patterns(result) == {"abc->abac": [(40, 5, 5)]}
    assert result.nbytes == 8 * 40 * 5 * 5


@pytest.mark.parametrize("depth", [3, 10])
def test_relu_net(depth):
    """`Σ_b M_b ⊗ x_b x_b'`: the product is left factored."""
    model = net(depth, ed.relu)
    found = patterns(structured(model.function, model.wrt[0], {"b": 6, "n": 8}))
    assert found == {"abc,ad,ae->dbec": [(6, 8, 8), (6, 8), (6, 8)]}


def test_sigmoid_net():
    """The part with a delta is added to the core of each sample; with many samples the products are smaller."""
    function, (W, *_), _ = net(4, ed.sigmoid)
    few, many = (patterns(structured(function, W, sizes)) for sizes in ({"b": 6, "n": 12}, {"b": 30, "n": 6}))
    assert few == {"abc,ad,ae->dbec": [(6, 12, 12), (6, 12), (6, 12)]}
    assert many == {"abcd->abcd": [(6, 6, 6, 6)]}


def test_softmax_regression_and_attention():
    function, (W,), _ = multinomial()
    assert patterns(structured(function, W, {"m": 50, "n": 6, "k": 3})) == {"abcd->abcd": [(6, 3, 6, 3)]}
    few = patterns(structured(function, W, {"m": 4, "n": 60, "k": 3}))
    assert few.keys() == {"ab,ac,da->bdcd", "ab,ac,da,ea->bdce"}
    function, (Q, *_), _ = attention()
    assert patterns(structured(function, Q, {"t": 20, "d": 16, "k": 8})).keys() == {"abc,ad,ae->dbec"}


def test_pairwise_energy():
    function, (X,), _ = pairwise_energy()
    found = patterns(structured(function, X, {"n": 7, "d": 3}))
    assert {"abc->abac", "ab->acbc"} <= found.keys()


def test_large_results_are_never_formed():
    """2 TB as 200 bytes."""
    function, (U, _), _ = factorization()
    size = 100_000
    f = ed.compile(ed.hessian(function, U), form="structured", sizes={"m": size, "n": size, "k": 5})
    V = np.random.default_rng(0).normal(size=(size, 5))
    result = f(V=V)
    assert result.shape == (size, 5, size, 5)
    assert result.nbytes == 200
    np.testing.assert_allclose(result.terms[0].arrays[0], V.T @ V, rtol=1e-12)
    assert repr(result) == "Hessian 500000×500000 = I₁₀₀₀₀₀ ⊗ core(5×5), 200 B instead of 2 TB"


def test_several_outputs_and_sums():
    x = ed.vector("x", "n")
    value, hessian = ed.compile([ed.sum(x**3), ed.hessian(ed.sum(x**3), x)], form="structured")(x=np.arange(3.0))
    assert value.as_tensor() == 9.0
    np.testing.assert_allclose(hessian.as_tensor(), np.diag(6 * np.arange(3.0)))
    assert patterns(hessian) == {"a->aa": [(3,)]}
    zero = ed.compile(ed.hessian(ed.sum(x), x), form="structured")(x=np.ones(2))
    assert zero.as_tensor().tolist() == [[0, 0], [0, 0]]


def test_errors():
    x = ed.vector("x", "n")
    with pytest.raises(ed.EindiffError, match="choose one of dense, structured"):
        ed.compile(x, form="sparse")
    with pytest.raises(ed.EindiffError, match="out is for dense results"):
        ed.compile(x, form="structured")(x=np.ones(2), out=np.ones(2))
