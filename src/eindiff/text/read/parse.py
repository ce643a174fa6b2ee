"""Text to expression: syntax, then shapes by unification, then the constructors.

The language is that of matrixcalculus.org, with more functions, tensors of any order and einsum. What it means:

- Vectors are columns. `*` is the matrix product, and scales by a scalar: `A*x`, `x'*y` (inner), `x*y'` (outer).
  A transposed vector is a row, which is kept track of while reading; its tensor is the same as that of the column.
- `+ - .* ./ .^` and comparisons work entry by entry on equal shapes; a scalar fits to any. `/` divides by a scalar.
- `^` is the power of a scalar, of each entry of a vector, and the matrix power of a square matrix with a whole number.
  It groups to the right, and binds tighter than a minus before it: `-a^b^c` is `-(a^(b^c))`. `'` binds tighter still.
- `⊙ ⊘ ⊗ ᵀ −` are `.*`, `./`, `kron`, `'` and `-`. `x·y` is the inner product of vectors, and else as `*`.
  `A *_(ij,jk,ik) B` is `einsum("ij,jk->ik", A, B)`.
- Axes and indices count from 0 as in Python: `sum(X, 1)` has the sums of the rows, `A[0,:]` is the first row. What has
  one axis left is a vector, and so a column. `max(x, axis=0)` wants its axis named, as `max(x, 0)` reads like maximum.
- Names of sizes are sizes in `ones(m*n)` or `x[0:k]`, and elsewhere numbers: `sum(x)/n` where x is declared as x(n).
  Names that count what is summed over name its size (`counts.py`): n in `norm2(X*w - y)^2/n` is the length of y.
- Formulas, with commands of LaTeX or letters side by side (`x^TAx`), are translated first (`latex.py`).
- Names that are not declared are what their use says (`kinds.py`); `I` is the identity; `lambda` and `λ` are one name.
- Numbers are exact where they can be: `1/3*x` has the coefficient 1/3.
- `t = X*w; exp(t)` binds a name. Statements end with `;` or a line break; `#` begins a comment.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from eindiff.core import sizes as sz
from eindiff.core.derivation import derived
from eindiff.core.errors import EindiffError
from eindiff.core.nodes import Expr, variables
from eindiff.text.read.build import Building, built, name_sizes
from eindiff.text.read.conventions import canonical, hint, may_be_number, spellings
from eindiff.text.read.counts import name_counts
from eindiff.text.read.declarations import Declaration, declared
from eindiff.text.read.index_notation import parse_index
from eindiff.text.read.infer import Inference
from eindiff.text.read.kinds import Kinds, Way
from eindiff.text.read.latex_tokens import is_formula
from eindiff.text.read.literals import fold, is_size
from eindiff.text.read.notation import joined, normalized
from eindiff.text.read.reading import NameReading, Reading
from eindiff.text.read.shapes import KnownNames, Range, typed
from eindiff.text.read.source import ParseError, Source
from eindiff.text.read.syntax import Node, postorder, read
from eindiff.text.read.table import TABLE, mark_literals
from eindiff.text.read.unify import Unknown, known, resolve

Statements = list[tuple[Any, list[Node]]]  # the token of the name that is bound, or None; nodes, children first
_IDENTITY = re.compile(r"I(_\w+)?")


def parse(text: str, declarations: str | Mapping[str, Any] | None = None, notation: str = "matrix") -> Expr:
    """The expression that a text in the language of matrixcalculus.org, or in ours, stands for.

    Variables are declared (`"A(m,n); x(n); S(n,n) symmetric; c"`, or a dictionary of names and shapes, words like
    "vector", or variables), or found from their use: what they are multiplied with and added to, then their names.
    `parse_declarations` says more, and `reading` tells what was found.

    Args:
        text: the expression
        declarations: what names are; those that are not in it are found from their use
        notation: `matrix`, or `index` as `to_text(..., "index")` writes it, for which all names are declared

    >>> ed.parse("x'*A*x", "A(n,n) symmetric; x(n)")
    einsum('i,j,ij->', x, x, A)
    >>> ed.parse("sum[i:n - 1] (x[i + 1] - x[i])^2", "x(n)", "index") == ed.parse("norm2(x[1:] - x[:-1])^2", "x(n)")
    True
    >>> ed.parse("norm2(A*x - b)^2").shape
    ()

    See also: `reading`, `to_text`.
    """
    if notation not in ("matrix", "index"):
        raise EindiffError(f"notation {notation!r}: choose one of matrix, index", "options")
    if notation == "matrix":
        return reading(text, declarations).expression
    if not isinstance(text, str):
        raise EindiffError(f"parse takes text, not {type(text).__name__}", "options")
    known = {}
    for name, found in declared(declarations).items():
        sizes = [size for size in found.shape if size is not None]
        if len(sizes) < len(found.shape):
            raise EindiffError(f"{name}: in index notation names are declared with their sizes, {name}(n)", "names")
        known[name] = found.build(tuple(sizes)) if found.expr is None else found.expr
    return parse_index(text, known)


def reading(text: str, declarations: str | Mapping[str, Any] | None = None) -> Reading:
    """What a text is read as: the expression that `parse` gives, and what each name stands for.

    Args:
        text: the expression
        declarations: what names are; those that are not in it are found from their use

    >>> print(ed.reading("norm2(A*x - b)^2"))
    A m×n matrix, x vector of length n, b vector of length m

    See also: `parse`.
    """
    if not isinstance(text, str):
        raise EindiffError(f"parse takes text, not {type(text).__name__}", "options")
    names = KnownNames(declared(declarations))
    source = written(text, names)
    statements = _statements(source, names)
    choice = Kinds(source, names).read(statements)
    if choice is not None:
        names.orders = choice.orders()
        if choice.other is not None:
            _refuse_two_readings(source, names, statements, choice)
        _refuse_doubtful(source, names, statements)
    inference = _typed(source, names, statements)
    nodes = [node for _, below in statements for node in below]
    _refuse_sums(inference, nodes)
    name_counts(inference, nodes)
    name_sizes(inference, nodes)
    building = Building(inference)
    for node in nodes:
        building.visit(node)
    expr, used = built(nodes[-1]), building.variables.values()
    whole = derived(expr, *used) if len(variables(*used)) > len(variables(expr)) else expr
    return Reading(text, whole, _names(inference, nodes), _notes(nodes))


def _notes(nodes: list[Node]) -> tuple[str, ...]:
    """What may surprise: functions of entries that are functions of matrices as well."""
    matrices = [
        node.value for node in nodes
        if node.kind == "call" and node.value in ("exp", "log", "sqrt") and typed(node.args[0]).kind == "matrix"
        and len({resolve(axis) for axis in typed(node.args[0]).axes}) == 1
    ]  # fmt: skip
    words = "{0} of a matrix is taken entry by entry; {0}m is that of the matrix"
    return tuple(words.format(name) for name in dict.fromkeys(matrices))


def written(text: str, names: KnownNames) -> Source:
    """A text in the words of the grammar: formulas, and other notations that people bring, are translated."""
    source = Source(text)
    if is_formula(text, names.declared):
        from eindiff.text.read.latex import translated  # only where it is needed, so that the command starts quickly

        tokens, names.chosen = translated(source, names.declared, TABLE)
        names.bold = {token.text for token in tokens if token.kind == "bold"}
        made, offsets = joined(tokens)
        return Source(made, offsets, text)
    made, places = normalized(source, names.declared, TABLE)
    return source if places is None else Source(made, places, text)


def _statements(source: Source, names: KnownNames) -> Statements:
    """The statements of a text, and what its syntax alone says about names."""
    bindings, result = read(source, "program")
    if "e" not in names.declared and re.search(r"\be\s*\.?\^", source.text):
        _read_euler([*(root for _, root in bindings), result])
    statements: Statements = [(name, postorder(root)) for name, root in [*bindings, (None, result)]]
    nodes = [node for _, below in statements for node in below]
    for node in reversed(nodes):
        mark_literals(node)
    _name_indices(nodes)
    for node in nodes:
        if node.literal:
            node.plan = fold(source, node)
    spelled = spellings([*names.declared, *(str(name) for name, _ in bindings)])
    places = [node for node in nodes if node.kind == "name" and not node.literal]
    for node in places:
        node.value = spelled.setdefault(canonical(node.value), node.value)
    names.bound = {str(name) for name, _ in bindings}
    _find_names(source, names, nodes, places)
    return statements


def _read_euler(roots: list[Node]) -> None:
    """e^(-x) is exp(-x) where e is nothing else; e^2 may be the square of an error."""
    nodes = [node for root in roots for node in postorder(root)]
    powers = [
        node for node in nodes
        if node.kind == "power" and node.args[0].kind == "name" and node.args[0].value == "e"
        and node.args[1].kind != "number"
    ]  # fmt: skip
    if len(powers) == sum(node.kind == "name" and node.value == "e" for node in nodes):
        for node in powers:
            node.kind, node.value, node.args = "call", "exp", node.args[1:]


def _find_names(source: Source, names: KnownNames, nodes: list[Node], places: list[Node]) -> None:
    """Which names are sizes, indices and identities."""
    shapes = [size for declaration in names.declared.values() for size in declaration.shape]
    names.sizes = {name for size in shapes if isinstance(size, str) for name in sz.names(size)}
    names.sizes |= {node.value for node in nodes if node.literal and node.kind == "name"}
    _run_indices(source, names, nodes)
    _find_index_arrays(names, nodes)
    names.sizes -= names.declared.keys() | names.bound | names.ranges.keys()
    free = {str(node.value) for node in places} - names.declared.keys() - names.bound - _currents(nodes)
    names.identities = {name for name in free if name == "eye" or _IDENTITY.fullmatch(name)}


def _currents(nodes: list[Node]) -> set[str]:
    """Names like I that are no identity: I^2*R and V*I, as nobody multiplies R or V by the identity."""
    found = _bases(nodes)
    for node in nodes:
        names = {arg.value for arg in node.args if arg.kind == "name"} if node.kind == "product" else set()
        if names - {"I"} and "⊗" not in (node.value or "") and any(map(may_be_number, names - {"I"})):
            found |= names & {"I"}
    return found


def _bases(nodes: list[Node]) -> set[str]:
    """The names that are raised to powers."""
    return {node.args[0].value for node in nodes if node.kind == "power" and node.args[0].kind == "name"}


def _name_indices(nodes: list[Node]) -> None:
    """Give the index of every sum a name of its own: Σ_i x_i + Σ_i y_i has two."""
    for count, node in enumerate(reversed(nodes)):  # outer ones first; inner ones of the same name take theirs later
        if node.kind == "over":
            index = node.args[1].value
            for below in postorder(node):
                if below.literal and below.kind == "name" and below.value == index:
                    below.value = f"{index}__{count}"


def _run_indices(source: Source, names: KnownNames, nodes: list[Node]) -> None:
    """The ranges of the indices of sums, and what they say about the tensors that have them."""
    for node in nodes:
        if node.kind == "over":
            _, index, *ends = node.args
            first, last = [end.plan for end in ends] or [1, None]
            if not isinstance(index.plan, str) or not is_size(first) or not (last is None or is_size(last)):
                raise source.error("a sum runs over an index, from one whole number to another", node.start, node.end)
            size = Unknown() if last is None else sz.add(sz.subtract(last, first), 1)
            names.ranges[index.plan] = Range(size, first, last)
    inference = Inference(source, names)
    for node in nodes:
        if node.kind == "index" and node.args[0].kind == "name":
            _run_entries(inference, names, node)


def _run_entries(inference: Inference, names: KnownNames, node: Node) -> None:
    """How long the axes of a tensor are at least, whose entries indices of sums run through."""
    name, running = str(node.args[0].value), 0
    for axis, entry in enumerate(arg.plan for arg in node.args[1:]):
        if (own := inference.index_of(entry)) is not None:
            running += 1
            _, last = inference.span(entry, own)
            before = names.lengths.get((name, axis))
            if last is not None and (before is None or _is_more(last, before)):
                names.lengths[name, axis] = last
    if running:
        names.indexed[name] = max(running, names.indexed.get(name, 0))


def _find_index_arrays(names: KnownNames, nodes: list[Node]) -> None:
    """g in u[g] is an array of indices, i in x[i] one index, unless they are declared, or sizes."""
    known = {size for found in names.declared.values() for size in found.shape if isinstance(size, str)}
    known |= names.declared.keys() | names.bound | names.ranges.keys()
    for node in nodes:
        for entry in node.args[1:] if node.kind == "index" and not node.literal else ():
            if entry.kind == "name" and isinstance(entry.plan, str) and entry.plan not in known:
                order = 0 if entry.plan in "ijkl" or entry.plan in names.chosen else 1
                made = Declaration(entry.plan, (None,) * order, guessed=True, is_indices=True)
                names.declared = {**names.declared, entry.plan: made}


def _is_more(one: sz.Size, other: sz.Size) -> bool:
    """Whether a size is known to be larger than another."""
    more = sz.subtract(one, other)
    return isinstance(more, int) and more > 0


def _typed(source: Source, names: KnownNames, statements: Statements) -> Inference:
    """The types of all nodes."""
    inference = Inference(source, names)
    for name, below in statements:
        for node in below:
            if not node.literal:
                inference.visit(node)
        if name is not None:
            _bind(inference, source, name, below[-1])
    return inference


def _bind(inference: Inference, source: Source, name: Any, root: Node) -> None:
    if str(name) in inference.declared or str(name) in inference.used or str(name) in inference.bound:
        raise source.error(f"{name} already has a meaning; bind another name", name.start_pos, name.end_pos)
    inference.bound[str(name)] = root


def _refuse_two_readings(source: Source, names: KnownNames, statements: Statements, choice: Way) -> None:
    """Two readings are equally good: say what is wrong if all names are what they mean by themselves, and the cure."""
    one, other = choice.orders(), choice.orders(other=True)
    differ = sorted(name for name in one if one[name] != other.get(name, one[name]) and name not in names.bound)
    if not differ:
        return
    place = next(node for _, below in statements for node in below if node.kind == "name" and node.value in differ)
    kinds = ("a scalar", "a vector", "a matrix")
    ways = [" and ".join(f"{name} {kinds[found[name]]}" for name in differ) for found in (one, other)]
    cure = f"declare one: {differ[0]} is {kinds[one[differ[0]]]} or {kinds[other[differ[0]]]}"
    _refuse_as_named(source, names, statements, cure)
    problem = f"this can be read in two ways, with {ways[0]} or with {ways[1]}; {cure}"
    raise source.error(problem, place.start, place.end)


def _refuse_doubtful(source: Source, names: KnownNames, statements: Statements) -> None:
    """x*y fits as a product of numbers, and so does x' of a number x, which is hardly meant."""
    nodes = [node for _, below in statements for node in below]
    powers = _bases(nodes)
    for node in nodes:
        args = [arg.value if arg.kind == "name" else "" for arg in node.args]
        if node.kind == "transpose" and names.orders.get(args[0]) == 0:
            _refuse_as_named(source, names, statements, f"declare {args[0]} a scalar")
        for k, operator in enumerate(node.value if node.kind == "product" else ()):
            pair = args[k : k + 2]
            if operator in ("*", "·") and all(_is_odd_scalar(names, name) and name not in powers for name in pair):
                _refuse_as_named(source, names, statements, f"declare {pair[0]} and {pair[1]} as scalars")


def _refuse_sums(inference: Inference, nodes: list[Node]) -> None:
    """What is added up is hardly meant so: one number, or b in X*W + b, where a row for all rows is as likely meant."""
    for node in nodes:
        if node.kind == "call" and node.value == "sum" and not node.literal:
            _refuse_one_number(inference, node)
        if node.kind == "sum" and not node.literal and typed(node).order == 2:
            for arg in node.args:
                _refuse_row(inference, node, arg)


def _refuse_one_number(inference: Inference, node: Node) -> None:
    [summed, *_] = node.args
    if summed.kind != "product" or typed(summed).order:
        return
    names = [below.value for below in postorder(node) if below.kind == "name"]
    if any(name in inference.used and inference.used[name].declaration.guessed for name in names):
        ways = "write sum_over(i, y[i]*x[i]) for a sum over an index, .* to multiply by entry"
        inference.fail(node, f"`{inference.text(node)}` sums one number; {ways}")


def _refuse_row(inference: Inference, node: Node, arg: Node) -> None:
    use = inference.used.get(str(arg.value)) if arg.kind == "name" else None
    if use is None or not use.declaration.guessed or use.type.order:
        return
    name = use.declaration.name
    own = hint(name)
    if not own.is_scalar and (own.costs != (0, 4, 12) or name == "t"):
        row = f"declare {name} a scalar or a matrix, or write ones(m)*{name}' for a row added to all rows"
        inference.fail(node, f"`{inference.text(node)}`: what is {name}, added to a matrix? {row}")


def _is_odd_scalar(names: KnownNames, name: str) -> bool:
    """Whether a name is read as a scalar that is surely a vector, or a matrix, by itself."""
    if names.orders.get(name) != 0:
        return False
    costs = hint(name).costs
    return costs == (6, 0, 12) or (costs[2] == 0 and costs[0] > 4)


def _refuse_as_named(source: Source, names: KnownNames, statements: Statements, cure: str) -> None:
    """Say what is wrong with a text if all names are what they mean by themselves."""
    orders, names.orders = names.orders, {}
    try:
        _typed(source, names, statements)
    except ParseError as error:
        raise error.with_problem(f"{error.problem}; or {cure}") from None
    names.orders = orders


def _names(inference: Inference, nodes: list[Node]) -> tuple[NameReading, ...]:
    """What the names of a text stand for, in the order they occur."""
    found: dict[str, NameReading] = {}
    places = [node for node in nodes if node.kind == "name" and (not node.literal or node.value in inference.used)]
    for node in sorted(places, key=lambda n: n.start):
        name = str(node.value)
        if name in inference.used:
            use = inference.used[name]
            declared = use.declaration
            how = "declared" if not declared.guessed else "name" if hint(name).order == use.type.order else "use"
            [into] = (known((use.into,)) if use.into is not None else None) or [None]
            found.setdefault(name, NameReading(name, known(use.type.axes) or (), how, into=into))
        elif name in inference.names.identities and name != "eye" and node.type is not None:
            found.setdefault(name, NameReading(name, known(node.type.axes) or (), "use", is_identity=True))
    return tuple(found.values())
