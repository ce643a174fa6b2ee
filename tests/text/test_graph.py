"""Pictures of expression DAGs."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from itertools import pairwise
from pathlib import Path

import pytest

import eindiff as ed
import models
from eindiff.core.errors import EindiffError
from eindiff.core.nodes import Expr, topological
from eindiff.text import graph
from eindiff.text.read.parse import parse

NAMESPACE = "{http://www.w3.org/2000/svg}"


def logistic_hessian() -> Expr:
    return ed.derivative(parse("sum(log(exp(-y.*(X*w))+vector(1)))"), "w", "w")


def net_hessian() -> Expr:
    model = models.net(3, ed.relu)
    return ed.derivative(model.function, model.wrt[0], model.wrt[0])


def figure_1() -> Expr:
    return parse("X'*((exp(X*w)+vector(1)).^(-1).*exp(X*w))")


CASES = [figure_1, logistic_hessian, net_hessian]


@pytest.mark.parametrize("case", CASES)
def test_svg_has_a_box_for_each_node_and_a_path_for_each_edge(case) -> None:
    expr = case()
    root = ElementTree.fromstring(graph.to_svg({"f": expr}))
    nodes = topological([expr])
    assert len(root.findall(f"{NAMESPACE}g")) == len(nodes)
    assert len(root.findall(f"{NAMESPACE}path")) == sum(len(set(node.children)) for node in nodes)


@pytest.mark.parametrize("case", CASES)
def test_boxes_do_not_overlap_and_arguments_are_below(case) -> None:
    boxes = graph.boxes(case())
    paths = graph.place(boxes)
    place = {box.node: box for box in boxes}
    layers: dict[float, list[graph.Box]] = {}
    for box in boxes:
        layers.setdefault(box.y, []).append(box)
        assert all(place[child].y > box.y for child in box.edges)
    for layer in layers.values():
        ordered = sorted(layer, key=lambda box: box.x)
        assert all(a.x + a.width / 2 < b.x - b.width / 2 for a, b in pairwise(ordered))
    corners = [(x, y) for path in paths for x, y in path[1:-1]]
    for x, y in corners:  # long edges go around the boxes of the layers that they cross
        assert not any(abs(x - box.x) < box.width / 2 for box in layers.get(y, []))


def test_the_view_holds_everything() -> None:
    root = ElementTree.fromstring(graph.to_svg(net_hessian()))
    left, top, width, height = map(float, root.attrib["viewBox"].split())
    for rect in root.iter(f"{NAMESPACE}rect"):
        x, y, w, h = (float(rect.attrib[name]) for name in ("x", "y", "width", "height"))
        assert left <= x and x + w <= left + width and top <= y and y + h <= top + height


def test_order_four_is_red_and_lower_orders_are_not() -> None:
    red = graph.COLORS["high"][1]
    assert red not in graph.to_svg(logistic_hessian())
    boxes = graph.boxes(net_hessian())
    assert {box.kind == "high" for box in boxes if box.node.ndim >= 4} == {True}
    assert not any(box.kind == "high" for box in boxes if box.node.ndim < 4)
    assert red in graph.to_svg(net_hessian())


def test_labels_are_those_of_the_paper() -> None:
    A, x = ed.matrix("A", "m", "n"), ed.vector("x", "n")
    box = graph.boxes(A @ x)[-1]
    assert (box.label, box.below, box.kind) == ("∗", "(ij,j,i)", "output")
    assert dict(box.edges) == {A: "ij", x: "j"}
    texts = [graph.boxes(e)[-1].label for e in (-2 * x, x * ed.exp(x), x**-1, ed.exp(x), x + 1, ed.eye("n") + 0)]
    assert texts == ["−2 ·", "⊙", "^-1", "exp", "+", "δ"]


def test_the_same_argument_twice_is_one_edge() -> None:
    X = ed.matrix("X", "m", "n")
    assert list(graph.boxes(X.T @ X)[-1].edges.values()) == ["ij, ik"]


def test_pictures_are_the_same_every_time() -> None:
    assert graph.to_svg(net_hessian()) == graph.to_svg(net_hessian())


def test_text_is_escaped() -> None:
    x = ed.vector("x", "n")
    root = ElementTree.fromstring(graph.to_svg({"<a & b>": ed.greater(x, 0)}))
    assert "<a & b>" in [text.text for text in root.iter(f"{NAMESPACE}text")]


def test_several_outputs_and_lone_nodes() -> None:
    x, y = ed.vector("x", "n"), ed.vector("y", "n")
    root = ElementTree.fromstring(graph.to_svg({"a": ed.exp(x), "b": ed.log(y), "c": ed.vector("z", 3)}))
    assert len(root.findall(f"{NAMESPACE}g")) == 5


def test_dot() -> None:
    text = graph.to_dot({"H": logistic_hessian()})
    assert text.count(" -> ") == len(re.findall(r"<path d=\"M[^\"]*C", graph.to_svg(logistic_hessian())))
    assert text.startswith("digraph {") and "H = " in text


def test_files(tmp_path: Path) -> None:
    x = ed.vector("x", "n")
    graph.save(x, tmp_path / "a.svg")
    graph.save(x, tmp_path / "a.dot")
    assert (tmp_path / "a.svg").read_text(encoding="utf-8").startswith("<svg")
    with pytest.raises(EindiffError, match=r"ends in \.svg or \.dot, not 'a\.png'"):
        graph.save(x, tmp_path / "a.png")
    with pytest.raises(EindiffError, match="cannot be written"):
        graph.save(x, tmp_path / "missing" / "a.svg")


def test_too_large() -> None:
    x = ed.vector("x", "n")
    for _ in range(graph.MOST_DRAWN):
        x = ed.tanh(x)
    with pytest.raises(EindiffError, match="801 nodes"):
        graph.to_svg(x)
