"""What is compared for each program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

import eindiff as ed
from eindiff.core.nodes import Expr, Variable
from fuzz import libraries
from fuzz.jets import Array, Jet
from fuzz.programs import FoundError, Program, Random, Writer

RTOL = 1e-8  # of the largest number on the way: what cancels leaves rounding errors of that size
MODES = ("reverse", "forward", "cross_country", "auto")
ENTRIES = 5000  # of a derivative
SLOW = ("expm", "logm", "sqrtm", "chol")  # functions whose third derivatives take many seconds


@dataclass
class Case:
    """A program as an expression, with what jets say of it."""

    program: Program
    expr: Any  # an expression; None in a function that is traced
    expected: Jet
    largest: float
    rng: Random

    @classmethod
    def of(cls, writer: Writer, **more: Any) -> Any:
        expr, expected = writer.finish()
        return cls(writer.program, expr, expected, max(1.0, writer.largest), writer.rng, **more)

    @property
    def text(self) -> str:
        return self.program.text

    def close(self, what: str, actual: Any, expected: Any, rtol: float = RTOL) -> None:
        """Refuse a value that is another."""
        actual, expected = np.asarray(actual), np.asarray(expected)
        if actual.shape != expected.shape:
            raise FoundError(f"{what}: shape {actual.shape} instead of {expected.shape}")
        error = np.abs(actual - expected).max(initial=0.0) if actual.size else 0.0
        scale = max(self.largest, float(np.abs(expected).max(initial=0.0)))
        if not error <= rtol * scale:
            raise FoundError(f"{what}: off by {error:.2e}, numbers up to {scale:.1e}")

    def check(self) -> None:
        """All checks that this program is chosen for."""
        by = self._variables()
        order = self._order()
        found = [self.expr, *(ed.derivative(self.expr, *by[: k + 1], mode=self._mode()) for k in range(order))]
        values = ed.evaluate(found, self.program.arrays, self.program.sizes)
        for k, value in enumerate(values):
            self.close(f"derivative of order {k}", self._along(value, k), self.expected.parts[(1 << k) - 1])
        if order:
            mode = self._mode()
            again = ed.evaluate(
                ed.derivative(self.expr, *by[:order], mode=mode), self.program.arrays, self.program.sizes
            )
            self.close(f"derivative of order {order} in {mode} mode", again, values[order])
        for library in libraries.LIBRARIES:
            results = libraries.run(library, found, self.program.arrays, self.program.sizes)
            for k, value in enumerate(results):
                self.close(f"{library}: compiled derivative of order {k}", value, values[k], 1e-9)
        more: Callable[[Sequence[Expr], Sequence[Variable], Sequence[Array]], None]
        for more in (self._source, self._products, self._structured):
            if self.rng.random() < 0.3:
                more(found, by, values)

    def _variables(self) -> list[Variable]:
        """Those that derivatives are by."""
        declared = [(name, self.program.variables[name]) for name in self.program.by]
        return [ed.tensor(name, one.shape, *one.properties) for name, one in declared]

    def _mode(self) -> str:
        return MODES[int(self.rng.integers(len(MODES)))]

    def _order(self) -> int:
        """As many derivatives as stay small."""
        order, size = 0, max(1, prod(self.expected.shape))
        most = 2 if any(f"ed.{name}(" in self.text for name in SLOW) else 3
        while order < most:
            size *= max(1, self.program.directions[order].size)
            if size > ENTRIES or (order and self.rng.random() < 0.3):
                break
            order += 1
        return order

    def _along(self, value: Array, order: int) -> Array:
        """A derivative along the directions."""
        for direction in reversed(self.program.directions[:order]):
            value = np.tensordot(value, direction, direction.ndim)
        return value

    # Each of these is for some of the programs

    def _source(self, found: Sequence[Expr], by: Sequence[Variable], values: Sequence[Array]) -> None:
        """The source that people read runs, and gives the same."""
        function = libraries.from_source(found[-1])
        self.close("the readable source", function(self.program.arrays, self.program.sizes), values[-1], 1e-9)

    def _products(self, found: Sequence[Expr], by: Sequence[Variable], values: Sequence[Array]) -> None:
        """Derivatives along directions, which never form the whole."""
        if len(values) < 2:
            return
        x, arrays, sizes = by[0], self.program.arrays, self.program.sizes
        v = ed.tensor("direction", x.shape)
        along = {**arrays, "direction": self.program.directions[0]}
        self.close("jvp", ed.evaluate(ed.jvp(self.expr, x, v), along, sizes), self._along(values[1], 1))
        if all(isinstance(size, int) or size in sizes for size in self.expr.shape):
            weights = self.rng.uniform(-1, 1, values[0].shape)
            pulled = ed.vjp(self.expr, x, ed.tensor("weights", self.expr.shape))
            found = ed.evaluate(pulled, {**arrays, "weights": weights}, sizes)
            self.close("vjp", found, np.tensordot(weights, values[1], weights.ndim))
        if len(values) > 2 and by[0] is by[1] and not self.expr.shape:
            self.close("hvp", ed.evaluate(ed.hvp(self.expr, x, v), along, sizes), self._tensordot(values[2]))
            if x.ndim == 1:
                diagonal = ed.evaluate(ed.hessian_diagonal(self.expr, x), arrays, sizes)
                self.close("hessian_diagonal", diagonal, values[2].diagonal())

    def _tensordot(self, hessian: Array) -> Array:
        return np.tensordot(hessian, self.program.directions[0], self.program.directions[0].ndim)

    def _structured(self, found: Sequence[Expr], by: Sequence[Variable], values: Sequence[Array]) -> None:
        """The structured value is the dense one, in each of its forms."""
        k = len(values) - 1
        if not 1 <= k <= 2:
            return
        if not values[k].size:
            return
        operator = ed.structured(found[k], self.program.arrays, self.program.sizes)
        self.close("structured", operator.as_tensor(), values[k])
        columns = self.program.variables[self.program.by[k - 1]].value.shape
        vector = self.rng.uniform(-1, 1, columns)
        self.close("structured product", operator.mv(vector), np.tensordot(values[k], vector, vector.ndim))
