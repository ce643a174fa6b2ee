"""The words of NumPy, which JAX and CuPy have too, and of which other libraries share some."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from eindiff.core.leaves import TRIANGLES
from eindiff.program.backends.backend import Spelling, Word, array_text, slots
from eindiff.program.operations import Op, Operation, is_large_table


def power(x: Operation, s: Spelling) -> str:
    """A known power."""
    text = s.number(x.parameters[0])
    return f"{{0}}**({text})" if "/" in text else f"{{0}}**{text}"


def _add(x: Operation, s: Spelling) -> str:
    return "{0}" + "".join([f" {'+' if sign > 0 else '-'} {{{k}}}" for k, sign in enumerate(x.parameters)][1:])


def numbers(x: Operation, s: Spelling) -> str:
    """The entries of a constant, as nested lists."""
    shape, content = x.parameters
    return array_text(np.frombuffer(content).reshape(shape).tolist(), s.backend.named)


def places(x: Operation, s: Spelling) -> str:
    """The entries of a table, as one list; where there are many, the name of an array beside the program."""
    if is_large_table(x) and not s.reading:
        return table_name(x)
    return f"[{', '.join(map(str, x.parameters[1]))}]"


def table_name(x: Operation) -> str:
    """The name of a large table."""
    return f"table_{x.parameters[1].digest[:16]}"


def reshaped(x: Operation) -> str:
    """What makes a table of a list, if it has several axes."""
    shape = x.parameters[0]
    return f".reshape({', '.join(map(str, shape))})" if len(shape) > 1 else ""


def _full(x: Operation, s: Spelling) -> str:
    if "full" in s.backend.helpers and not s.reading:
        return f"full({s.shape(x.shape)}, {{0}}{s.created})"
    kind = s.created or ("" if x.operands[0].op == "number" else ", dtype=float")
    return f"{s.np}full({s.shape(x.shape)}, {{0}}{kind})"


def _only(x: Operation, s: Spelling) -> str:
    last = max([axis for axis, gone in enumerate(x.parameters) if gone])
    return f"{{0}}[{', '.join(['0' if gone else ':' for gone in x.parameters[: last + 1]])}]"


def index(x: Operation) -> str:
    """Axes that are there, and new ones."""
    return ", ".join([":" if present else "None" for present in x.parameters])


def _put(x: Operation, s: Spelling) -> str:
    shape, cuts, based = x.parameters
    last = len(x.operands) - based
    target = [s.cut_object(cut) for cut in cuts] or [f"{{{k}}}" for k in range(1, last)]
    base = f", base={{{last}}}" if based else ""
    return f"put({s.shape(shape)}, ({', '.join(target)},), {{0}}{s.created}{base})"


def _norm_of_several(x: Operation, s: Spelling) -> str:
    parts = [f"({{{k}}}, {summed})" for k, summed in enumerate(x.parameters[1], 1)]
    return f"norm_of_several({{0}}, [{', '.join(parts)}]{_reach(x, s)})"


def _reach(x: Operation, s: Spelling) -> str:
    """Up to where squares are in range; programs in one type see that by themselves."""
    return ", 1e30" if x.parameters[0] and not s.backend.functional else ""


def axes_text(axes: tuple[int, ...]) -> str:
    """One axis, or several."""
    return str(axes[0]) if len(axes) == 1 else f"({', '.join(map(str, axes))})" if axes else ""


def along(axis: int | str | None, keyword: str = "axis") -> str:
    """An axis, if one is named."""
    return "" if axis is None else f", {keyword}={axis}"


def summed(x: Operation, s: Spelling) -> str:
    text = axes_text(x.parameters)
    if not s.reading:  # the method is faster than the function
        return f"{{0}}.sum({text})"
    return f"{s.np}sum({{0}}{along(text or None)})"


def _einsum(x: Operation, s: Spelling) -> str:
    subscripts, optimized = x.parameters
    return f'{s.np}einsum("{subscripts}", {slots(x)}{", optimize=True" if optimized else ""})'


def inner_or_einsum(x: Operation, s: Spelling, einsum: str) -> str:
    """Sums of products of entries, which compilers fuse and which need no order of axes, as these; else einsum."""
    inputs, _, output = x.parameters[0].partition("->")
    one, _, two = inputs.partition(",")
    if s.reading or one != two or "".join([label for label in one if label in output]) != output:
        return einsum
    axes = tuple([axis for axis, label in enumerate(one) if label not in output])
    return f"{s.np}multiply({{0}}, {{1}}).sum({axes_text(axes)})"


def _fill(x: Operation, s: Spelling) -> str:
    """Statements that make `{out}`."""
    dense, shape, assignments = x.parameters
    lines = ["{out} = {0}" if dense else f"{{out}} = {s.np}zeros({s.shape(shape)}{s.created})"]
    operand = int(dense)
    for how, sign, where, count in assignments:
        entries = [f"{{{operand + 1 + k}}}" for k in range(count)]
        lines += _assignment(how, sign, where, f"{{{operand}}}", entries, s, is_small=s.is_small(x))
        operand += 1 + count
    return "\n".join(lines)


def _assignment(
    how: str, sign: str, where: Any, value: str, entries: Sequence[str], s: Spelling, is_small: bool
) -> list[str]:
    """Statements that put one operand into `{out}`, at places that are given by where it goes or by other operands.

    Where something is added to a part of a small array, that part gets a name: so it is not stored once more.
    """
    is_named = sign != "=" and is_small
    match how:
        case "diagonal" | "window":
            cuts, labels = where if how == "window" else ((), where)
            view = _diagonal_of(labels, s, f"{{out}}[{', '.join(map(s.cut, cuts))}]" if cuts else "{out}")
            return [f"{{part}} = {view}", f"{{part}} {sign} {value}"] if is_named else [f"{view}[...] {sign} {value}"]
        case "balance" | "balanced block":
            is_block = how == "balanced block"
            diagonal = _block_of(where[0], where[1], s) if is_block else _diagonal_of(where[0], s, "{out}")
            total = _total(where[0], where[-1], s)
            return [f"{{part}} = {diagonal}", f"{{part}}[...] = {value}", f"{{part}} -= {total}"]
        case "block":
            return [f"{_block_of(where[0], where[1], s)}[...] {sign} {value}"]
        case "at":
            return [_added_at(", ".join(entries), sign == "-=", value, s)]
    part = f"{{out}}[{', '.join(entries or map(s.cut, where))}]"
    is_named = is_named and how == "cuts" and tuple in map(type, where)
    return [f"{{part}} = {part}", f"{{part}} {sign} {value}"] if is_named else [f"{part} {sign} {value}"]


def _total(where: str, axis: int, s: Spelling) -> str:
    """The sums of `{out}` along an axis. NumPy's own take three times as long along the rows of small matrices."""
    ndim = len(where.partition("->")[0])
    if s.reading or ndim < 3 or axis != ndim - 1:
        return f"{{out}}.sum({axis})"
    return f'{s.np}einsum("...i->...", {{out}})'


def _block_of(diagonal: str, is_cut: Sequence[bool], s: Spelling) -> str:
    """A view of a diagonal of a tile: its rows, and the same columns."""
    block = ", ".join(["tile_start:tile_stop" if same else ":" for same in is_cut])
    return f'{s.np}einsum("{diagonal}", {{out}}[{block}])'


def _added_at(places: str, is_subtracted: bool, value: str, s: Spelling) -> str:
    """A statement that adds up what goes to the same places."""
    if s.reading:
        listed = f"({places})" if "," in places else places
        return f"{s.np}{'subtract' if is_subtracted else 'add'}.at({{out}}, {listed}, {value})"
    return f"add_at({{out}}, {places}, {value}{f', {s.np}subtract.at' if is_subtracted else ''})"


def _diagonal_of(where: str, s: Spelling, array: str) -> str:
    """A view of a diagonal of an array, by subscripts."""
    inputs, _, output = where.partition("->")
    axes = [axis for axis, label in enumerate(inputs) if label == output[-1]]
    rest = [label for label in inputs if label != output[-1]]
    if s.reading or len(axes) != 2 or output[:-1] != "".join(rest) or "diagonal_of" not in s.backend.helpers:
        return f'{s.np}einsum("{where}", {array})'
    return f"diagonal_of({array})" if axes == [0, 1] else f"diagonal_of({array}, {axes[0]}, {axes[1]})"


def call(x: Operation, s: Spelling) -> str:
    """A function of the table."""
    word = s.backend.function(x.parameters[0])
    return word.replace("DTYPE", s.dtype) if isinstance(word, str) else word(x, s)


def _windows(x: Operation, s: Spelling) -> str:
    axis, offset, *steps = x.parameters
    return f"windows({{0}}, {axis}, {s.size(offset)}, [{', '.join(f'({s.size(a)}, {s.size(b)})' for a, b in steps)}])"


# What all libraries write alike.
SHARED: dict[Op, Word] = {
    "input": lambda x, s: s.names[x.parameters[0]],
    "number": lambda x, s: s.number(x.parameters[0]),
    "size": lambda x, s: s.size(x.parameters[0]),
    "transpose": "{0}.T",
    "balance": lambda x, s: f"balanced({{0}}, {x.parameters[0]}, {x.parameters[1]})",
    "expand": lambda x, s: f"{{0}}[{index(x)}]",
    "only": _only,
    "cut": lambda x, s: f"{{0}}[{':, ' * x.parameters[0]}{s.cut(x.parameters[1])}]",
    "flip": lambda x, s: f"{{0}}[{':, ' * x.parameters[0]}::-1]",
    "reshape": lambda x, s: f"{{0}}.reshape({s.sizes(x.parameters)})",
    "part": lambda x, s: s.word(s.backend.words["swap"] if x.parameters[1] else "{0}", x).format(
        f"{{0}}[{x.parameters[0]}]"
    ),
    "take": lambda x, s: f"{{0}}[{':, ' * x.parameters[0]}{slots(x, 1)}]",
    "put": _put,
    "negate": "-{0}",
    "multiply": lambda x, s: " * ".join([f"{{{k}}}" for k in range(len(x.operands))]),
    "divide": "{0} / {1}",
    "scale": lambda x, s: f"{s.number(x.parameters[0])} * {{0}}",
    "power": power,
    "reciprocal": "1 / {0}",
    "raise": "{0} ** {1}",
    "add": _add,
    "mean": "({0} + {1}) / 2",
    "sum": summed,
    "matmul": "{0} @ {1}",
    "gram": "gram({0}, {1})",
    "call": call,
    "reduce": call,
    "divided": lambda x, s: f"{x.parameters[0]}({slots(x)})",
    "opaque": lambda x, s: f"{x.parameters[0]}({slots(x)})",
    "norm": lambda x, s: f"norm({{0}}, {{1}}, {x.parameters[1]}{_reach(x, s)})",
    "norm_of_several": _norm_of_several,
}


def _running_sum(x: Operation, s: Spelling) -> str:
    axis, is_from_end = x.parameters
    turned = f"[{':, ' * axis}::-1]" if is_from_end else ""
    return f"{{0}}{turned}.cumsum({axis}){turned}"


_FACTORS = {
    False: "factorize({0})",
    True: "factorize({0}, symmetric=True)",
    "cholesky": "(np.asfortranarray({0}), None, False)",
}

# Programs that change nothing in place have none of these.
EAGER: dict[Op, Word] = {
    "fill": _fill,
    "flat": lambda x, s: f"flat_places({s.shape(x.parameters)}, {slots(x)})",
    "windows": _windows,
    "logistic": "1 / (1 + {0})",
    "complement": "complement({0}, {1})",
    "positive": "({0} > 0.0)",
    "mask": lambda x, s: f"{{0}}.astype({s.dtype if s.created else 'float'})",
    "running_sum": _running_sum,
    "mirrored": lambda x, s: f"mirrored{'_twice' if x.parameters[0] else ''}({{0}}, {{1}})",
    "structured_product": lambda x, s: (
        f"{x.parameters[0]}_product({{0}}, {{1}})"
        if x.parameters[0] not in TRIANGLES
        else f"triangular_product({{0}}, {{1}}, lower={x.parameters[0] == 'lower'})"
    ),
    "triangular_inverse": lambda x, s: f"triangular_inverse({{0}}, lower={x.parameters[0] == 'lower'})",
    "factors": lambda x, s: _FACTORS[x.parameters[0]],
    "solve_factored": lambda x, s: f"solve_factored({{0}}, {{1}}{', transposed=True' if x.parameters[0] else ''})",
    "of_factors": lambda x, s: f"{x.parameters[0]}_factored({{0}})",
    "solve_many": "solve_many({0}, {1})",
    "conjugate_inverse": "conjugate_inverse({0}, {1})",
    "conjugate_diagonal": "conjugate_diagonal({0}, {1})",
    "tiles": lambda x, s: f"for start in range(0, {s.size(x.parameters[0].length)}, {x.parameters[0].rows}): ...",
    "tiled": "{0}",
}

NUMPY: dict[Op, Word] = {
    **SHARED,
    "constant": lambda x, s: f"{s.np}array({numbers(x, s)}{s.created})",
    "table": lambda x, s: f"{s.np}array({places(x, s)}{s.integers}){reshaped(x)}",
    "zeros": lambda x, s: f"{s.np}zeros({s.shape(x.shape)}{s.created})",
    "ones": lambda x, s: f"{s.np}ones({s.shape(x.shape)}{s.created})",
    "identity": lambda x, s: f"{s.np}eye({s.size(x.parameters[0])}{s.created})",
    "triangle": lambda x, s: f"{s.np}tri({s.size(x.parameters[0])}{s.created})",
    "range": lambda x, s: f"{s.np}arange({s.size(x.parameters[0])}{s.integers})",
    "swap": "np.swapaxes({0}, -1, -2)",
    "permute": lambda x, s: f"{{0}}.transpose({', '.join(map(str, x.parameters))})",
    "broadcast": lambda x, s: f"{s.np}broadcast_to({{0}}, {s.shape(x.shape)})",
    "diagonal": lambda x, s: diagonal(x, s, f"{s.np}diag({{0}})"),
    "array": lambda x, s: f"{s.np}array({{0}}{s.created})",
    "full": _full,
    "repeat": lambda x, s: f"{s.np}broadcast_to({{0}}, {s.shape(x.shape)}).copy()",
    "contiguous": 'np.array({0}, order="C")',  # never a view, which would change with what it is one of
    "integers": "{0}.astype(int)",
    "diagonal_matrix": "np.diag({0})",
    "concatenate": lambda x, s: f"{s.np}concatenate([{slots(x)}]{along(x.parameters[0] or None)})",
    "trace": lambda x, s: diagonal(x, s, f"{s.np}trace({{0}})"),
    "outer": "np.outer({0}, {1})",
    "inner": "np.vdot({0}, {1})",
    "einsum": _einsum,
    "solve": lambda x, s: solve(
        x, f"{s.np}linalg.solve({{0}}, {{1}})", "linalg.solve_triangular({{0}}, {{1}}, lower={})"
    ),
}


def diagonal(x: Operation, s: Spelling, of_matrix: str) -> str:
    """What has a word of its own for matrices, and is an einsum of others."""
    subscripts = x.parameters[0]
    return of_matrix if subscripts in ("ii->i", "ii->") else f'{s.np}einsum("{subscripts}", {{0}})'


def solve(x: Operation, whole: str, half: str = "solve_triangular({{0}}, {{1}}, {})") -> str:
    """A system of equations; most libraries have a helper for triangular ones."""
    return half.format(x.parameters[0] == "lower") if x.parameters[0] else whole


def reduction(name: str, keyword: str = "axis") -> Word:
    """A function along an axis, if one is named."""
    return lambda x, s: f"{name.replace('np.', s.np)}({{0}}{along(x.parameters[1], keyword)})"


def _matrix_function(x: Operation, s: Spelling) -> str:
    function = str(s.backend.function(x.parameters[1])).removesuffix("({0})")
    return f"matrix_function({function}, {slots(x)})"


# Functions without rows that say it: parts of what rows are computed by. These are helpers of each library.
HELPED: dict[str, Word] = {
    "eigh": "eigh({0})",
    "eigvalsh": "eigvalsh({0})",
    "power_derivative": lambda x, s: f"power_derivative({{0}}, {{1}}, {x.parameters[1]}, {x.parameters[2]})",
    "inverse_power": lambda x, s: f"inverse_power({{0}}, {x.parameters[1]})",
    "softmax": reduction("softmax"),
    "products_without": lambda x, s: f"products_without({{0}}, {x.parameters[1]})",
    "matrix_function": _matrix_function,
    "logsumexp": reduction("logsumexp"),
}

FUNCTIONS: dict[str, Word] = {
    **HELPED,
    "sqrt": "np.sqrt({0})",
    "equal": "np.where({0} == {1}, 1.0, 0.0)",
    "where_greater": "np.where({0} > {1}, {2}, {3})",
    "where_at_least": "np.where({0} >= {1}, {2}, {3})",
    "max": reduction("np.max"),
    "prod": reduction("np.prod"),
    "svd": "np.linalg.svd({0}, full_matrices=False)",
}


def _ways(kind: str) -> str:
    """How vectors are multiplied with a matrix of few entries, and systems solved, also with the transpose."""
    if kind in TRIANGLES:
        lower = f"turned {'!=' if kind == 'lower' else '=='} 1"
        return f"np.dot, lambda A, b, turned: solve_triangular(A, b, lower={lower})"
    multiply = "lambda A, b: tridiagonal_product(A, b)" if kind == "tridiagonal" else "np.dot"
    return f"{multiply}, lambda A, b, turned: {f'{kind}_solve' if kind else 'np.linalg.solve'}(A, b)"


def _pivots(x: Operation, s: Spelling) -> str:
    """The pivots of a matrix with entries near its diagonal, or of one of which three diagonals are given."""
    if len(x.operands) > 1:
        return f"pivots_by_diagonals({slots(x)})"
    return f"band_pivots({{0}}{', 1' if x.parameters[1] == 'tridiagonal' else ''})"


# What only programs that change arrays in place are made of.
EAGER_FUNCTIONS: dict[str, Word] = {
    "finite_top": reduction("finite_top"),
    "clipped": "{0}.clip(0.0, np.inf)",  # in half the time of np.maximum with a number
    "in_range": lambda x, s: f"in_range({{0}}{', 1e15' if x.parameters[1] else ''})",
    "log_of_total": lambda x, s: f"log_of_total({slots(x)})",
    "part_of_total": lambda x, s: f"part_of_total({x.parameters[1]}, {slots(x)})",
    "heaviside": "np.heaviside({0}, {1})",
    "well_conditioned": lambda x, s: f"conditioned({{0}}, {x.parameters[2]:.4g}, {_ways(x.parameters[1])})",
    "band_pivots": _pivots,
}


def words_of(module: str, words: Mapping[Any, Word] = NUMPY) -> dict[Any, Word]:
    """Words with the name of another module for NumPy's."""
    return {op: word.replace("np.", module) if isinstance(word, str) else word for op, word in words.items()}
