"""Derivatives: the pushforward and the pullback of each kind of node, one function a theorem of the paper.

A derivative has the axes of the function first, then those of the variable. In forward mode every node v gets its
pushforward v̇ = ∂v/∂x (axes of v, then of x), in reverse mode its pullback v̄ = ∂y/∂v (axes of y, then of v).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, overload

from eindiff.calculus.kinks import chain, pullbacks_at_kinks
from eindiff.calculus.spectra import swept
from eindiff.core import construct
from eindiff.core.construct import Factor, add, einsum
from eindiff.core.derivation import derived, hiding
from eindiff.core.errors import EindiffError, shape_text
from eindiff.core.labels import Labels
from eindiff.core.nodes import Add, Apply, Einsum, Expr, Map, Variable, expression, plain, topological
from eindiff.core.rewrite import record
from eindiff.core.sizes import Size
from eindiff.planning.common_parts import share
from eindiff.planning.nesting import flatten, merge, nest_by_tensor_order

if TYPE_CHECKING:
    from eindiff.tracing.numpy.derivatives import DerivativeOfFunction

# Forward mode


def pushforward_multiplication(node: Einsum, dots: Mapping[Expr, Expr], extra: int) -> list[Expr]:
    """Theorem 5: `Ċ = B *_(s2, s1 s4, s3 s4) Ȧ + A *_(s1, s2 s4, s3 s4) Ḃ`, here for any number of operands."""
    sizes = dict(enumerate(node.sizes))
    new = tuple(range(len(sizes), len(sizes) + extra))
    factors = list(zip(node.operands, node.labels, strict=True))
    result = []
    for index, (operand, labels) in enumerate(factors):
        if operand in dots:
            sizes.update(zip(new, dots[operand].shape[operand.ndim :], strict=True))
            moved = [*factors[:index], (dots[operand], labels + new), *factors[index + 1 :]]
            result.append(einsum(node.coefficient, moved, node.output + new, sizes, inline=False))
    return result


def pushforward_general(node: Apply, dots: Mapping[Expr, Expr], extra: int) -> list[Expr]:
    """Theorem 6: `Ċ = f'(A) *_(s2 s1, s1 s3, s2 s3) Ȧ`, with the batch axes of f in common."""
    result = []
    for index, arg in enumerate(node.args):
        if arg not in dots:
            continue
        if node.function.pushforward is not None:
            result.append(node.function.pushforward(node, index, dots[arg]))
        elif (prime := _general_derivative(node, index)) is not None:
            batch, out, core = _general_labels(node, index)
            new = tuple(range(1000, 1000 + extra))
            sizes = _sizes([(prime, batch + out + core), (dots[arg], node.batch[index] + core + new)])
            factors = [(prime, batch + out + core), (dots[arg], node.batch[index] + core + new)]
            result.append(einsum(1, factors, batch + out + new, sizes, inline=False))
    return result


def pushforward_elementwise(node: Map, dots: Mapping[Expr, Expr], extra: int) -> list[Expr]:
    """Theorem 7: `Ċ = f'(A) *_(s1, s1 s2, s1 s2) Ȧ`."""
    own = tuple(range(node.ndim))
    new = tuple(range(node.ndim, node.ndim + extra))
    result = []
    for index, arg in enumerate(node.args):
        prime = node.function.derivatives[index]
        if arg in dots and prime is not None:
            factors = [(prime(*node.args), own), (dots[arg], own + new)]
            result.append(einsum(1, factors, own + new, _sizes(factors), inline=False))
    return result


# Reverse mode


def pullback_multiplication(node: Einsum, bar: Expr, index: int) -> Expr:
    """Theorem 8: C contributes `C̄ *_(s4 s3, s2, s4 s1) B` to Ā, here with all the other operands for B."""
    sizes = dict(enumerate(node.sizes))
    seed = tuple(range(len(sizes), len(sizes) + bar.ndim - node.ndim))
    sizes.update(zip(seed, bar.shape, strict=False))
    others = [f for k, f in enumerate(zip(node.operands, node.labels, strict=True)) if k != index]
    factors: list[Factor] = [(bar, seed + node.output), *others]
    return einsum(node.coefficient, factors, seed + node.labels[index], sizes, inline=False)


def pullback_general(node: Apply, bar: Expr, index: int) -> Expr | None:
    """Theorem 9: C contributes `C̄ *_(s3 s2, s2 s1, s3 s1) f'(A)` to Ā, with the batch axes of f in common."""
    if node.function.pullback is not None:
        return node.function.pullback(node, index, bar)
    prime = _general_derivative(node, index)
    if prime is None:
        return None
    batch, out, core = _general_labels(node, index)
    seed = tuple(range(1000, 1000 + bar.ndim - node.ndim))
    factors = [(bar, seed + batch + out), (prime, batch + out + core)]
    return einsum(1, factors, seed + node.batch[index] + core, _sizes(factors), inline=False)


def pullback_elementwise(node: Map, bar: Expr, index: int) -> Expr | None:
    """Theorem 10: C contributes `C̄ *_(s2 s1, s1, s2 s1) f'(A)` to Ā."""
    prime = node.function.derivatives[index]
    if prime is None:
        return None
    own = tuple(range(node.ndim))
    seed = tuple(range(node.ndim, bar.ndim))
    factors = [(bar, seed + own), (prime(*node.args), own)]
    return einsum(1, factors, seed + own, _sizes(factors), inline=False)


def _general_derivative(node: Apply, index: int) -> Expr | None:
    prime = node.function.derivatives[index]
    return None if prime is None else prime(*node.args)


def _general_labels(node: Apply, index: int) -> tuple[Labels, Labels, Labels]:
    """Labels of the batch, of the core of the result, and of the core of the argument."""
    count = node.function.core[index]
    batched = len({label for labels in node.batch for label in labels})
    end = node.ndim + count
    return tuple(range(batched)), tuple(range(batched, node.ndim)), tuple(range(node.ndim, end))


def _sizes(factors: Sequence[Factor]) -> dict[int, Size]:
    return {label: size for node, labels in factors for label, size in zip(labels, node.shape, strict=True)}


# The two sweeps


def _depends(outputs: Iterable[Expr], on: Iterable[Expr]) -> tuple[list[Expr], set[Expr]]:
    """All nodes in topological order, and those that depend on one of `on`."""
    order, found = topological(outputs), set(on)
    for node in order:
        if node not in found and any(child in found for child in node.children):
            found.add(node)
    return order, found


_THEOREMS = {  # for pushforwards and for pullbacks
    Einsum: ("Theorem 5, pushforward of a multiplication", "Theorem 8, pullback of a multiplication"),
    Apply: ("Theorem 6, pushforward of a general function", "Theorem 9, pullback of a general function"),
    Map: ("Theorem 7, pushforward of an elementwise function", "Theorem 10, pullback of an elementwise function"),
    Add: ("pushforward of a sum", "pullback of a sum"),
}


def pushforwards(y: Expr, x: Expr, seed: Expr) -> dict[Expr, Expr]:
    """Forward mode: `v̇` of every node v of y that depends on x, starting from ẋ = seed."""
    seed = plain(seed)
    order, active = _depends([y], [x])
    dots: dict[Expr, Expr] = {x: seed}
    extra = seed.ndim - x.ndim
    for node in order:
        if node in dots or node not in active:
            continue
        match node:
            case Einsum():
                terms = pushforward_multiplication(node, dots, extra)
            case Add():
                terms = [dots[term] for term in node.terms if term in dots]
            case Map():
                terms = pushforward_elementwise(node, dots, extra)
            case Apply():
                terms = pushforward_general(node, dots, extra)
            case _:
                terms = []
        if terms and not construct.is_zero(total := add(terms)):
            dots[node] = total
            record(_THEOREMS[type(node)][0], "pushforward", (node, x), total)
    for u, bar in pullbacks_at_kinks(y, order, active, [x], unit(y), pullbacks, pushforwards):
        dots[y] = add([*([dots[y]] if y in dots else []), chain(bar, dots[u], y.ndim)])
    return dots


def pullbacks(y: Expr, xs: Iterable[Expr], seed: Expr) -> dict[Expr, Expr]:
    """Reverse mode: `v̄` of every node v of y that depends on one of xs, starting from ȳ = seed."""
    y = plain(y)
    order, active = _depends([y], xs)
    terms: dict[Expr, list[Expr]] = {y: [seed]}
    for u, bar in pullbacks_at_kinks(y, order, active, xs, seed, pullbacks, pushforwards):
        terms.setdefault(u, []).append(bar)
    bars: dict[Expr, Expr] = {}
    for node in reversed(order):
        if node not in active or node not in terms:
            continue
        bar = bars[node] = add(terms.pop(node))
        if construct.is_zero(bar):
            continue
        for index, child in enumerate(node.children):
            if child in active and (term := pullback(node, bar, index)) is not None:
                terms.setdefault(child, []).append(term)
                record(_THEOREMS[type(node)][1], "pullback", (node, child), term)
    return bars


def pullback(node: Expr, bar: Expr, index: int) -> Expr | None:
    """What a node contributes to the pullback of one of its children."""
    match node:
        case Einsum():
            return pullback_multiplication(node, bar, index)
        case Map():
            return pullback_elementwise(node, bar, index)
        case Apply():
            return pullback_general(node, bar, index)
    return bar  # a sum passes its pullback on


def unit(x: Expr) -> Expr:
    """The derivative of a tensor by itself: `-> ijij`, a product that is never formed."""
    labels = tuple(range(x.ndim))
    return einsum(1, [], labels + labels, dict(enumerate(x.shape)))


# Derivatives of any order

Several = list[Any] | tuple[Any, ...]  # variables or their names
Wrt = Any  # a variable, its name, or several of them
SMALL = 50  # nodes; a result of at most so many is written as people would, and what it shares is left to the planner
MODES = ("auto", "reverse", "forward", "cross_country")


def derivative(
    y: Expr, *xs: Expr | str, mode: str = "auto", symmetric: str = "projected", sizes: Mapping[str, int] | None = None
) -> Expr:
    """The derivative of y by each of xs in turn: the axes of y first, then those of each variable.

    `mode` is how the chain rule is multiplied out: `reverse` from y to x, `forward` from x to y, `cross_country`
    in order of increasing tensor order, and `auto` leaves the order to the planner; with `sizes` it takes the mode that
    costs least at these sizes. All give the same values.
    For a symmetric variable the derivative is `projected` (made symmetric), or by the `free` entries.

    >>> from eindiff import vector, matrix
    >>> x, A = vector("x", "n"), matrix("A", "m", "n")
    >>> derivative(A @ x, x) == A
    True
    """
    if mode == "auto" and sizes is not None:
        from eindiff.program.plan import plan  # which needs all that writes source: only when it is asked for

        candidates = [derivative(y, *xs, mode=one, symmetric=symmetric) for one in MODES]
        return min(candidates, key=lambda candidate: plan(candidate, sizes).seconds)
    result = y
    for x in xs:
        [[result]] = _blocks([result], [find_variable(y, x)], mode, symmetric)
    return result


def _blocks(ys: Sequence[Expr], xs: Sequence[Variable], mode: str, symmetric: str) -> list[list[Expr]]:
    """The derivative of each of ys by each of xs. What they share stays shared."""
    if mode not in MODES:
        raise EindiffError(f"mode {mode!r}: choose one of {', '.join(MODES)}")
    if not xs:
        raise EindiffError("no variable to differentiate by is given")
    found = []
    for y in share(ys):
        forward = mode == "forward" or (mode == "auto" and y.ndim > max(x.ndim for x in xs))
        primes = [_pushed(y, x, unit(x)) for x in xs] if forward else _pulled(y, xs, unit(y))
        zeros = [construct.filled(0, y.shape + x.shape) for x in xs]
        found += [_project(z if p is None else p, x, symmetric) for p, z, x in zip(primes, zeros, xs, strict=True)]
    found = _finished(found, mode)
    found = [derived(result, ys[k // len(xs)], by=xs[k % len(xs)]) for k, result in enumerate(found)]
    return [found[start : start + len(xs)] for start in range(0, len(found), len(xs))]


def _finished(found: list[Expr], mode: str = "auto") -> list[Expr]:
    """Results of a sweep in the form that their mode promises."""
    if mode not in ("auto", "cross_country"):
        return found
    found = share(merge(found))
    if mode == "cross_country":
        return nest_by_tensor_order(found)
    return flatten(found) if len(topological(found)) <= SMALL else found


def _pushed(y: Expr, x: Variable, seed: Expr) -> Expr | None:
    """The derivative of y in forward mode, None if it is 0."""
    return swept(y, lambda y: [pushforwards(y, x, seed).get(y)])[0]


def _pulled(y: Expr, xs: Sequence[Variable], seed: Expr) -> list[Expr | None]:
    """The derivatives of y in reverse mode, None where they are 0."""
    return swept(y, lambda y: list(map(pullbacks(y, xs, seed).get, xs)))


def _project(result: Expr, x: Variable, convention: str) -> Expr:
    """The derivative by a symmetric variable, whose axes are the last two."""
    if convention not in ("projected", "free"):
        raise EindiffError(f"symmetric={convention!r}: choose 'projected' or 'free'")
    if not x.symmetries:
        return result
    mirrored = construct.transpose_core(result)
    if convention == "projected":
        return construct.scale(Fraction(1, 2), add([result, mirrored]))
    count = result.ndim
    labels = tuple(range(count))
    diagonal = (*labels[:-1], labels[-2])
    on_diagonal = einsum(1, [(result, diagonal)], diagonal, dict(enumerate(result.shape)))
    return add([result, mirrored, construct.scale(-1, on_diagonal)])


def find_variable(y: Expr, x: Expr | str) -> Variable:
    """The variable that was asked for, by itself or by name."""
    y, x = expression(y), plain(x) if isinstance(x, Expr) else x
    if isinstance(x, Variable):
        if "orthogonal" in x.properties:
            raise EindiffError(
                f"{x} is declared orthogonal, so its entries cannot move freely: declare it without that"
            )
        return x
    known = {node.name: node for node in topological([y]) if isinstance(node, Variable)}
    if isinstance(x, str):
        if x in known:
            return find_variable(y, known[x])
        raise EindiffError(f"there is no variable {x!r} here; the variables are {', '.join(sorted(known)) or 'none'}")
    raise EindiffError(f"derivatives are by variables (or their names), not by {x!r}")


def cut(y: Expr, x: Expr | str, nodes: Sequence[Expr]) -> Expr:
    """`∂y/∂x = Σ_v v̄ *_(s1 sv, sv s2, s1 s2) v̇` over the nodes of a cut between x and y (section 3.3)."""
    y, x, nodes = plain(y), find_variable(y, x), [plain(node) for node in nodes]
    _check_cut(y, x, nodes)
    bars = pullbacks(y, nodes, unit(y))
    terms = []
    for node in dict.fromkeys(nodes):
        if node in bars and (dot := pushforwards(node, x, unit(x)).get(node)) is not None:
            terms.append(chain(bars[node], dot, y.ndim))
    return _project(add(terms), x, "projected") if terms else construct.filled(0, y.shape + x.shape)


def _check_cut(y: Expr, x: Expr, nodes: Sequence[Expr]) -> None:
    """Every path from x to y must pass through exactly one node of the cut."""
    order, active = _depends([y], [x])
    if missing := [node for node in nodes if node not in order]:
        raise EindiffError(f"cut: {missing[0]} is not part of {y}")
    for node in nodes:
        if any(other is not node and other in topological([node]) for other in nodes if other in active):
            raise EindiffError(f"cut: {node} depends on another node of the cut")
    reached, chosen = set(), set(nodes)
    for node in order:
        if node not in chosen and node in active and (node is x or any(c in reached for c in node.children)):
            reached.add(node)
    if y in reached:
        raise EindiffError(f"cut: a path from {x} to {y} passes through none of the nodes")


# What people ask for


def _of_function(kind: str, f: Any, x: Any, mode: str, options: Mapping[str, Any]) -> Any:
    """The derivative of a Python function of arrays, as a function of arrays; None if f is an expression."""
    if callable(f):
        from eindiff.tracing.numpy.derivatives import DerivativeOfFunction

        return DerivativeOfFunction(kind, f, **({} if x is None else {"argnums": x}), mode=mode, **options)
    if options or x is None:
        raise EindiffError(f"{kind} of an expression is by a variable or a list of them, not by {options or None}")
    return None


def _scalar(operation: str, f: Expr) -> None:
    if expression(f).ndim:
        raise EindiffError(f"{operation} needs a scalar function; {f} has shape {shape_text(f.shape)}")


@overload
def gradient(f: Expr, x: Expr | str, mode: str = "auto", symmetric: str = "projected") -> Expr: ...


@overload
def gradient(f: Expr, x: Several, mode: str = "auto", symmetric: str = "projected") -> list: ...


@overload
def gradient(f: Callable[..., Any], x: Wrt = None, mode: str = "auto", **options: Any) -> DerivativeOfFunction: ...


def gradient(f: Any, x: Wrt = None, mode: str = "auto", symmetric: str = "projected", **options: Any) -> Any:
    """The gradient of a scalar function; a list of variables gives a list, from one reverse sweep.

    Of a Python function of NumPy arrays it is a function of the same arguments: `argnums` says by which of them, as
    places or names.
    """
    if (function := _of_function("gradient", f, x, mode, options)) is not None:
        return function
    _scalar("gradient", f)
    return jacobian(f, x, mode, symmetric)


@overload
def jacobian(y: Expr, x: Expr | str, mode: str = "auto", symmetric: str = "projected") -> Expr: ...


@overload
def jacobian(y: Expr, x: Several, mode: str = "auto", symmetric: str = "projected") -> list: ...


@overload
def jacobian(y: Callable[..., Any], x: Wrt = None, mode: str = "auto", **options: Any) -> DerivativeOfFunction: ...


def jacobian(y: Any, x: Wrt = None, mode: str = "auto", symmetric: str = "projected", **options: Any) -> Any:
    """The derivative of y by x, or by each of a list of variables.

    Of a Python function it is a function, as for `gradient`.
    """
    if (function := _of_function("jacobian", y, x, mode, options)) is not None:
        return function
    if not isinstance(x, list | tuple):
        return derivative(y, x, mode=mode, symmetric=symmetric)
    return _blocks([y], [find_variable(y, one) for one in x], mode, symmetric)[0]


@overload
def hessian(f: Expr, x: Expr | str, mode: str = "auto", symmetric: str = "projected") -> Expr: ...


@overload
def hessian(f: Expr, x: Several, mode: str = "auto", symmetric: str = "projected") -> list: ...


@overload
def hessian(f: Callable[..., Any], x: Wrt = None, mode: str = "auto", **options: Any) -> DerivativeOfFunction: ...


def hessian(f: Any, x: Wrt = None, mode: str = "auto", symmetric: str = "projected", **options: Any) -> Any:
    """The second derivative of f by x; a list of variables gives the blocks, cross blocks included.

    Of a Python function it is a function, as for `gradient`; with `structured=True` that gives a `Derivative`.
    """
    if (function := _of_function("hessian", f, x, mode, options)) is not None:
        return function
    if not isinstance(x, list | tuple):
        return derivative(f, x, x, mode=mode, symmetric=symmetric)
    columns = [find_variable(f, one) for one in x]
    return _blocks(_blocks([f], columns, mode, symmetric)[0], columns, mode, symmetric)


def _direction(operation: str, v: Expr | str, shape: tuple) -> Expr:
    if isinstance(v, str):
        return construct.variable(v, shape)
    if expression(v).shape != shape:
        raise EindiffError(
            f"{operation}: the direction {v} has shape {shape_text(v.shape)}, it must be {shape_text(shape)}"
        )
    return v


def jvp(y: Expr, x: Expr | str, v: Expr | str) -> Expr:
    """The derivative of y by x in direction v: forward mode started with ẋ = v."""
    x = find_variable(y, x)
    v = _direction("jvp", v, x.shape)
    if x.symmetries:
        v = _project(v, x, "projected")
    result = _pushed(y, x, v)
    return hiding(construct.filled(0, y.shape) if result is None else _finished([result])[0], y)


def vjp(y: Expr, x: Expr | str, u: Expr | str) -> Expr:
    """The derivative by x of the inner product of y with u: reverse mode started with ȳ = u."""
    x = find_variable(y, x)
    [result] = _pulled(y, [x], _direction("vjp", u, y.shape))
    if result is None:
        return hiding(construct.filled(0, x.shape), y)
    return hiding(_finished([_project(result, x, "projected")])[0], y)


def hvp(f: Expr, x: Expr | str, v: Expr | str) -> Expr:
    """The Hessian times a direction, at the cost of a few gradients."""
    _scalar("hvp", f)
    x = find_variable(f, x)
    return jvp(derivative(f, x), x, v)


def quadratic_form(f: Expr, x: Expr | str, v: Expr | str) -> Expr:
    """`v'Hv`: the second derivative along a direction."""
    _scalar("quadratic_form", f)
    x = find_variable(f, x)
    v = _direction("quadratic_form", v, x.shape)
    return jvp(jvp(f, x, v), x, v)


def hessian_diagonal(f: Expr, x: Expr | str) -> Expr:
    """The diagonal of the Hessian, in the shape of x. The Hessian itself is never formed."""
    _scalar("hessian_diagonal", f)
    x = find_variable(f, x)
    h = derivative(f, x, x)
    labels = tuple(range(x.ndim))
    return hiding(einsum(1, [(h, labels + labels)], labels, dict(enumerate(x.shape))), f)


def laplacian(f: Expr, x: Expr | str) -> Expr:
    """The trace of the Hessian, which is never formed."""
    diagonal = hessian_diagonal(f, x)
    return hiding(einsum(1, [(diagonal, tuple(range(diagonal.ndim)))], (), dict(enumerate(diagonal.shape))), f)
