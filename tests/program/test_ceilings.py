"""Ceilings by the cost model: deterministic, on any machine."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
import pytest

import eindiff as ed
from eindiff.core.nesting import share
from eindiff.core.nodes import is_contraction, topological
from models import MODELS, Model, logistic, net
from pace import calls

ACTIVATIONS = {"relu": ed.relu, "sigmoid": ed.sigmoid, "tanh": ed.tanh}
B = N = 40


@pytest.mark.parametrize("name", MODELS)
def test_gradient_costs_at_most_three_times_the_function(name):
    function, wrt, sizes = MODELS[name]()
    gradient = ed.gradient(function, wrt)
    assert ed.plan([function, gradient], sizes).flops <= 3 * ed.plan(function, sizes).flops


@pytest.mark.parametrize("name", MODELS)
def test_gradient_is_right(name):
    """The models above are differentiated correctly, at small unequal sizes."""
    function, wrt, sizes = MODELS[name]()
    small = {size: 2 + k for k, size in enumerate(sizes)}
    by = wrt if len(wrt) < 5 else [wrt[0], wrt[-1]]
    assert ed.check(function, by, order=1, sizes=small).passed


def hessian_flops(model: Model) -> float:
    """Operations of the Hessian by the first layer without the dense result, half of which is mirrored."""
    return ed.plan(ed.hessian(model.function, model.wrt[0]), model.sizes).flops - B * N**4


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("depth", [5, 10, 20])
def test_hessian_of_a_net_by_its_first_layer(activation, depth):
    model = net(depth, ACTIVATIONS[activation])
    cost = ed.plan(ed.hessian(model.function, model.wrt[0]), model.sizes)
    assert cost.flops <= 2.2 * depth * 2 * B * N**3 + B * N**4
    assert cost.largest_order <= 3
    assert cost.largest <= B * N**2


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_hessian_of_a_net_grows_linearly_with_depth(activation):
    shallow, deep = (hessian_flops(net(depth, ACTIVATIONS[activation])) for depth in (10, 20))
    assert deep <= 2.2 * shallow


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_deriving_the_hessian_of_20_layers_takes_little_work(activation):
    """Some tenths of a second."""
    model = net(20, ACTIVATIONS[activation])
    assert calls(lambda: ed.hessian(model.function, model.wrt[0])) < 300_000


@pytest.mark.parametrize("contraction", ["hessian_diagonal", "laplacian", "quadratic_form", "hvp"])
def test_contractions_of_the_logistic_hessian_cost_like_the_function(contraction):
    """O(mn) at two sizes: four times the entries, about four times the operations, and a few passes over X."""
    function, (w,), _ = logistic()
    arguments = (function, w, ed.vector("v", "n")) if contraction in ("quadratic_form", "hvp") else (function, w)
    result = getattr(ed, contraction)(*arguments)
    small, large = (ed.plan(result, {"m": 100 * k, "n": 50 * k}).flops for k in (1, 2))
    assert large <= 4.1 * small
    assert small <= 10 * 100 * 50


def test_hessian_vector_product_of_a_net_costs_like_gradients():
    model = net(10, ed.sigmoid)
    product = ed.hvp(model.function, model.wrt[0], ed.matrix("v", "n", "n"))
    gradient = ed.gradient(model.function, model.wrt[0])
    cost = ed.plan(product, model.sizes)
    assert cost.flops <= 4 * ed.plan(gradient, model.sizes).flops
    assert cost.largest_order <= 2


def test_hessian_of_attention_takes_what_is_written_by_hand():
    """By the query weights, for n tokens: two products of n² k² and one of n k³, and nothing else of that order."""
    X, Y = ed.matrix("X", "t", "d"), ed.matrix("Y", "t", "k")
    Q, K, V = (ed.matrix(name, "d", "k") for name in "QKV")
    loss = ed.sum((ed.softmax((X @ Q) @ (X @ K).T / 4) @ (X @ V) - Y) ** 2)
    n, k = 64, 32
    sizes = {"t": n, "d": n, "k": k}
    plan = ed.plan(ed.hessian(loss, Q), sizes)
    half = n * k * n * k * n
    assert plan.flops - half <= 2 * (2 * n**2 * k**2 + n * k**3) + 32 * n**2 * k + 20 * n * k**2
    assert all(step.shape == (n, k, k) for step in plan.steps[:-1] if len(step.shape) > 2)
    sizes = {"t": 40, "d": 32, "k": 16}
    arrays = {v.name: np.random.default_rng(0).normal(size=[sizes[s] for s in v.shape]) / 4 for v in (X, Y, Q, K, V)}
    expected = ed.evaluate(ed.hessian(loss, Q), arrays)
    np.testing.assert_allclose(ed.compile(ed.hessian(loss, Q))(**arrays), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("activation", "most"), [("sigmoid", 17), ("tanh", 17), ("relu", 9)])
def test_curvature_of_a_net_at_one_sample_takes_two_products_of_matrices_a_layer(activation, most):
    """One forward and one back; that of all layers is two with the root of the curvature if they do not bend."""
    model = net(10, ACTIVATIONS[activation])
    hessian = ed.hessian(model.function, model.wrt[0])
    source = ed.compile(hessian, sizes={"b": 1, "n": 100}, form="structured").source.partition("def f(")[2]
    assert sum(map(source.count, (" @ ", "matmul(", "gram("))) <= most


def test_products_of_the_first_matrices_of_a_chain_are_parts_of_those_of_more():
    """Each of the one before, which is one itself."""
    matrices = [ed.matrix(f"M{k}", "n", "n") for k in range(8)]
    products = [*accumulate(matrices, lambda x, y: x @ y)][1:]
    assert [len(x.children) for x in topological(share(products)) if is_contraction(x)] == [2] * 7


def test_residuals_with_rounded_weights_are_computed_once():
    """The gradient of a heat equation's has it times three numbers, none of which are exact."""
    U = ed.tensor("U", (30, 40))
    time_step, space_step = 0.01, 0.03
    bend = U[:-1, 2:] - 2 * U[:-1, 1:-1] + U[:-1, :-2]
    residual = (U[1:, 1:-1] - U[:-1, 1:-1]) / time_step - 0.7 * bend / space_step**2
    gradient = ed.gradient(ed.mean(residual * residual), U)
    assert ed.plan(gradient).flops < 13 * 30 * 40
    at = np.random.default_rng(0).normal(size=(30, 40))
    h = np.random.default_rng(1).normal(size=(30, 40))
    value = ed.compile(ed.mean(residual * residual))
    slope = (value(U=at + h) - value(U=at - h)) / 2  # exact for a quadratic function
    assert np.vdot(ed.compile(gradient)(U=at), h) == pytest.approx(slope, rel=1e-11)
