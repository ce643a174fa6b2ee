"""Graphs of multiplications: both modes have the value of the derivative, and differ where the paper's do."""

from __future__ import annotations

import numpy as np
import pytest

from eindiff.apps.page.examples import GROUPS
from eindiff.apps.page.multiplications import Multiplications
from eindiff.apps.page.pictures import graphs
from eindiff.apps.page.reading import derivatives
from eindiff.core.nodes import Einsum, Expr, topological
from eindiff.program.check import random_point
from eindiff.program.interpreter import evaluate
from make_cookbook_page import read_sections

EXAMPLES = [example for group in GROUPS for example in group.examples]
NET = "sum(logsumexp(Z, 1)) - tr(Y'*Z)"
NETS = {
    depth: (
        f"Z = {'relu(' * depth}X{''.join(f'*W{k})' for k in range(1, depth + 1))}; {NET}",
        "X(m,n); Y(m,n); " + "; ".join(f"W{k}(n,n)" for k in range(1, depth + 1)),
    )
    for depth in (2, 3)
}


def both(expression: str, declarations: str, wrt: list[str], order: int, **more: str) -> dict[str, list[Expr]]:
    """The graphs in both modes, after a comparison of their values with those of the derivatives."""
    ask = {"expression": expression, "declarations": declarations, "wrt": wrt, "order": order, **more}
    result = derivatives(ask)
    maker = Multiplications()
    layout, symmetric = more.get("layout", "mixed"), more.get("symmetric", "projected")
    found = {
        mode: [made(result.function, block.by, layout, symmetric) for block in result.blocks]
        for mode, made in (("reverse", maker.reverse), ("cross_country", maker.cross_country))
    }
    sizes: dict[str, int] = {}
    point = random_point([result.function, *(block.mixed for block in result.blocks)], sizes)
    expected = evaluate([block.arranged.expr for block in result.blocks], point, sizes)
    for outputs in found.values():
        for node in topological(outputs):
            assert not isinstance(node, Einsum) or len(node.operands) <= 2
        for one, other in zip(evaluate(outputs, point, sizes), expected, strict=True):
            assert one.shape == other.shape
            np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-9 * max(1, np.abs(other).max(initial=0)))
    return found


def orders(outputs: list[Expr]) -> list[int]:
    """The orders of all values but the results."""
    return [node.ndim for node in topological(outputs) if node not in outputs]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.title)
@pytest.mark.parametrize("order", [0, 1, 2])
def test_examples(example, order):
    both(example.expression, example.declarations, example.wrt, order)


@pytest.mark.parametrize("section", read_sections(), ids=lambda section: section.heading)
def test_cookbook(section):
    for expression, declarations, wrt, _ in section.rows:
        both(expression, declarations, [wrt.replace(" ", "")], wrt.count(",") + 1)


@pytest.mark.parametrize("layout", ["mixed", "numerator", "denominator"])
@pytest.mark.parametrize("symmetric", ["projected", "free"])
def test_layouts_and_symmetric_variables(layout, symmetric):
    options = {"layout": layout, "symmetric": symmetric}
    both("logdet(S) + x'*S*x", "S(n,n) symmetric; x(n)", ["S", "x"], 2, **options)
    both("A*tanh(S*x)", "S(n,n) symmetric; x(n); A(m,n)", ["S"], 1, **options)
    both("sum(exp(A*x))", "", ["x"], 3, **options)


def test_matrix_factorization():
    """As in the paper: `2(V*V)*δ` in cross-country mode, and the unit tensor of order 4 first in reverse mode."""
    found = both("norm2(T - U*V')^2", "T(m,n); U(m,k); V(n,k)", ["U"], 2)
    assert orders(found["reverse"]).count(4) == 2
    assert max(orders(found["cross_country"])) == 2
    core, unit = next(node for node in found["cross_country"]).children
    assert (core.shape, unit.shape) == (("k", "k"), ("m", "m"))


@pytest.mark.parametrize("depth", [2, 3])
def test_net(depth):
    """As in the paper's appendix: reverse mode has many tensors of order 4, cross-country mode only the result."""
    found = both(*NETS[depth], ["W1"], 2)
    assert orders(found["reverse"]).count(4) >= 4 * depth
    assert max(orders(found["cross_country"])) == 3
    drawings = graphs({"expression": NETS[depth][0], "declarations": NETS[depth][1], "wrt": ["W1"], "order": 2})
    assert [(drawing["inside"] > 0, drawing["high"] == 1) for drawing in drawings["drawings"]] == [
        (True, False), (False, True)
    ]  # fmt: skip


def test_logistic_regression():
    """`X' diag(..) diag(..) X`: from left to right all products are matrices; cross-country mode has vectors first."""
    found = both("sum(log(exp(-y.*(X*w)) + vector(1)))", "X(m,n); w(n); y(m)", ["w"], 2)
    assert max(map(max, map(orders, found.values()))) == 2
    assert orders(found["reverse"]).count(2) > orders(found["cross_country"]).count(2)


def test_equal_graphs_are_called_so():
    assert graphs({"expression": "norm2(A*x - b)^2", "wrt": ["x"], "order": 1})["same"]
    assert not graphs({"expression": "norm2(T - U*V')^2", "wrt": ["U"], "order": 2})["same"]
