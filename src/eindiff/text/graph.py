"""The expression DAG as a picture: SVG, or a file for Graphviz.

Outputs are at the top, inputs at the bottom. A node shows its operation and the shape of its value; a multiplication
shows the labels of its operands and of its result, as in `*_(ij,j,i)`. Values of order 4 and more are red: these are
the ones that a good derivative avoids. fast-sugiyama finds layers, the order within layers and positions; here boxes
are moved apart by their widths and everything is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from eindiff.core.construct import power_parts
from eindiff.core.errors import EindiffError, shape_text
from eindiff.core.groups import grouped
from eindiff.core.index_relations import IndexMap
from eindiff.core.nodes import Add, Apply, Constant, Einsum, Expr, Map, Variable, plain, topological
from eindiff.text.write.tree import number_text

LABELS = "ijklpqrstuvabcdefghmnowxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
HIGH = 4  # the order from which on nodes are red
MOST_DRAWN = 800

FONT = 14.0  # all lengths are in pixels
CHARACTER = 7.6  # the width of one, on average
HEIGHT = 40.0
GAP = 26.0  # between boxes
LAYER = 92.0  # from layer to layer
MARGIN = 16.0
COLORS = {  # fill, stroke and text of boxes; they are readable on white and on black
    "input": ("#dbeafe", "#3b82f6", "#172554"),
    "output": ("#dcfce7", "#16a34a", "#052e16"),
    "inner": ("#f4f4f5", "#71717a", "#18181b"),
    "high": ("#fecaca", "#dc2626", "#450a0a"),
}
EDGE = "#8a8f98"

Outputs = Expr | Mapping[str, Expr]


@dataclass(slots=True)
class Box:
    """A node: what stands in it, the labels on its edges, and where it is."""

    node: Expr
    label: str
    below: str = ""  # the index of the label
    kind: str = "inner"
    names: list[str] = field(default_factory=list)  # of the outputs that it is
    edges: dict[Expr, str] = field(default_factory=dict)  # child, and how the child's axes are labelled
    x: float = 0.0
    y: float = 0.0

    @property
    def caption(self) -> str:
        """The second line: the shape, and the order."""
        order = self.node.ndim
        return f"{shape_text(self.node.shape)}, order {order}" if order > 2 else shape_text(self.node.shape)

    @property
    def width(self) -> float:
        """Room for the text, and below it for the arrows with their labels."""
        first = len(self.label) * CHARACTER + len(self.below) * CHARACTER * 0.75
        ports = sum(_slot(label) for label in self.edges.values())
        return max(44.0, first + 20, len(self.caption) * CHARACTER * 0.75 + 20, ports + 12)


def _slot(label: str) -> float:
    """The room that an arrow takes at the box that it points to."""
    return 16.0 + len(label) * CHARACTER * 0.7


def boxes(outputs: Outputs) -> list[Box]:
    """The nodes of one or several expressions, each after its children, with their text."""
    named = {"": outputs} if isinstance(outputs, Expr) else dict(outputs)
    order = topological(named.values())
    if len(order) > MOST_DRAWN:
        raise EindiffError(f"the graph has {len(order)} nodes; the most that is drawn is {MOST_DRAWN}", "large")
    found = []
    for node in order:
        box = _box(node)
        box.names = [name for name, output in named.items() if plain(output) is node]
        box.kind = "output" if box.names else "input" if isinstance(node, Variable) else "inner"
        if node.ndim >= HIGH:
            box.kind = "high"
        found.append(box)
    return found


def _box(node: Expr) -> Box:
    match node:
        case Variable():
            return Box(node, node.name)
        case Constant():
            return Box(node, _constant(node))
        case Einsum():
            return _einsum(node)
        case Add():
            return Box(node, "+", edges=dict.fromkeys(node.terms, ""))
        case Map() | Apply():
            base, exponent = power_parts(node)
            if exponent != 1:
                return Box(node, f"^{number_text(exponent)}", edges={base: ""})
            edges = dict.fromkeys(node.args, "")
            if len(node.args) > 1:
                edges = {arg: ", ".join(str(k + 1) for k, a in enumerate(node.args) if a is arg) for arg in edges}
            return Box(node, node.function.name, edges=edges)
    raise AssertionError(f"a node of unknown kind: {type(node)}")


def _constant(node: Constant) -> str:
    if isinstance(node.value, np.ndarray):
        return "constant"
    return "index map" if isinstance(node.value, IndexMap) else str(node.value)


def _einsum(node: Einsum) -> Box:
    """`*_(ij,j,i)` for two operands as in the paper; with an arrow before the result for any other number."""
    *inputs, output = ["".join(LABELS[x % len(LABELS)] for x in labels) for labels in (*node.labels, node.output)]
    number = number_text(node.coefficient).replace("-", "−")
    number = {"1": "", "−1": "−"}.get(number, number + " ")
    if not node.operands:
        ones = "δ" if node.has_delta else "1"
        return Box(node, number + ones if node.output else number_text(node.coefficient), f"({output})")
    edges = dict.fromkeys(node.operands, "")
    if set(node.labels) == {node.output} and not node.has_delta:  # entry by entry: the labels say nothing more
        return Box(node, number + ("⊙" if len(node.operands) > 1 else "·"), edges=edges)
    if len(node.operands) == 1:
        return Box(node, number + "∗", f"({inputs[0]} → {output or '·'})", edges=edges)
    for operand in edges:
        edges[operand] = ", ".join(text for own, text in zip(node.operands, inputs, strict=True) if own is operand)
    result = f",{output}" if len(node.operands) == 2 else f" → {output or '·'}"
    return Box(node, number + "∗", f"({','.join(inputs)}{result})", edges=edges)


# Positions


def place(found: Sequence[Box]) -> list[list[tuple[float, float]]]:
    """Give every box its position; the corners of each edge, in the order of the boxes and their edges."""
    number = {box.node: k for k, box in enumerate(found)}
    edges = [(number[box.node], number[child]) for box in found for child in box.edges]
    position, after = _layers(edges, {k: box.width for k, box in enumerate(found)})
    for k, box in enumerate(found):
        box.x, box.y = position[k]
    return [_path(edge, after, position, len(found)) for edge in edges]


def _layers(
    edges: list[tuple[int, int]], width: Mapping[int, float]
) -> tuple[dict[int, tuple[float, float]], dict[int, list[int]]]:
    """Where boxes of these widths are, and the places that long edges bend at; and from where edges lead to where."""
    try:
        from fast_sugiyama import from_edges  # only those who draw need it
    except ImportError:
        raise EindiffError(
            "drawing needs fast-sugiyama (pip install fast-sugiyama); a .dot file does not", "install"
        ) from None

    position: dict[int, tuple[float, float]] = {}
    after: dict[int, list[int]] = {}
    left = 0.0
    unit = max(70.0, 0.6 * sum(width.values()) / len(width))
    layouts: Any = from_edges(edges, vertex_spacing=1, dummy_vertices=True, dummy_size=0.2) if edges else []
    for nodes, _, _, between in layouts:
        positions = dict(nodes)
        top = max(y for _, y in positions.values())
        _spread(positions, width, unit)
        start = min(x - width.get(k, 0) / 2 for k, (x, _) in positions.items())
        position |= {k: (x - start + left, (top - y) * LAYER) for k, (x, y) in positions.items()}
        left = max(x + width.get(k, 0) / 2 for k, (x, _) in position.items()) + 2 * GAP
        for begin, end in between or []:
            after.setdefault(begin, []).append(end)
    for k in width:
        if k not in position:  # alone
            position[k] = (left + width[k] / 2, 0.0)
            left += width[k] + GAP
    return position, after


def _spread(positions: dict[int, Any], width: Mapping[int, float], unit: float) -> None:
    """Move the nodes of each layer apart by their widths, in their order and as little as possible.

    With the widths subtracted, the positions must not decrease: least squares under that is the pooling of neighbours
    that are in the wrong order.
    """
    layers = grouped((positions[k][1], k) for k in sorted(positions, key=lambda k: positions[k][0]))
    for y, nodes in layers.items():
        offset, offsets = 0.0, []
        for before, after in zip([None, *nodes], nodes, strict=False):
            if before is not None:
                offset += (width.get(before, 0.0) + width.get(after, 0.0)) / 2 + GAP
            offsets.append(offset)
        pools: list[list[float]] = []
        for k, shift in zip(nodes, offsets, strict=True):
            pools.append([positions[k][0] * unit - shift, 1.0])
            while len(pools) > 1 and pools[-2][0] > pools[-1][0]:
                (a, m), (b, n) = pools[-2:]
                pools[-2:] = [[(a * m + b * n) / (m + n), m + n]]
        values = [value for value, count in pools for _ in range(int(count))]
        for k, value, shift in zip(nodes, values, offsets, strict=True):
            positions[k] = (value + shift, y)


def _path(
    edge: tuple[int, int], after: Mapping[int, Sequence[int]], position: Mapping[int, Sequence[float]], count: int
) -> list[tuple[float, float]]:
    """The corners of an edge: its ends, and the places that layers in between keep free for it.

    A long edge first leads to a place that no box has; it is followed from place to place to where it ends.
    """
    start, end = edge
    corners: list[int] = []
    if end not in after.get(start, ()):
        for corner in (place for place in after.get(start, ()) if place >= count):
            corners = [corner]
            while corners[-1] >= count:
                corners.append(after[corners[-1]][0])
            if corners.pop() == end:
                break
    return [(position[k][0], position[k][1]) for k in (start, *corners, end)]


# SVG


def to_svg(outputs: Outputs) -> str:
    """The expression DAG as SVG. `outputs` is an expression, or names and expressions.

    >>> import eindiff as ed
    >>> to_svg(ed.matrix("A", "m", "n") @ ed.vector("x", "n")).startswith("<svg")
    True
    """
    found = boxes(outputs)
    paths = place(found)
    left = min([box.x - box.width / 2 for box in found] + [x for path in paths for x, _ in path]) - MARGIN
    right = max([box.x + box.width / 2 for box in found] + [x for path in paths for x, _ in path]) + MARGIN
    top = min(box.y for box in found) - HEIGHT / 2 - MARGIN - (FONT + 4 if any("".join(b.names) for b in found) else 0)
    bottom = max(box.y for box in found) + HEIGHT / 2 + MARGIN
    size = f'width="{right - left:.0f}" height="{bottom - top:.0f}"'
    view = f'viewBox="{left:.1f} {top:.1f} {right - left:.1f} {bottom - top:.1f}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {view} font-family="DejaVu Sans, Verdana, sans-serif" '
        f'font-size="{FONT:g}" text-anchor="middle">',
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        f'orient="auto-start-reverse"><path d="M0,0.8 L8,4 L0,7.2 z" fill="{EDGE}"/></marker></defs>',
    ]
    corners = iter(paths)
    for box in found:
        lines += _draw_edges(box, [(label, next(corners)) for label in box.edges.values()])
    for box in found:
        lines += _draw_box(box)
    return "\n".join([*lines, "</svg>"]) + "\n"


def _draw_edges(parent: Box, edges: list[tuple[str, list[tuple[float, float]]]]) -> list[str]:
    """The edges from the arguments up to an operation, side by side in the order that they come from.

    Each has the labels of its argument's axes beside the arrow, on the side that the edge does not come from.
    """
    edges = sorted(edges, key=lambda edge: edge[1][1][0])
    left = parent.x - sum(_slot(label) for label, _ in edges) / 2
    lines = []
    for label, path in edges:
        from_right = path[1][0] > left + _slot(label) / 2 + 4
        port = left + (_slot(label) - 8 if from_right else 8) if label else left + 8
        lines += _draw_edge(label, path, port, from_right)
        left += _slot(label)
    return lines


def _draw_edge(label: str, path: Sequence[tuple[float, float]], port: float, from_right: bool) -> list[str]:
    end = path[0][1] + HEIGHT / 2 + 1
    *between, (x, y) = path[1:]
    points = [(x, y - HEIGHT / 2), *reversed(between), (port, end + 15)]
    text = f"M{points[0][0]:.1f},{points[0][1]:.1f}"
    for (ax, ay), (bx, by) in pairwise(points):
        middle = (ay + by) / 2
        text += f" C{ax:.1f},{middle:.1f} {bx:.1f},{middle:.1f} {bx:.1f},{by:.1f}"
    text += f" V{end:.1f}"
    lines = [f'<path d="{text}" fill="none" stroke="{EDGE}" stroke-width="1.4" marker-end="url(#arrow)"/>']
    if label:
        at = f'x="{port + (-6 if from_right else 6):.1f}" y="{end + 13:.1f}"'
        style = f'font-size="{FONT * 0.75:.1f}" font-style="italic" fill="{EDGE}"'
        lines.append(f'<text {at} {style} text-anchor="{"end" if from_right else "start"}">{escape(label)}</text>')
    return lines


def _draw_box(box: Box) -> list[str]:
    fill, stroke, ink = COLORS[box.kind]
    x, y, width = box.x - box.width / 2, box.y - HEIGHT / 2, box.width
    heavy = 2.4 if box.names else 1.4
    radius = HEIGHT / 2 if isinstance(box.node, Variable) else 6
    below = f'<tspan dy="3" font-size="{FONT * 0.75:.1f}">{escape(box.below)}</tspan>' if box.below else ""
    lines = [
        "<g>",
        f"<title>{escape(str(box.node))}</title>",
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{HEIGHT:g}" rx="{radius:g}" fill="{fill}" '
        f'stroke="{stroke}" stroke-width="{heavy}"/>',
        f'<text x="{box.x:.1f}" y="{box.y - 2:.1f}" fill="{ink}">{escape(box.label)}{below}</text>',
        f'<text x="{box.x:.1f}" y="{box.y + 13:.1f}" font-size="{FONT * 0.72:.1f}" fill="{ink}" '
        f'fill-opacity="0.75">{escape(box.caption)}</text>',
    ]
    if name := ", ".join(name for name in box.names if name):
        lines.append(f'<text x="{box.x:.1f}" y="{y - 6:.1f}" font-weight="bold" fill="{stroke}">{escape(name)}</text>')
    return [*lines, "</g>"]


# Graphviz


def to_dot(outputs: Outputs) -> str:
    """The expression DAG for Graphviz.

    >>> import eindiff as ed
    >>> print(to_dot(ed.exp(ed.vector("x", "n"))))
    digraph {
      rankdir=BT; node [shape=box, style="rounded,filled", fontname="sans-serif"];
      n0 [label="x\\nn", fillcolor="#dbeafe", color="#3b82f6"];
      n1 [label="exp\\nn", fillcolor="#dcfce7", color="#16a34a"];
      n0 -> n1;
    }
    <BLANKLINE>
    """
    found = boxes(outputs)
    number = {box.node: f"n{k}" for k, box in enumerate(found)}
    lines = ["digraph {", '  rankdir=BT; node [shape=box, style="rounded,filled", fontname="sans-serif"];']
    for box in found:
        fill, stroke, _ = COLORS[box.kind]
        names = "".join(f"{name} = " for name in box.names if name)
        text = _quoted(f"{names}{box.label}{'_' if box.below else ''}{box.below}") + "\\n" + _quoted(box.caption)
        lines.append(f'  {number[box.node]} [label="{text}", fillcolor="{fill}", color="{stroke}"];')
    for box in found:
        for child, label in box.edges.items():
            more = f' [label="{_quoted(label)}"]' if label else ""
            lines.append(f"  {number[child]} -> {number[box.node]}{more};")
    return "\n".join([*lines, "}"]) + "\n"


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def save(outputs: Outputs, path: str | Path) -> None:
    """Write the expression DAG to a file; its ending, `.svg` or `.dot`, says in which format."""
    path = Path(path)
    writers = {".svg": to_svg, ".dot": to_dot, ".gv": to_dot}
    if path.suffix.lower() not in writers:
        raise EindiffError(f"the graph goes to a file that ends in .svg or .dot, not {path.name!r}", "options")
    try:
        path.write_text(writers[path.suffix.lower()](outputs), encoding="utf-8")
    except OSError as error:
        raise EindiffError(f"the graph cannot be written to {path}: {error.strerror or error}", "stored") from None
