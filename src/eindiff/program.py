"""From expressions to a straight-line program for known sizes: products of two tensors, sums, and functions.

Equal steps are one step, also across outputs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from eindiff import sizes as sz
from eindiff.expr import Add, Apply, Constant, Einsum, Expr, Map, Variable, topological
from eindiff.functions import Function
from eindiff.labels import Labels, first_appearance
from eindiff.order import contraction_path, pair_flops, share


@dataclass(frozen=True, slots=True)
class Step:
    """One operation: what it does to which values, the shape of its result, and its number of operations."""

    target: int
    operation: str
    inputs: tuple[int, ...]
    shape: tuple[int, ...]
    flops: float


@dataclass(slots=True)
class Program:
    """Steps in order, and which values are the outputs."""

    steps: list[Step] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)  # of the inputs

    @property
    def flops(self) -> float:
        """Operations in all."""
        return sum(step.flops for step in self.steps)


def plan(outputs: Sequence[Expr], sizes: Mapping[str, int], strategy: str = "auto") -> Program:
    """The program that computes the outputs, for the given sizes: with contractions as they are or parts shared,
    whichever costs less."""
    programs = [_Planner(sizes, strategy).run(candidate) for candidate in (outputs, share(outputs))]
    return min(programs, key=lambda program: program.flops)


def letters(labels: Sequence[int]) -> str:
    """Labels as letters a, b, c, ..., or as numbers beyond these."""
    return "".join(chr(ord("a") + x) if x < 26 else f"({x})" for x in labels)


def function_name(function: Function) -> str:
    """A function with its parameter, as a step shows it."""
    return function.name if function.parameter is None else f"{function.name}[{function.parameter}]"


class _Planner:
    """Lowers nodes one by one; values are numbers, equal steps are found by their key."""

    def __init__(self, sizes: Mapping[str, int], strategy: str) -> None:
        self.bindings = sizes
        self.strategy = strategy
        self.program = Program()
        self.values: dict[Expr, int] = {}
        self.known: dict[tuple, int] = {}
        self.factored: set[tuple] = set()
        self.count = 0

    def run(self, outputs: Sequence[Expr]) -> Program:
        order = topological(outputs)
        self.formed = self._formed_inverses(order, outputs)
        for node in order:
            self.values[node] = self._lower(node)
        self.program.outputs = [self.values[output] for output in outputs]
        return self.program

    @staticmethod
    def _formed_inverses(order: Sequence[Expr], outputs: Sequence[Expr]) -> set[Expr]:
        """The inverses that are needed themselves, and not only contracted with something (which is a solve)."""
        formed = set(outputs)
        for node in order:
            if not isinstance(node, Einsum) or node.is_product:
                formed.update(node.children)
            else:
                for operand, labels in zip(node.operands, node.labels, strict=True):
                    others = [
                        x for o, ls in zip(node.operands, node.labels, strict=True) if o is not operand for x in ls
                    ]
                    if all(label in others for label in labels):
                        formed.add(operand)
        return formed

    def _sizes(self, shape: Sequence[sz.Size]) -> tuple[int, ...]:
        return tuple([sz.evaluate(size, self.bindings) for size in shape])

    def _emit(self, operation: str, inputs: tuple[int, ...], shape: tuple[int, ...], flops: float) -> int:
        key = (operation, inputs, shape)
        if key not in self.known:
            self.known[key] = self.count
            self.program.steps.append(Step(self.count, operation, inputs, shape, flops))
            self.count += 1
        return self.known[key]

    def _lower(self, node: Expr) -> int:
        inputs = tuple([self.values[child] for child in node.children])
        match node:
            case Variable() | Constant():
                self.program.names[self.count] = node.name if isinstance(node, Variable) else str(node)
                self.count += 1
                return self.count - 1
            case Einsum():
                return self._einsum(node)
            case Add():
                return self._emit("add", inputs, self._sizes(node.shape), self._add_flops(node))
            case Map():
                shape = self._sizes(node.shape)
                return self._emit(function_name(node.function), inputs, shape, float(prod(shape)))
            case Apply():
                return self._emit(
                    function_name(node.function), inputs, self._sizes(node.shape), self._apply_flops(node)
                )
        raise AssertionError(f"a node of unknown kind: {type(node)}")

    def _add_flops(self, node: Add) -> float:
        """An addition for each entry of a term that is not structurally zero, after the first term."""
        entries = []
        for term in node.terms:
            labels = set(term.output) if isinstance(term, Einsum) else set()
            shape = [term.sizes[x] for x in labels] if isinstance(term, Einsum) else term.shape
            entries.append(prod(self._sizes(shape)))
        return float(sum(sorted(entries)[:-1]))

    def _apply_flops(self, node: Apply) -> float:
        """The function's own operations for each batch; a shared factorization counts once, a formed inverse more."""
        function, arg = node.function, node.args[0]
        core = self._sizes(arg.shape[arg.ndim - function.core[0] :])
        batched = sorted({label for labels in node.batch for label in labels})
        batch = prod(self._sizes(node.shape[: len(batched)]))
        assert function.flops is not None
        own = function.flops(*core)
        extra = 2 * own if function.name == "inv" and node in self.formed else 0.0
        key = (function.factorization, arg)
        if function.factorization and key in self.factored:
            own = 0.0
        self.factored.add(key)
        return batch * (own + extra)

    def _einsum(self, node: Einsum) -> int:
        """A product or contraction as products of two, in the chosen order."""
        sizes = dict(enumerate(self._sizes(node.sizes)))
        bound = {label for labels in node.labels for label in labels}
        core = tuple([label for label in dict.fromkeys(node.output) if label in bound])
        terms = [
            self._reduced(self.values[o], ls, node, sizes) for o, ls in zip(node.operands, node.labels, strict=True)
        ]
        path = contraction_path(
            [labels for _, labels in terms], core, sizes, self.strategy, [value for value, _ in terms]
        )
        for i, j in path:
            first, second = terms[i], terms[j]
            terms = [term for k, term in enumerate(terms) if k not in (i, j)]
            kept = set(core).union(*(labels for _, labels in terms))
            terms.append(self._pair([first, second], kept, sizes))
        if node.output == core and node.coefficient == 1 and terms and terms[0][1] == core:
            return terms[0][0]
        scaled = f"{node.coefficient} * " if node.coefficient != 1 else ""
        operation = f"{scaled}{letters(terms[0][1]) if terms else ''}->{letters(node.output)}"
        return self._emit(operation, tuple([value for value, _ in terms]), self._sizes(node.shape), 0.0)

    def _reduced(self, value: int, labels: Labels, node: Einsum, sizes: Mapping[int, int]) -> tuple[int, Labels]:
        """An operand with what it alone has summed away, and its diagonal taken."""
        uses = Counter(label for ls in node.labels for label in set(ls))
        kept = {label for label in labels if uses[label] > 1 or label in node.output}
        if kept == set(labels) and len(kept) == len(labels):
            return value, labels
        return self._pair([(value, labels)], kept, sizes)

    def _pair(self, terms: list[tuple[int, Labels]], kept: set[int], sizes: Mapping[int, int]) -> tuple[int, Labels]:
        """The product of two values (or the sum over axes of one), labels named so that equal products are found."""
        terms = sorted(terms)
        names = first_appearance(labels for _, labels in terms)
        inputs = ",".join(letters([names[x] for x in labels]) for _, labels in terms)
        result = tuple([label for label in names if label in kept])
        operation = f"{inputs}->{letters([names[x] for x in result])}"
        flops = pair_flops(names, result, sizes) / (1 if len(terms) == 2 else 2)
        shape = tuple([sizes[label] for label in result])
        return self._emit(operation, tuple([value for value, _ in terms]), shape, flops), result
