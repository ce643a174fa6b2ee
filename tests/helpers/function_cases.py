"""A case for each function of the table and each public function of tensors, written for any library."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from zlib import crc32

import numpy as np

import eindiff as ed
from eindiff.core import construct
from eindiff.core.nodes import Expr
from eindiff.functions.elementwise import TABLE
from oracles import sample


def _internal(name: str) -> Callable[..., Expr]:
    """The function of a row that has no public function of its own."""
    row = TABLE[name]
    build = construct.apply if row.core else construct.map_
    return lambda *args: build(row, args)


DIVIDED = [name for name in TABLE if name.startswith("divided_")]
MARKS = ("gaps", "simple", "nonzero", "nonzero_pairs")
WEIGHTED = ("log_weighted_sum", "weighted_softmax")
DETERMINANTS = ("signdet", "logabsdet")
INTERNAL = ("winner", "at_least", "argmax", "alike", "conditioned", "inverse_or_zero", "stop_gradient")
INTERNAL += ("power_derivative", *DETERMINANTS, *WEIGHTED, *MARKS, *DIVIDED)

# eindiff with the rows that only derivatives use
LIBRARY = SimpleNamespace(
    **{name: getattr(ed, name) for name in dir(ed) if not name.startswith("_")},
    **{name: _internal(name) for name in INTERNAL if not hasattr(ed, name)},
)


@dataclass(frozen=True)
class Case:
    """One function, written for any library, with the domains and shapes of its arguments."""

    covers: str  # the row or public function
    function: Callable[..., Any]
    arguments: dict[str, tuple]  # (domain, size, size, ...) of each
    label: str = ""
    order: int = 2
    stack: int = 0  # the order to check on a stack; 0: it takes no leading batch axes

    @property
    def id(self) -> str:
        return f"{self.covers} {self.label}".strip()

    def arrays(self, *batch: int) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(crc32(self.id.encode()))
        return {n: sample(domain, batch + tuple(shape), rng) for n, (domain, *shape) in self.arguments.items()}


def case(covers: str, function: Callable, label: str = "", order: int = 2, stack: int = 0, **arguments: tuple) -> Case:
    return Case(covers, function, arguments, label, order, stack)


def unary(name: str, domain: str = "real") -> Case:
    """An elementwise function of one argument, checked to order 3."""
    return case(name, lambda lib, x: getattr(lib, name)(x), order=3, x=(domain, 4))


ELEMENTWISE = [
    *map(unary, ("exp", "expm1", "abs", "sign", "sin", "cos", "tan", "arctan", "sinh", "cosh", "tanh")),
    *map(unary, ("sigmoid", "softplus", "relu", "step", "erf", "square")),
    unary("log", "positive"),
    unary("log1p", "above -1"),
    unary("arcsin", "between -1 and 1"),
    unary("arccos", "between -1 and 1"),
    case("isnan", lambda xp, x: x * (1 - xp.isnan(x)), order=3, stack=1, x=("real", 3)),
    *map(unary, ("arcsinh", "floor", "ceil", "trunc", "rint", "erfc", "log_ndtr")),
    unary("arccosh", "above 1"),
    unary("arctanh", "between -1 and 1"),
    unary("erfinv", "between -1 and 1"),
    unary("cbrt", "nonzero"),
    unary("gammaln", "anything but 0 and negative integers"),
    unary("digamma", "anything but 0 and negative integers"),
    case("arctan2", lambda lib, y, x: lib.arctan2(y, x), order=3, y=("nonzero", 3), x=("nonzero", 3)),
    case("polygamma", lambda lib, x: lib.polygamma(2, x), order=3, x=("positive", 3)),
    unary("inverse_or_zero", "nonzero"),
    case("stop_gradient", lambda lib, x: lib.stop_gradient(lib.step(x)), order=3, x=("nonzero", 3)),
    unary("reciprocal", "nonzero"),
    unary("sqrt", "positive"),
    case("pow", lambda lib, x: lib.power(x, 2.5), order=3, x=("positive", 4)),
    case("pow", lambda lib, x: lib.power(x, 0.3), "to a root", order=3, x=("positive", 4)),
    case("pow", lambda lib, x: x**3, "cubed", order=3, x=("real", 4)),
    case("pow", lambda lib, x: x**-2, "to -2", order=3, x=("nonzero", 4)),
    case("power", lambda lib, x, y: lib.power(x, y), order=3, x=("positive", 3), y=("real", 3)),
    case("power", lambda lib, x, y: x**y, "broadcast", x=("positive", 2, 3), y=("real", 3)),
    case("power", lambda lib, y: 2.0**y, "of a number", order=3, y=("real", 4)),
    case("power_derivative", lambda lib, x, y: lib.power_derivative(x, y), order=3, x=("positive", 3), y=("real", 3)),
    case("winner", lambda lib, x, y: lib.winner(x, y), order=3, x=("real", 3), y=("real", 3)),
    case("maximum", lambda lib, x, y: lib.maximum(x, y) ** 3, order=3, x=("real", 3), y=("real", 3)),
    case("minimum", lambda lib, x, y: lib.minimum(x, y) ** 3, x=("real", 2, 3), y=("real", 3)),
    case("at_least", lambda lib, x, y: lib.at_least(x, y), order=3, x=("real", 3), y=("real", 3)),
    case("greater", lambda lib, x, y: lib.greater(x, y), order=3, x=("real", 3), y=("real", 3)),
    case("greater", lambda lib, x, y: (x > y) * x * y, "times", x=("real", 3), y=("real", 3)),
    case(
        "where", lambda lib, c, x, y: lib.where(c > 0, x * y, y**3),
        order=3, c=("real", 3), x=("real", 3), y=("real", 3),
    ),
    case("where", lambda lib, c, x: lib.where(c, x**3, 2.0), "of an array", c=("real", 2, 3), x=("real", 3)),
]  # fmt: skip


def divided(name: str) -> Case:
    """A divided difference of two points."""
    domain = TABLE[name].domain
    return case(name, lambda lib, x, y: getattr(lib, name)(x, y), x=(domain, 3), y=(domain, 3))


ELEMENTWISE += map(divided, DIVIDED)


def along(name: str, domain: str = "real", order: int = 2) -> list[Case]:
    """A reduction of all axes, of each axis of a matrix, and of two axes of three."""

    def reduce(axis: Any) -> Callable:
        return lambda lib, x: getattr(lib, name)(x, axis)

    return [
        case(name, reduce(None), "of all", order, x=(domain, 2, 4)),
        case(name, reduce(0), "along 0", order, x=(domain, 2, 4)),
        case(name, reduce(-1), "along -1", order, stack=2, x=(domain, 4)),
        case(name, reduce((0, 2)), "along 0 and 2", order, x=(domain, 2, 3, 2)),
    ]


REDUCTIONS = [
    *along("sum"),
    *along("mean"),
    *along("prod"),
    *along("max", "distinct entries"),
    *along("min", "distinct entries"),
    *along("norm1"),
    *along("norm2"),
    *along("logsumexp"),
    case(
        "log_weighted_sum", lambda lib, x, w: lib.log_weighted_sum(x, w),
        order=3, stack=2, x=("real", 4), w=("positive", 4),
    ),
    case(
        "weighted_softmax", lambda lib, x, w: lib.weighted_softmax(x, w),
        order=3, stack=2, x=("real", 4), w=("positive", 4),
    ),
    case("alike", lambda lib, x: lib.alike(1 + lib.step(x)), stack=2, x=("nonzero", 4)),
    case("conditioned", lambda lib, A: lib.conditioned(1 + lib.step(A)), A=("nonzero", 2, 2)),
    case("argmax", lambda lib, x: lib.argmax(x), stack=2, x=("distinct entries", 4)),
    *(
        case(name, lambda lib, x, name=name: getattr(lib, name)(x), stack=2, x=(TABLE[name].domain, 4))
        for name in MARKS
    ),
    case("prod", lambda lib, x: lib.prod(x), "to order 3", order=3, x=("real", 4)),
    case("softmax", lambda lib, x: lib.softmax(x), stack=2, x=("real", 4)),
    case("softmax", lambda lib, x: lib.softmax(x, axis=0), "along 0", x=("real", 4, 2)),
    case("cumsum", lambda lib, x: lib.cumsum(x), stack=2, x=("real", 4)),
    case("cumsum", lambda lib, x: lib.cumsum(x, axis=0), "along 0", x=("real", 4, 2)),
]  # fmt: skip


def square(name: str, domain: str = "invertible", stack: int = 2) -> Case:
    """A function of a square matrix."""
    return case(name, lambda lib, A: getattr(lib, name)(A), stack=stack, A=(domain, 3, 3))


def rectangular(name: str, domain: str = "distinct singular values") -> list[Case]:
    """A function of a matrix that may be wide or tall."""

    def function(lib: Any, A: Any) -> Any:
        return getattr(lib, name)(A)

    return [
        case(name, function, "of a wide matrix", stack=2, A=(domain, 2, 4)),
        case(name, function, "of a tall matrix", A=(domain, 4, 3)),
    ]


def matrix_power(exponent: int) -> Case:
    domain = ("invertible", 3, 3)
    return case("matrix_power", lambda lib, A: lib.matrix_power(A, exponent), f"to {exponent}", stack=2, A=domain)


def _reassembled(lib: Any, left: Any, values: Any, right: Any) -> Any:
    """`U g(Λ) V'`, which does not depend on the signs that the eigenvectors or singular vectors happen to have."""
    return lib.einsum("ip,p,jp->ij", left, lib.exp(values), right)


MATRICES = [
    case("tr", lambda lib, A: lib.tr(A @ A @ A), stack=2, A=("real", 3, 3)),
    case("diag", lambda lib, x: lib.diag(x * x * x), "of a vector", x=("real", 4)),
    case("diag", lambda lib, A: lib.diag(A @ A), "of a matrix", A=("real", 3, 3)),
    square("inv"),
    case("inv", lambda lib, A: lib.inv(A), "to order 3", order=3, A=("invertible", 2, 2)),
    square("det"),
    square("logdet", "positive determinant"),
    square("signdet"),
    square("logabsdet"),
    square("adj"),
    *(matrix_power(exponent) for exponent in (0, 1, 2, 3, 5, -1, -2, -3)),
    case("solve", lambda lib, A, b: lib.solve(A, b), "for a vector", A=("invertible", 3, 3), b=("real", 3)),
    case("solve", lambda lib, A, B: lib.solve(A, B), "for a matrix", stack=1, A=("invertible", 3, 3), B=("real", 3, 2)),
    *rectangular("pinv", "full rank"),
    square("chol", "positive definite"),
    case("expm", lambda lib, A: lib.expm(A), stack=1, A=("real", 2, 2)),
    case("logm", lambda lib, A: lib.logm(A), stack=1, A=("no eigenvalue on the negative axis", 2, 2)),
    square("sqrtm", "no eigenvalue on the negative axis", stack=1),
    square("eigvals", "symmetric, distinct eigenvalues"),
    square("lambdamax", "symmetric, distinct eigenvalues"),
    case(
        "eigvecs", lambda lib, A: _reassembled(lib, lib.eigvecs(A), lib.eigvals(A), lib.eigvecs(A)),
        A=("symmetric, distinct eigenvalues", 3, 3),
    ),
    case(
        "eigvecs", lambda lib, A: lib.eigvecs(A) ** 2, "squared", stack=2, A=("symmetric, distinct eigenvalues", 3, 3)
    ),
    *rectangular("svdvals"),
    *rectangular("normnuc"),
    *rectangular("normspec"),
    *(
        case(name, function, label, A=("distinct singular values", *shape))
        for name, function in (
            ("svdleft", lambda lib, A: _reassembled(lib, lib.svdleft(A), lib.svdvals(A), lib.svdleft(A))),
            ("svdright", lambda lib, A: _reassembled(lib, lib.svdright(A), lib.svdvals(A), lib.svdright(A))),
        )
        for label, shape in (("of a wide matrix", (2, 4)), ("of a tall matrix", (4, 3)))
    ),
    case("svdleft", lambda lib, A: lib.svdleft(A) ** 2, "squared", stack=2, A=("distinct singular values", 2, 4)),
    case("svdright", lambda lib, A: lib.svdright(A) ** 2, "squared", stack=2, A=("distinct singular values", 2, 4)),
    case(
        "svdleft", lambda lib, A: _reassembled(lib, lib.svdleft(A), lib.svdvals(A), lib.svdright(A)),
        "with svdright", A=("distinct singular values", 3, 4),
    ),
]  # fmt: skip

ARRAYS = [
    case("einsum", lambda lib, A, B: lib.einsum("ij,kj,ij->ik", A, B, A), A=("real", 2, 3), B=("real", 2, 3)),
    case("einsum", lambda lib, x: lib.einsum("i,j->iji", x, x * x), "with deltas", x=("real", 3)),
    case("matmul", lambda lib, A, B: lib.matmul(A, B) ** 2, stack=2, A=("real", 2, 3), B=("real", 3, 2)),
    case("outer", lambda lib, A, x: lib.outer(A, x), A=("real", 2, 3), x=("real", 4)),
    case("inner", lambda lib, A, B: lib.inner(A, B * B), A=("real", 2, 3), B=("real", 2, 3)),
    case("kron", lambda lib, A, B: lib.kron(A, B), "of matrices", A=("real", 2, 3), B=("real", 3, 2)),
    case("kron", lambda lib, A: lib.kron(A, A), "of a matrix with itself", A=("real", 2, 3)),
    case("kron", lambda lib, x, y: lib.kron(x, y), "of vectors", x=("real", 2), y=("real", 3)),
    case("vec", lambda lib, A: lib.vec(A * A), A=("real", 2, 3)),
    case("reshape", lambda lib, A: lib.reshape(A**3, (3, 2, 2)), A=("real", 3, 4)),
    case("transpose", lambda lib, T: lib.transpose(T**3, (2, 0, 1)), T=("real", 2, 3, 2)),
    case("moveaxis", lambda lib, T: lib.moveaxis(T**3, 2, 0), T=("real", 2, 3, 2)),
    case("concatenate", lambda lib, x, y: lib.concatenate([x * x, y, x]) ** 2, x=("real", 2), y=("real", 3)),
    case("stack", lambda lib, x, y: lib.stack([x * y, y], 1) ** 2, x=("real", 3), y=("real", 3)),
    case("take", lambda lib, x: lib.take(x * x * x, [2, 0, 2]), x=("real", 3)),
    case("ones", lambda lib, x: lib.ones(2, 3) * x * x, x=("real", 3)),
    case("zeros", lambda lib, x: lib.zeros(2, 3) + x * x, x=("real", 3)),
    case("eye", lambda lib, x: lib.eye(3) * x * x, x=("real", 3)),
]

WHOLE = REDUCTIONS + MATRICES + ARRAYS
CASES = ELEMENTWISE + WHOLE
