"""Answers of the page to many questions: the rows of the cookbook, and higher derivatives of random functions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import eindiff as ed
from eindiff.apps.page.formulas import derivative_mathml, formula, kronecker_form
from eindiff.calculus.derive import find_variable
from eindiff.core.errors import shape_words
from eindiff.core.nodes import Expr
from eindiff.text.read.parse import parse
from eindiff.text.write.mathml import name_mathml
from make_cookbook_page import read_sections

NOTATIONS = ("matrix", "index", "einsum")
DECLARED = "x(n); y(n); z(n); b(m); A(m,n); B(n,n); S(n,n) symmetric; X(m,n); c"
ELEMENTWISE = ("exp", "tanh", "sin", "sigmoid", "softplus", "log", "sqrt", "abs")


def answer(function: Expr, by: list[str], notation: str) -> dict[str, Any]:
    """The model `DerivedData` of one derivative, as far as its formulas go."""
    found = ed.derivative(function, *[find_variable(function, name) for name in by]) if by else function
    left = derivative_mathml("f", by)
    block = {
        **formula(found, notation, left),
        "kronecker": kronecker_form(found, left) if notation == "matrix" else None,
        "key": ",".join(by), "by": by, "label": "∂f", "axes": shape_words(found.shape),
    }  # fmt: skip
    given = formula(function, notation, name_mathml("f"))
    return {"name": "f", "function": given, "blocks": [block], "conventions": []}


def cookbook() -> Iterator[tuple[str, Expr, list[str]]]:
    """The rows of the cookbook: a title, the function, and by what it is differentiated."""
    for section in read_sections():
        for text, declarations, wrt, _ in section.rows:
            yield f"{text} by {wrt}", parse(text, declarations), [name.strip() for name in wrt.split(",")]


class RandomFunctions:
    """Draws numbers, made of the vectors and matrices of `DECLARED`."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def one(self, *options: str) -> str:
        return str(self.rng.choice(options))

    def vector(self, depth: int) -> str:
        """Of length n."""
        if depth == 0:
            return self.one("x", "x", "y", "z")
        part = self.vector(depth - 1)
        return self.one(
            f"{self.one(*ELEMENTWISE)}({part})", f"(B*{part})", f"(A'*{self.rows(depth - 1)})", f"(S*({part} - y))",
            f"({part} .* {self.vector(depth - 1)})", f"({part}/norm2({part}))", f"(inv(S)*{part})", f"softmax({part})",
            f"(X'*{self.rows(depth - 1)})", f"(c*{part})",
        )  # fmt: skip

    def rows(self, depth: int) -> str:
        """Of length m."""
        part = self.vector(max(depth - 1, 0))
        return self.one(f"(A*{part} - b)", f"tanh(X*{part})", f"exp(A*{part} + b)", f"(b .* (X*{part}))")

    def number(self) -> str:
        u, v = self.vector(2), self.vector(1)
        return self.one(
            f"sum({u})", f"({u})'*({v})", f"log(sum(exp({u})))", f"norm2({u})^2", f"norm2({u})", f"({u})'*B*({v})",
            f"logdet(S + x*x') + sum({u})", f"exp(-norm2({u})^2)", f"tr(X'*X*B) + norm2({self.rows(2)})^2",
            f"sum(log(1 + exp({self.rows(2)})))", f"({u})'*S*x/(x'*x)", f"c*norm1({u}) + sum(({v}).^3)",
        )  # fmt: skip


def random_functions(count: int, seed: int = 0) -> Iterator[tuple[str, Expr, list[str]]]:
    """Second and third derivatives, in turns, by the vector x or a matrix."""
    drawn = RandomFunctions(seed)
    made = 0
    while made < count:
        text = drawn.number()
        function = parse(text, DECLARED)
        names = {v.name for v in ed.variables(function)}
        by = "X" if "X" in names and made % 4 == 1 else "x"
        if by in names:
            order = 2 + made % 2 if by == "x" else 2
            yield f"{text} by {by}, order {order}", function, [by] * order
            made += 1
