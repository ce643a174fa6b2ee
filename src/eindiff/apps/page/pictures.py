"""Pictures for the page: expression DAGs in two modes, and where a Hessian has entries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from math import prod
from typing import Any

import numpy as np

from eindiff.apps.page.legend import legend
from eindiff.apps.page.multiplications import Multiplications
from eindiff.apps.page.reading import ProblemError, derivatives
from eindiff.calculus.derive import find_variable, hessian
from eindiff.core import sizes as sz
from eindiff.core.errors import EindiffError, shape_text
from eindiff.core.nodes import Add, Expr, Variable, size_names, variables
from eindiff.program.check import random_point
from eindiff.structure.compile import structured
from eindiff.structure.derivative import Derivative
from eindiff.structure.picture_scheme import COLOURS, OTHER, PALE, Scheme, Side, scheme_of
from eindiff.text.graph import boxes, to_svg

DRAWN_SIZES = {"m": 10, "n": 6, "k": 3, "p": 4, "r": 2, "h": 4}  # sizes that are drawn, if none are given
DRAWN_ENTRIES = 400_000  # of an array that is made for a picture
SIDE, MARGIN = 340.0, 8.0

EXPLANATIONS = {
    "diagonal": "Only the entries on the diagonal are not zero: solving with it is a division.",
    "identity": "A multiple of the identity.",
    "identity ⊗ diagonal": "A diagonal whose entries repeat.",
    "block diagonal": "Blocks along the diagonal, and zeros elsewhere: solving goes block by block.",
    "Kronecker product": "A Kronecker product: solving goes factor by factor, and the product is never formed.",
    "Kronecker sum": "A sum of Kronecker products with a common basis of eigenvectors: solving goes factor by factor.",
    "low rank": "The product of thin matrices: it has few directions in which it is not zero.",
    "arrowhead": "One part has a simple structure, and couples to a small rest: solving eliminates that part first "
    "(a Schur complement).",
    "dense": "No structure to exploit at these sizes: all entries are formed.",
    "sum of products": "A sum of products of small arrays: products with vectors are cheap; solving iterates on them.",
    "zero": "All entries are zero.",
}


# Expression DAGs


def graphs(ask: Mapping[str, Any]) -> dict[str, Any]:
    """The model `Graphs`."""
    result = derivatives(ask)
    question, maker = result.question, Multiplications()
    made: dict[str, dict[str, Expr]] = {}
    for mode, multiplied in (("reverse", maker.reverse), ("cross_country", maker.cross_country)):
        made[mode] = {
            block.label("unicode", result.name): multiplied(
                result.function, block.by, question.layout, question.symmetric
            )
            for block in result.blocks
        }
    return {
        "drawings": [_graph(mode, outputs) for mode, outputs in made.items()],
        "same": made["reverse"] == made["cross_country"],
    }


def _graph(mode: str, outputs: Mapping[str, Expr]) -> dict[str, Any]:
    """The model `Drawing`."""
    found = boxes(outputs)
    svg = to_svg(outputs).replace('id="arrow"', f'id="arrow-{mode}"').replace("url(#arrow)", f"url(#arrow-{mode})")
    ends = {x for output in outputs.values() for x in (output, *(output.terms if isinstance(output, Add) else ()))}
    high = [box.node for box in found if box.kind == "high"]
    inside = [node for node in high if node not in ends]
    return {"mode": mode, "svg": svg, "nodes": len(found), "high": len(high), "inside": len(inside)}


# The structure of a Hessian


def structure(ask: Mapping[str, Any]) -> dict[str, Any]:
    """The model `Structure`."""
    result = derivatives(ask)
    function, question = result.function, result.question
    if question.order != 2:
        return {"available": False, "reason": "Only second derivatives are drawn."}
    if function.ndim:
        return {"available": False, "reason": "Only the Hessian of a scalar function is drawn."}
    wanted = [find_variable(function, x) for x in result.by]
    blocks = hessian(function, wanted, question.mode, question.symmetric)
    every = [block for line in blocks for block in line]
    sizes = _sizes(every, wanted, ask.get("sizes") or {})
    try:
        value = _value(function, blocks if len(wanted) > 1 else blocks[0][0], wanted, sizes)
    except EindiffError:
        return {"available": False, "reason": "No point was found at which the Hessian has finite values."}
    scheme, names = scheme_of(value), [x.name for x in wanted]
    return {
        "available": True,
        "name": value.structure,
        "formula": "" if "->" in value.formula else value.formula,  # the terms are told one by one
        "explanation": explanation(value.structure),
        "svg": drawn(scheme, value.formula, names),
        "terms": legend(scheme, blocks, names, sizes),
        "note": scheme.note,
        "bytes": int(value.nbytes),
        "dense_bytes": int(value.dense_nbytes),
        "sizes": sizes,
    }


def _sizes(exprs: Sequence[Expr], wanted: Sequence[Variable], given: Mapping[str, int]) -> dict[str, int]:
    """The sizes that are drawn; arrays may not be too large."""
    names = size_names(*exprs, *wanted, *variables(*exprs))
    sizes = {name: given.get(name, DRAWN_SIZES.get(name, 5)) for name in sorted(names)}
    for v in [*variables(*exprs), *wanted]:
        if prod(sz.evaluate(size, sizes) for size in v.shape) > DRAWN_ENTRIES:
            raise ProblemError(
                f"{v.name} of shape {shape_text(v.shape)} is too large to be drawn at these sizes", "sizes"
            )
    return sizes


def _value(function: Expr, blocks: Any, wanted: Sequence[Variable], sizes: dict[str, int]) -> Derivative:
    point = random_point([function], dict(sizes))
    missing = {x.name: np.zeros([sz.evaluate(size, sizes) for size in x.shape]) for x in wanted if x.name not in point}
    return structured(blocks, point | missing, sizes)


def explanation(word: str) -> str:
    """What the name of a structure means.

    >>> explanation("identity")
    'A multiple of the identity.'
    """
    if word in EXPLANATIONS:
        return EXPLANATIONS[word]
    if word.endswith(" + low rank"):
        base = explanation(word.removesuffix(" + low rank"))
        return f"{base} To that, a product of thin matrices is added (Woodbury's identity solves with the sum)."
    if "⊗" in word and "identity" in word:
        return "The same block many times, along the diagonal or interleaved: one small factorization solves all of it."
    if word.startswith("block diagonal"):
        return EXPLANATIONS["block diagonal"]
    return ""


def drawn(scheme: Scheme, title: str, names: Sequence[str]) -> str:
    """The matrix with a colour for each term, and the names of the variables."""
    rows, cols = max(scheme.rows.places[-1], 1), max(scheme.cols.places[-1], 1)
    scale = SIDE / max(rows, cols)
    height, width = rows * scale, cols * scale
    left, top = 18.0 + 8 * max(map(len, names), default=0), 24.0
    across, down = left + width + MARGIN, top + height + MARGIN
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {across:.0f} {down:.0f}" width="{across:.0f}" '
            f'height="{down:.0f}" role="img" font-size="13" font-family="DejaVu Sans, Verdana, sans-serif">',
            f"<title>{escape(title)}</title>",
            f'<g transform="translate({left:.1f} {top:.1f})">',
            f'<rect width="{width:.1f}" height="{height:.1f}" fill="#808080" fill-opacity="0.08"/>',
            *_squares(scheme, scale),
            *_rules(scheme.rows, scheme.cols, scale),
            f'<rect width="{width:.1f}" height="{height:.1f}" fill="none" stroke="#8a8f98"/>',
            "</g>",
            *_names(scheme.cols, names, scale, left, top, across=True),
            *_names(scheme.rows, names, scale, left, top, across=False),
            "</svg>",
        ]
    )


def _squares(scheme: Scheme, scale: float) -> list[str]:
    """One path for all squares of a colour that lie at one depth of squares in squares."""
    paths: dict[tuple[float, int, int], list[str]] = {}
    for row, column, side, kind, nonzero in scheme.squares:
        edge = 0.94 * side * scale
        x, y = (column + 0.5) * scale - edge / 2, (row + 0.5) * scale - edge / 2
        key = (-side, min(int(kind), len(COLOURS)), int(nonzero))
        paths.setdefault(key, []).append(f"M{x:.1f},{y:.1f}h{edge:.1f}v{edge:.1f}h-{edge:.1f}z")
    every = [*COLOURS, OTHER]
    return [
        f'<path d="{"".join(found)}" fill="{every[kind]}" fill-opacity="{1 if nonzero else PALE}"/>'
        for (_, kind, nonzero), found in sorted(paths.items(), key=lambda pair: pair[0][0])
    ]


def _rules(rows: Side, cols: Side, scale: float) -> list[str]:
    """Lines between variables, and faint ones between the blocks of their first axes."""
    height, width = rows.places[-1] * scale, cols.places[-1] * scale
    lines = []
    for places, thick in ((rows.inside, 0.5), (rows.places[1:-1], 1.4)):
        d = "".join(f"M0,{at * scale:.1f}h{width:.1f}" for at in places)
        lines += [f'<path d="{d}" stroke="#8a8f98" stroke-width="{thick}" fill="none"/>'] if d else []
    for places, thick in ((cols.inside, 0.5), (cols.places[1:-1], 1.4)):
        d = "".join(f"M{at * scale:.1f},0v{height:.1f}" for at in places)
        lines += [f'<path d="{d}" stroke="#8a8f98" stroke-width="{thick}" fill="none"/>'] if d else []
    return lines


def _names(side: Side, names: Sequence[str], scale: float, left: float, top: float, across: bool) -> list[str]:
    """The names of the variables, above the columns or beside the rows."""
    texts = []
    for name, begin, end in zip(names, side.places, side.places[1:], strict=False):
        middle = (begin + end) / 2 * scale
        if (end - begin) * scale < 12:
            continue
        place = (
            f'x="{left + middle:.1f}" y="{top - 8:.1f}" text-anchor="middle"'
            if across
            else f'x="{left - 8:.1f}" y="{top + middle + 4:.1f}" text-anchor="end"'
        )
        texts.append(f'<text {place} font-style="italic" fill="currentColor">{escape(name)}</text>')
    return texts
