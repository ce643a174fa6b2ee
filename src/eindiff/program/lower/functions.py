"""Functions of the table as operations."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from eindiff.core import construct
from eindiff.core import sizes as sz
from eindiff.core.coefficients import HALF
from eindiff.core.leaves import BANDS, TRIANGLES
from eindiff.core.nodes import Apply, Map, Variable
from eindiff.core.sizes import Evaluate
from eindiff.facts.definiteness import is_symmetric
from eindiff.functions.guards import ALIKE
from eindiff.functions.opaque import REGISTRY
from eindiff.functions.powers import power_terms
from eindiff.planning import tuning
from eindiff.planning.contraction_order import ENTRIES_IN_ROW
from eindiff.program.costs import Costs
from eindiff.program.lower.halves import half, solution
from eindiff.program.operations import (
    ARITHMETIC,
    FUNCTION,
    LAPACK,
    Operation,
    Operations,
    Work,
    broadcast,
    is_call,
    is_number,
)

OF_MANY = ("step", "sigmoid", "softplus", "relu", "winner")
_WEIGHTED = ("log_weighted_sum", "weighted_softmax")
_MATRIX_FUNCTIONS = ("expm", "logm", "sqrtm")
_DETERMINANTS = ("det", "logdet", "logabsdet", "signdet")


def elementwise(operations: Operations, node: Map, args: Sequence[Operation], costs: Costs | None) -> Operation:
    """An elementwise function of arrays that broadcast against each other."""
    name = node.function.name
    if operations.conditions and name == "step" and args[0].shape:
        return _condition(operations, args[0])
    if operations.functional:
        args = _with_an_array(operations, args, first=int(name == "where"))
    quick = _of_many(operations, name, args, costs)
    if found := quick or _power(operations, name, node.function.parameter, args):
        return found
    if name.startswith("divided_"):
        return operations.make("divided", args, (name,), speed=FUNCTION)
    args = [operations.number(float(x.parameters[0])) if x.op == "number" else x for x in args]
    if name == "where" and (is_call(args[0], "greater") or is_call(args[0], "at_least")):
        return _choice(operations, *args)
    return operations.make("call", args, (name,), speed=ARITHMETIC if node.function.simple else FUNCTION)


def _power(operations: Operations, name: str, parameter: Any, args: Sequence[Operation]) -> Operation | None:
    """A power, or a derivative of one; None for another function."""
    if name == "pow":
        return operations.power(args[0], parameter)
    if name == "power":
        return operations.make("raise", args, speed=FUNCTION)
    if name == "power_derivative":
        return operations.make("call", args, (name, parameter[0], power_terms(*parameter)), speed=FUNCTION)
    return None


def softmax(operations: Operations, x: Operation, axis: int) -> Operation:
    """The softmax along an axis: one exponential of each entry, where `exp(x - logsumexp(x))` takes two."""
    return operations.make("call", [x], ("softmax", axis), shape=x.shape, speed=FUNCTION)


def _condition(operations: Operations, x: Operation) -> Operation:
    """1 where x > 0, else 0."""
    return operations.make("mask", [operations.make("positive", [x])])


def _of_many(operations: Operations, name: str, args: Sequence[Operation], costs: Costs | None) -> Operation | None:
    """A function of many entries by quicker ones: comparing instead of heaviside, exp instead of SciPy's sigmoid, and
    exp and log1p, which take several numbers at a time, instead of logaddexp. None where there are none."""
    if not costs or operations.functional or name not in OF_MANY:
        return None
    if costs.entries(broadcast([x.shape for x in args])) < tuning.MANY_ENTRIES:
        return None
    x = args[0]
    if name == "winner":
        return _of_two(operations, *args)
    if name == "step":
        return _condition(operations, x)

    def call(function: str, *args: Operation) -> Operation:
        return operations.make("call", args, (function,), speed=FUNCTION)

    relu = "clipped" if costs.size(x) >= tuning.IN_PLACE_BYTES else "relu"
    if name == "relu":
        return operations.make("call", [x], (relu,))
    if name == "softplus":
        small = call("log1p", call("exp", operations.scale(-1, call("abs", x))))
        return operations.plus([(1, call(relu, x)), (1, small)])
    if x in operations.exponentials:  # that of -x is there
        known = operations.exponentials[x]
        return operations.make("complement", [known, operations.make("logistic", [known])])
    negative = operations.scale(-1, x)
    exponential = operations.exponentials[negative] = call("exp", negative)
    return operations.make("logistic", [exponential])


def _choice(operations: Operations, compared: Operation, *args: Operation) -> Operation:
    """One of two where a > b or a >= b, else the other; 1 or 0 by the comparison itself, as np.where takes a branch for
    each entry."""
    chosen = [x.parameters[0] if x.op == "number" else None for x in args]
    if not operations.functional and chosen in ([1, 0], [0, 1]):
        return compared if chosen[0] else operations.plus([(1, operations.number(1)), (-1, compared)])
    return operations.make("call", [*compared.operands, *args], (f"where_{compared.parameters[0]}",))


def _of_two(operations: Operations, a: Operation, b: Operation) -> Operation:
    """1 where a > b, 1/2 where they are equal, else 0: by signs, as np.heaviside takes a branch for each entry."""
    difference = operations.plus([(1, a), (-1, b)]) if b.op != "number" or b.parameters[0] else a
    signs = operations.make("call", [difference], ("sign",))
    return operations.scale(HALF, operations.plus([(1, operations.number(1)), (1, signs)]))


def power_of_norm(operations: Operations, norm: Operation, exponent: int) -> Operation:
    """A power of a norm; one with a reciprocal that is out of range is not a number, since it stands beside others."""
    if exponent >= -1:
        return operations.power(norm, exponent)
    return operations.make("call", [norm], ("inverse_power", -exponent))


def _with_an_array(operations: Operations, args: Sequence[Operation], first: int) -> Sequence[Operation]:
    """Arguments of which one is an array: libraries other than NumPy see from it what type a result has."""
    if not all(map(is_number, args[first:])):
        return args
    return [*args[:first], operations.array(args[first]), *args[first + 1 :]]


def reduction(operations: Operations, name: str, x: Operation, axis: int | None) -> Operation:
    """A function of vectors along one axis (None: of one vector)."""
    shape = () if axis is None else (*x.shape[:axis], *x.shape[axis + 1 :])
    speed = FUNCTION if name == "logsumexp" else ARITHMETIC
    return operations.make("reduce", [x], (name, axis), shape=shape, work=sz.product(x.shape), speed=speed)


def whole(
    operations: Operations, node: Apply, args: Sequence[Operation], shared: bool, costs: Costs | None
) -> Operation:
    """A function of whole tensors; `shared` says that other parts of its factorization are needed too."""
    name = node.function.name
    if name in _WEIGHTED and not operations.functional:
        args = _with_bare_weights(*args)
    if name in REGISTRY:  # computed by the library that the expression came from
        return operations.make("opaque", args, (name,), shape=node.shape, work=_work(node), speed=LAPACK)
    if name == "conditioned":
        return _conditioned(operations, node, args[0])
    if name == "prod":
        return _call(operations, node, args, "products_without", node.function.parameter)
    if name == "expm" and len(args) == 1 and node.ndim == 2:
        return _call(operations, node, args, name)
    if name in _MATRIX_FUNCTIONS:
        return _call(operations, node, args, "matrix_function", name)
    if name in _DETERMINANTS and (entries := _factors(operations, node, args[0], costs)) is not None:
        return _of_diagonal(operations, name, entries)
    if name == "inv" and operations.functional and (kind := half(operations, args[0])) in TRIANGLES:
        units = operations.make("identity", parameters=node.shape[:1], shape=node.shape)
        return solution(operations, args[0], units, kind)
    return _by_factorization(operations, node, args, shared)


def _conditioned(operations: Operations, node: Apply, matrix: Operation) -> Operation:
    """A matrix that is looked at, where programs can: symmetric, if it is so."""
    if operations.functional:
        return matrix
    most, kind, n = ALIKE ** (1 / (node.function.parameter or 1)), half(operations, matrix), node.shape[0]

    def work(evaluate: Evaluate) -> float:
        return 8.0 * evaluate(n) * min(evaluate(n), 2 * ENTRIES_IN_ROW.get(kind, np.inf))

    made = operations.make("call", [matrix], ("well_conditioned", kind, most), shape=node.shape, work=work)
    operations.symmetric.update([made] if matrix in operations.symmetric else [])
    return made


def _call(operations: Operations, node: Apply, args: Sequence[Operation], *parameters: Any) -> Operation:
    speed = FUNCTION if node.function.name in _WEIGHTED else LAPACK
    return operations.make("call", args, parameters, shape=node.shape, work=_work(node), speed=speed)


def _by_factorization(operations: Operations, node: Apply, args: Sequence[Operation], shared: bool) -> Operation:
    """A part of a factorization, or what the library computes without others."""
    function = node.function
    if function.symmetrizes and not _is_symmetric(node):
        args = [symmetrized(operations, args[0], node.args[0].ndim)]
    if function.part is None or (function.alone and not shared):
        return _call(operations, node, args, function.alone or function.name)
    factors = _call(operations, node, args, function.factorization)
    return operations.make("part", [factors], function.part, shape=node.shape)


def _with_bare_weights(x: Operation, weights: Operation) -> list[Operation]:
    """An array and its weights, not repeated along axes: as an array they would decide how the result lies."""
    return [x, *weights.operands] if weights.op == "repeat" and x.shape == weights.shape else [x, weights]


def _factors(operations: Operations, node: Apply, matrix: Operation, costs: Costs | None) -> Operation | None:
    """The entries that the determinant of a matrix with few of them is the product of; None for another one."""
    if len(matrix.shape) != 2:
        return None
    if matrix.op == "diagonal_matrix":
        return matrix.operands[0]
    arg, output = node.args[0], construct.parts(node.args[0])[2]
    is_diagonal = output[0] == output[1] or (isinstance(arg, Variable) and "diagonal" in arg.properties)
    kind = half(operations, matrix)
    if is_diagonal or kind in TRIANGLES:
        return operations.make("diagonal", [matrix], ("ii->i",), shape=matrix.shape[:1])
    is_large = costs is not None and not operations.functional and costs.entries(matrix.shape[:1]) >= tuning.TRIANGLE
    if kind not in BANDS or not is_large:
        return None
    work = sz.product((matrix.shape[0], ENTRIES_IN_ROW[kind] ** 2))
    return operations.make("call", [matrix], ("band_pivots", kind), shape=matrix.shape[:1], work=work)


def _of_diagonal(operations: Operations, name: str, entries: Operation) -> Operation:
    """A determinant, its logarithm or its sign, from factors; the logarithm is no number unless the sign is 1."""

    def call(name: str, x: Operation, speed: str = FUNCTION) -> Operation:
        return operations.make("call", [x], (name,), speed=speed)

    if name == "det":
        return reduction(operations, "prod", entries, None)
    sign = reduction(operations, "prod", call("sign", entries, ARITHMETIC), None)
    if name == "signdet":
        return sign
    logarithms = call("log", call("abs", entries, ARITHMETIC))
    total = operations.make("sum", [logarithms], shape=(), work=sz.product(entries.shape))
    if name == "logabsdet":
        return total
    return operations.plus([(1, total), (1, operations.scale(0, call("log", sign)))])


def _work(node: Apply) -> Work:
    """The function's own operations for each of its batches; forming an inverse takes three times its factorization."""
    function, arg = node.function, node.args[0]
    assert function.flops is not None
    flops = function.flops
    core = arg.shape[arg.ndim - function.core[0] :]
    batch = node.shape[: len({label for labels in node.batch for label in labels})]
    times = 3 if function.name == "inv" else 1

    def work(evaluate: Evaluate) -> float:
        return times * prod(map(evaluate, batch)) * flops(*map(evaluate, core))

    return work


def _is_symmetric(node: Apply) -> bool:
    [arg], axes = node.args, tuple(range(node.args[0].ndim))
    return ((*axes[:-2], axes[-1], axes[-2]), 1) in arg.symmetries or (arg.ndim == 2 and is_symmetric(arg))


def symmetrized(operations: Operations, x: Operation, ndim: int) -> Operation:
    """(A + A') / 2, as the table defines functions of symmetric matrices."""
    mirrored = operations.transpose(x) if ndim == 2 else operations.make("swap", [x])
    return operations.make("mean", [x, mirrored])
