"""Derivatives of PyTorch functions: equal to those of torch.func, in value and structure; and what is refused."""

from __future__ import annotations

import logging
import warnings
from collections import OrderedDict, namedtuple
from functools import partial
from operator import is_
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.utils import _pytree as pytree

import eindiff as ed
import eindiff.torch as et
import torch_models  # noqa: F401 (it adds to the cases)
from eindiff.tracing.torch.library import flat, structure_of
from torch_functions import CASES, TOLERANCE, assert_same, randn


def quietly(function):
    """What torch says about missing batching rules is not for us."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function()


@pytest.mark.parametrize("name", CASES)
def test_derivatives_are_those_of_torch(name):
    case = CASES[name]
    ours, theirs = (et.hessian, torch.func.hessian) if case.order == 2 else (et.jacfwd, torch.func.jacfwd)
    expected = quietly(lambda: theirs(case.reference or case.function, case.argnums)(*case.args))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        actual = ours(case.function, case.argnums)(*case.args)
    assert_same(actual, expected)
    assert [str(w.message).startswith("without a closed form") for w in caught] == [True] * case.opaque


def test_nearly_all_are_closed_forms():
    assert len(CASES) >= 80
    assert sum(not case.opaque for case in CASES.values()) >= 0.97 * len(CASES)


# What else there is

X, target, w = randn(6, 3), randn(6, seed=4), randn(3, seed=5)


def loss(q, scale=1.0):
    return scale * F.mse_loss(torch.tanh(X @ q["w"] + q["b"]), target)


PARAMETERS = {"w": w, "b": randn(1)[0]}


def test_gradient_and_value():
    assert_same(et.grad(loss)(PARAMETERS), torch.func.grad(loss)(PARAMETERS))
    assert_same(et.grad_and_value(loss)(PARAMETERS), torch.func.grad_and_value(loss)(PARAMETERS))
    value, gradient, hessian = et.value_grad_hessian(loss)(PARAMETERS)
    assert_same(value, loss(PARAMETERS))
    assert_same(gradient, torch.func.grad(loss)(PARAMETERS))
    assert_same(hessian, torch.func.hessian(loss)(PARAMETERS))


def test_auxiliary_data():
    def f(v):
        return (v**3).sum(), {"twice": 2 * v, "positive": v > 0, "name": "aux"}

    found, aux = et.hessian(f, has_aux=True)(w)
    assert_same(found, torch.diag(6 * w))
    assert_same(aux["twice"], 2 * w)
    assert_same(aux["positive"], w > 0)
    assert aux["name"] == "aux"
    assert_same(et.grad(f, has_aux=True)(w)[0], 3 * w**2)
    assert et.jacfwd(f, has_aux=True)(w)[1]["name"] == "aux"


def test_keywords():
    assert_same(et.hessian(loss)(PARAMETERS, scale=2.0)["w"]["w"], 2 * torch.func.hessian(loss)(PARAMETERS)["w"]["w"])
    found = et.grad(lambda v, c, power=2: (c * v**power).sum())(w, c=2 * w, power=3)
    assert_same(found, 6 * w**3)


def test_negative_argnums():
    f = lambda v, w: torch.exp(v @ w) + (w**4).sum()  # noqa: E731
    v = randn(3)
    assert_same(et.hessian(f, -1)(v, w), torch.func.hessian(f, 1)(v, w))


def test_single_precision():
    f = lambda v: torch.exp(v).sum() * v.sum()  # noqa: E731
    v = torch.randn(4)
    assert_same(et.hessian(f)(v), torch.func.hessian(f)(v), 1e-5)
    assert et.hessian(f)(v.to(torch.bfloat16)).dtype == torch.bfloat16


def test_products_and_diagonals():
    tangents = {"w": randn(3, seed=8), "b": randn(1, seed=9)[0]}
    found = et.hvp(loss)(PARAMETERS, tangents=tangents)
    hessian = torch.func.hessian(loss)(PARAMETERS)
    rows = [hessian[name]["w"] @ tangents["w"] + hessian[name]["b"] * tangents["b"] for name in ("w", "b")]
    assert_same(found, dict(zip(("w", "b"), rows, strict=True)))
    diagonal = et.hessian_diagonal(loss)(PARAMETERS)
    assert_same(diagonal, {"w": hessian["w"]["w"].diagonal(), "b": hessian["b"]["b"]})
    with pytest.raises(ed.EindiffError, match="tangents has the structure"):
        et.hvp(loss)(PARAMETERS, tangents=w)
    with pytest.raises(ed.EindiffError, match="has shape"):
        et.hvp(loss)(PARAMETERS, tangents={"w": randn(2), "b": randn(1)[0]})


def test_newton_step():
    f = lambda v: (torch.exp(v) - 2 * v).sum()  # noqa: E731
    v = torch.zeros(3, dtype=torch.float64)
    for _ in range(6):
        v = v + et.newton_step(f)(v).step
    assert_same(v, torch.full((3,), np.log(2), dtype=torch.float64))
    found = et.newton_step(loss, damping="auto")(PARAMETERS)
    assert set(found.step) == {"w", "b"}
    assert found.decrease > 0


def test_structure():
    T, U, V = randn(20, 15), randn(20, 2), randn(15, 2)
    found = et.hessian(lambda U: ((T - U @ V.T) ** 2).sum(), structured=True)(U)
    assert found.structure == "identity ⊗ core"
    assert isinstance(found, ed.Derivative)
    _, gradient, hessian = et.value_grad_hessian(lambda U: (U**4).sum(), structured=True)(U)
    assert hessian.structure == "diagonal"
    assert_same(gradient, 4 * U**3)
    jacobian = et.jacrev(lambda U: U**2, structured=True)(U)
    assert jacobian.structure == "diagonal"


def test_lowered():
    def logistic(w, X, y):
        return torch.log1p(torch.exp(-y * (X @ w))).sum()

    found = et.hessian(logistic).lower(w, X, target)
    assert found.formula == "X'*diag(y.^2 .* sigmoid(y .* (X*w)) .* sigmoid(-y .* (X*w)))*X"
    assert isinstance(found.expression, ed.Expr)
    assert isinstance(found.function, ed.Expr)
    assert found.source.startswith("import numpy as np")
    assert found.plan.flops > 0
    assert found.opaque == {}
    assert et.lower(logistic)(w, X, target).formula == found.formula
    assert repr(found) == found.formula


def test_check():
    assert et.check(loss, PARAMETERS)
    assert et.check(loss, PARAMETERS, scale=2.0).error < TOLERANCE
    assert "passed" in str(et.check(lambda v: (v**3).sum(), w))


def test_modules():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(3, 2), nn.Tanh(), nn.Linear(2, 1)).double()
    parameters = {name: x.detach() for name, x in module.named_parameters()}

    def by_parameters(q):
        return F.mse_loss(torch.func.functional_call(module, q, (X,))[:, 0], target)

    expected = torch.func.hessian(by_parameters)(parameters)
    found = et.module_hessian(lambda net, X, y: F.mse_loss(net(X)[:, 0], y), module, X, target)
    assert_same(found, expected)
    assert "weight" in et.hessian(by_parameters).lower(parameters).source


def test_the_class_of_a_module_is_a_function():
    module = nn.Linear(3, 1).double()
    with torch.no_grad():
        assert_same(et.jacrev(module)(w), torch.func.jacrev(module)(w))


# Results that are differentiated further


def test_further_derivatives_through_the_result():
    v = randn(3).requires_grad_()
    f = lambda v: (torch.exp(v) * v.sum()).sum()  # noqa: E731
    found = torch.autograd.grad(et.hessian(f)(v).pow(2).sum(), v)[0]
    expected = torch.autograd.grad(torch.func.hessian(f)(v).pow(2).sum(), v)[0]
    assert_same(found, expected)


def test_derivatives_by_parameters_around():
    parameter = nn.Parameter(randn(20))
    f = lambda v: torch.tanh((v * parameter[:3]).sum() + parameter.sum())  # noqa: E731
    found = torch.autograd.grad(et.hessian(f)(w).pow(2).sum(), parameter)[0]
    expected = torch.autograd.grad(torch.func.hessian(f)(w).pow(2).sum(), parameter)[0]
    assert_same(found, expected)
    with torch.no_grad():
        assert not et.hessian(f)(w).requires_grad


# Traces: when they are made, and when they hold


def test_traces_are_remembered():
    f = lambda v: (v**5).sum()  # noqa: E731
    transformed = et.hessian(f)
    transformed(w)
    transformed(2 * w)
    assert transformed.traces == 1
    transformed(randn(4))
    assert transformed.traces == 2
    again = et.hessian(f)
    again(w)
    assert again.traces == 0


def test_traces_are_logged(caplog):
    with caplog.at_level(logging.INFO, "eindiff.torch"):
        et.hessian(lambda velocity: (velocity**6).sum())(w)
    assert "tracing <lambda> for velocity (3,) torch.float64" in caplog.text


SCALE = 2.0


def by_global(v):
    return SCALE * (v**2).sum()


def test_what_a_function_sees_may_change():
    global SCALE
    transformed = et.hessian(by_global)
    eye = torch.eye(3, dtype=torch.float64)
    assert_same(transformed(w), 4 * eye)
    SCALE = 3.0
    assert_same(transformed(w), 6 * eye)
    settings = {"scale": [1.0]}
    transformed = et.hessian(lambda v: settings["scale"][0] * (v**2).sum())
    assert_same(transformed(w), 2 * eye)
    settings["scale"][0] = 5.0
    assert_same(transformed(w), 10 * eye)
    transformed = et.hessian(partial(lambda c, v: c * (v**2).sum(), 2.0))
    assert_same(transformed(w), 4 * eye)


class Settings:
    """Values of a class, of an object, and what a method sees."""

    scale = 1.0

    def __init__(self):
        self.power = 2

    def __call__(self, v):
        return SCALE * self.scale * (v**self.power).sum()


def test_objects_may_change():
    global SCALE
    model, eye = Settings(), torch.eye(3, dtype=torch.float64)
    transformed = et.hessian(lambda v: model(v))
    SCALE = 1.0
    assert_same(transformed(w), 2 * eye)
    Settings.scale = 2.0
    assert_same(transformed(w), 4 * eye)
    SCALE = 3.0
    assert_same(transformed(w), 12 * eye)
    model.power = 3
    assert_same(transformed(w), 36 * torch.diag(w))


@pytest.mark.parametrize("count", [1, 30])
def test_tensors_around_may_change(count):
    around = torch.ones(count, dtype=torch.float64)
    transformed = et.hessian(lambda v: (around.sum() * v**2).sum())
    for _ in range(3):
        assert_same(transformed(w), 2 * around.sum() * torch.eye(3, dtype=torch.float64))
        around += 1
    assert transformed.traces == (2 if count == 1 else 1)


def test_integers_around_may_change():
    index, mask = torch.tensor([0, 1]), torch.tensor([True, False, True])
    transformed = et.grad(lambda v: (v[index] ** 2).sum() + (v[mask] ** 3).sum() + mask.sum() * v.sum())
    for _ in range(3):
        expected = 3 * w**2 * mask + mask.sum()
        for k in index.tolist():
            expected[k] += 2 * w[k]
        assert_same(transformed(w), expected)
        index += 1
        index %= 3
        mask ^= torch.tensor([True, True, False])


def test_labels_are_arguments():
    W = randn(3, 3)
    transformed = et.hessian(lambda W, X, y: F.cross_entropy(X @ W, y))
    for labels in (torch.tensor([0, 1, 2, 0, 1, 2]), torch.tensor([2, 2, 2, 1, 1, 0])):
        expected = torch.func.hessian(lambda W, y=labels: F.cross_entropy(X @ W, y))(W)
        assert_same(transformed(W, X, labels), expected)


def test_results_are_not_the_inputs():
    c = randn(40)
    gradient = et.grad(lambda v: v @ c)(randn(40))
    gradient += 1
    assert_same(c, randn(40))
    given = randn(3)
    found = et.jacrev(lambda v: v)(given)
    found += 1
    assert_same(given, randn(3))


# What is refused


class Rounded(torch.autograd.Function):
    """Rounding, with the derivative of the identity."""

    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, gradient):
        return gradient


OUTSIDE, COUNTER = torch.ones(3, dtype=torch.float64), torch.zeros(1, dtype=torch.int64)
SLICED = torch.ones(20, 3, dtype=torch.float64)


def without_grad(v):
    with torch.no_grad():
        scale = v * 2
    return (scale * v).sum()


REFUSED = {
    "branch": (lambda v: v.sum() if v.sum() > 0 else -v.sum(), "values of a tensor decide"),
    "loop": (lambda v: sum(v.sum() for _ in range(int(v.abs().sum()))), "values of a tensor decide"),
    "item": (lambda v: v.sum().item() * v.sum(), "values of a tensor decide"),
    "float": (lambda v: float(v.sum()) * v.sum(), "values of a tensor decide"),
    "nonzero": (lambda v: v[v.nonzero()].sum(), "values of a tensor"),
    "mask": (lambda v: v[v > 0].sum(), "values of a tensor"),
    "unique": (lambda v: torch.unique(v).sum(), "values of a tensor"),
    "rand": (lambda v: (v * torch.rand(3)).sum(), "rand is random.*test_torch.py"),
    "randn_like": (lambda v: (v * torch.randn_like(v)).sum(), "is random"),
    "generator": (lambda v: (v * torch.randn(3, generator=torch.Generator())).sum(), "is random"),
    "dropout": (lambda v: F.dropout(v, 0.5, training=True).sum(), "is random"),
    "bernoulli": (lambda v: (torch.bernoulli(torch.sigmoid(v)) * v).sum(), "is random"),
    "update of an input": (lambda v: v.add_(1).sum(), "in place"),
    "update of a part of an input": (lambda v: v[:2].mul_(2).sum(), "in place"),
    "update outside": (lambda v: OUTSIDE.add_(v).sum(), "in place"),
    "update of a part outside": (lambda v: SLICED[0].add_(v).sum(), "in place"),
    "counter": (lambda v: (v * COUNTER.add_(1)).sum(), "add_ changes a tensor from outside"),
    "train mode": (lambda v: nn.BatchNorm1d(3).double().train()(v.expand(2, 3)).sum(), "outside|running statistics"),
    "no_grad": (without_grad, "no_grad"),
    "data": (lambda v: (v.data * v).sum(), "use x.detach"),
    "custom function": (lambda v: Rounded.apply(v).sum(), "Rounded has derivatives of its own"),
    "complex": (lambda v: torch.fft.fft(v).sum(), "complex numbers"),
    "integers": (lambda v: v.long().sum(), "real numbers"),
    "numpy": (lambda v: torch.from_numpy(v.numpy()).sum() * v.sum(), "numpy: the values of a tensor leave"),
    "tolist": (lambda v: sum(v.tolist()) * v.sum(), "tolist: the values of a tensor leave"),
    "as_strided": (lambda v: v.expand(2, 3).t().as_strided((2,), (2,)).sum(), "as_strided|traced, it gives"),
    "no derivative": (
        lambda v: torch.segment_reduce(v**2, "prod", lengths=torch.tensor([2, 1])).pow(3).sum(),
        "no derivative",
    ),
    "no tensor": (lambda v: 3.0, "real numbers"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    function, reason = REFUSED[name]
    v, kept = randn(3), randn(3)
    before = OUTSIDE.clone(), SLICED.clone(), COUNTER.clone()
    with pytest.raises(ed.EindiffError, match=f"(?s){reason}"):
        quietly(lambda: et.hessian(function)(v))
    assert torch.equal(v, kept)
    for one, other in zip((OUTSIDE, SLICED, COUNTER), before, strict=True):
        assert torch.equal(one, other)


def test_refused_for_the_argument():
    with pytest.raises(ed.EindiffError, match="tensor of real numbers"):
        et.hessian(lambda v: (v * 2.0).sum())(torch.tensor([1, 2]))
    with pytest.raises(ed.EindiffError, match="complex"):
        et.hessian(lambda v: v.abs().sum())(torch.tensor([1j]))
    with pytest.raises(ed.EindiffError, match="at least one entry"):
        et.hessian(lambda v: v.sum())(torch.zeros(0))
    with pytest.raises(ed.EindiffError, match="argnums=3"):
        et.hessian(lambda v: v.sum(), 3)(w)
    with pytest.raises(ed.EindiffError, match="one scalar tensor"):
        et.grad(lambda v: v**2)(w)
    with pytest.raises(ed.EindiffError, match="a pair"):
        et.hessian(lambda v: v.sum(), has_aux=True)(w)
    with pytest.raises(ed.EindiffError, match="takes a function"):
        et.hessian(w)


def test_errors_of_the_function_are_its_own():
    def wrong(v):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        et.hessian(wrong)(w)
    with pytest.raises(RuntimeError, match="size"):
        et.hessian(lambda v: (v @ target).sum())(w)


def test_fallback():
    f = lambda v: (v**3).sum() if v.sum() > -100 else v.sum()  # noqa: E731
    assert_same(et.hessian(f, fallback=True)(w), torch.diag(6 * w))
    assert_same(et.grad(f, fallback=True)(w), 3 * w**2)
    assert_same(et.jacfwd(without_grad, fallback=True)(w), torch.func.jacfwd(without_grad)(w))


def test_opaque_operations_are_named():
    with pytest.warns(UserWarning, match=r"sort \(test_torch.py:\d+: "):
        found = et.hessian(lambda v: (torch.sort(v).values ** 3).prod())(w)
    assert_same(found, quietly(lambda: torch.func.hessian(lambda v: (v**3).prod())(w)))


def test_third_derivatives():
    f = lambda v: torch.tanh(v).sum() * (v**3).sum()  # noqa: E731
    assert_same(et.jacfwd(et.hessian(f))(w), torch.func.jacfwd(torch.func.hessian(f))(w))


def test_constants_that_are_made_inside():
    """Masks and positions have values, also under no_grad, and branches on them are fine; buffers may be changed."""
    scale = torch.tensor([0.5, 2.0, 1.0], dtype=torch.float64)

    def f(x):
        mask = torch.ones(3, 3, dtype=torch.bool).tril()
        ids = torch.zeros(3, dtype=torch.long)
        ids.masked_fill_(mask[0], 2)
        with torch.no_grad():
            angles = (torch.arange(3).float() * scale).cos().to(x.dtype)
        past = torch.cat([torch.tensor([], dtype=x.dtype), x])
        return (past * angles).pow(3).sum() + past[ids].sum() if mask.any() else x.sum()

    x = torch.tensor([0.3, 0.5, -0.7], dtype=torch.float64)
    assert_same(et.hessian(f)(x), torch.func.hessian(f)(x))
    assert_same(et.hvp(f)(x, tangents=x), torch.func.hessian(f)(x) @ x)


def test_products_and_compiled_functions_nest():
    f = lambda x: (torch.sin(x) ** 2 * x).sum()  # noqa: E731
    x = torch.linspace(0.1, 1, 3, dtype=torch.float64)
    expected = torch.func.hessian(f)(x)
    assert_same(torch.vmap(et.hessian_diagonal(f))(x[None]), expected.diagonal()[None])
    ours = et.grad(lambda y: et.hvp(f)(y, tangents=x).sum())(x)
    assert_same(ours, torch.func.grad(lambda y: (torch.func.hessian(f)(y) @ x).sum())(x))
    assert_same(et.hvp(torch.compile(f, backend="eager"))(x, tangents=x), expected @ x)


@pytest.mark.filterwarnings("ignore:without a closed form")
def test_products_with_opaque_parts_are_those_of_pytorch():
    """A Jacobian of this one would have 9 · 10^6 entries."""
    x = torch.sin(torch.arange(3_000, dtype=torch.float64))

    def f(x):
        return (torch.sort(torch.sin(x))[0] ** 3).sum()

    product = torch.func.vjp(torch.func.grad(f), x)[1](x + 1)[0]
    assert torch.equal(et.hvp(f)(x, tangents=x + 1), product)
    assert torch.equal(et.grad(f)(x), torch.func.grad(f)(x))
    with pytest.raises(ed.EindiffError, match=r"shape \(2,\) instead of"):
        et.hvp(f)(x, tangents=x[:2])


def test_containers_are_known_by_a_form_as_by_their_structure() -> None:
    x, pair = torch.ones(2), namedtuple("pair", "a b")
    trees = [
        x, (x,), [x], {"a": x}, {"b": x}, {"a": x, "b": x}, {"b": x, "a": x}, (x, 2.0), (x, None), [[x], (), {}],
        [[], x], pair(x, [x]), (x, [x]), OrderedDict(a=x), {"a": {"a": x}}, {"a": [x]}, {1: x, 2: x}, nn.Parameter(x),
    ]  # fmt: skip
    structures, forms = [], []
    for tree in trees:
        leaves: list[Any] = []
        forms.append(flat(tree, leaves))
        expected, structure = pytree.tree_flatten(tree)
        structures.append(structure)
        assert len(leaves) == len(expected) and all(map(is_, leaves, expected))
        assert structure_of(forms[-1]) == structure
    assert [[a == b for b in forms] for a in forms] == [[a == b for b in structures] for a in structures]
