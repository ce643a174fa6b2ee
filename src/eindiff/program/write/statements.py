"""Operations as statements: what is used twice gets a name, the rest is written where it is used, in lines that stay
short.

For known sizes large arrays are changed in place where nothing else needs them, and forgotten after their last use.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from eindiff.core import sizes as sz
from eindiff.core.traverse import post_order
from eindiff.planning import tuning
from eindiff.program.backends.backend import Spelling
from eindiff.program.costs import Costs
from eindiff.program.operations import Operation, count_uses
from eindiff.program.write.grammar import ATOM, kind_of, places_of
from eindiff.program.write.memory import Memory, root_of
from eindiff.program.write.repeated import computed_before
from eindiff.program.write.tiles import FIRST, LAST, ROWS, START, STEP, STOP, WORK, Loop, costs_of_tile

LINE = 96  # columns of a line of source, without its indentation

# Statements that change one operand.
_IN_PLACE = {
    "negate": ["{0} *= -1"],
    "reciprocal": ["np.divide(1, {0}, out={0})"],
    "logistic": ["{0} += 1", "np.divide(1, {0}, out={0})"],
    "complement": ["complement({{0}}, {{1}}, out={0})"],
}
_METHODS = ("{0}.clip(",)  # of arrays, which take `out=` as functions of NumPy do
_OPERATORS = {"multiply": "*", "divide": "/"}
_UFUNCS = {"*": "multiply", "/": "divide", "+": "add", "-": "subtract"}


class Written(NamedTuple):
    """What stands for an operation: its text, what is outermost in it, and the names of arrays in it."""

    text: str
    kind: str = ATOM
    names: frozenset[str] = frozenset()


@dataclass(slots=True)
class Statement:
    """Some lines that make one value, and the operations in them."""

    lines: list[str]
    name: str
    result: Operation
    used: frozenset[str]  # names of arrays
    operations: list[Operation] = field(default_factory=list)
    forgotten: list[str] = field(default_factory=list)


def is_universal(x: Operation, template: str) -> bool:
    """Whether an operation is a function of NumPy that takes `out=` and works entry by entry."""
    if template.startswith(_METHODS):
        return True
    name, _, rest = template.partition("(")
    is_one_call = name.startswith("np.") and rest.find(")") == len(rest) - 1 and "(" not in rest
    return x.op == "call" and is_one_call and isinstance(getattr(np, name.removeprefix("np."), None), np.ufunc)


def _operators(x: Operation) -> list[str]:
    """The operators between the operands of an operation, if that is all it is."""
    if x.op == "add":
        return ["+" if sign > 0 else "-" for sign in x.parameters[1:]]
    return [_OPERATORS[x.op]] * (len(x.operands) - 1) if x.op in _OPERATORS else []


def _given_or_first(buffer: str, first: int) -> str:
    """An array that is given for an output, or where none is, that of an operand. Rows of an output are there."""
    operand = f"{{{first}}}"
    return f"{operand} if {buffer} is None else {buffer}" if buffer.isidentifier() else buffer or operand


def _one_after_another(signs: Sequence[str], first: int, target: str) -> list[str]:
    """A sum or a product as statements: of one operand with another, and then with each of the rest, in place."""
    (sign, second), *rest = [(signs[k], f"{{{k}}}") for k in range(len(signs)) if k != first]
    begun = f"{{out}} = np.{_UFUNCS[sign]}({{{first}}}, {second}{f', out={target}' if target else ''})"
    return [begun, *(f"{{out}} {sign}= {text}" for sign, text in rest)]


def _into(x: Operation, template: str, buffer: str) -> str | None:
    """An operation that writes its result into a given array."""
    if len(x.operands) == 2 and (found := _operators(x)):
        return f"np.{_UFUNCS[found[0]]}({{0}}, {{1}}, out={buffer})"
    if x.op == "matmul" and not x.parameters:
        return f"np.matmul({{0}}, {{1}}, out={buffer})"
    if x.op == "scale" and (text := template.removesuffix(" * {0}")).replace(".", "").isdigit():
        return f"np.multiply({text}, {{0}}, out={buffer})"
    if x.op == "negate":
        return f"np.multiply(-1, {{0}}, out={buffer})"  # np.negative is wrong for some strides in NumPy 2.4
    if x.op == "reciprocal":
        return f"np.divide(1, {{0}}, out={buffer})"
    if is_universal(x, template) or x.op in ("matmul", "gram", "mirrored", "einsum"):
        return f"{template[:-1]}, out={buffer})"
    return None


class Printer:
    """Writes operations as statements, in an order in which they can run."""

    def __init__(
        self, outputs: Sequence[tuple[str, Operation]], taken: set[str], spelling: Spelling,
        costs: Costs | None = None, buffers: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        self.outputs = outputs
        self.roots = Counter([root_of(x) for _, x in outputs])  # arrays in which outputs lie
        self.spelling = spelling
        self.taken = taken | {name for name, _ in outputs}
        self.costs = costs
        self.buffers = dict(buffers or {})  # of outputs that lie in memory of their own: arrays that take them, or ""
        self.statements: list[Statement] = []
        self.pieces: dict[Operation, Written] = {}
        self.given: set[Operation] = set()  # constants and arrays of others, which are not changed
        self.uses: Counter[Operation] = Counter()
        self.users: dict[Operation, list[Operation]] = {}
        self.done: set[Operation] = set()
        self.before: dict[Operation, str] = {}  # what a compiler is to compute before its uses, and what tells it so
        self.results: dict[str, str] = {}
        self.names: dict[Operation, str] = {}
        self.memory = Memory(costs)
        self.count = 0
        self.part = ""  # the name of a view of what is changed there

    def run(self) -> list[Statement]:
        """The statements; afterwards `results` has what stands for each output."""
        wanted = [x for _, x in self.outputs]
        self.given = set(self.pieces)
        order = post_order(wanted, lambda x: () if x in self.pieces else x.operands)
        self.uses = count_uses(order, wanted)
        for x in order:
            for y in x.operands:
                self.users.setdefault(y, []).append(x)
        self.before = computed_before(order, wanted, self.spelling.backend.repeated)
        self.memory.prepare(order, wanted)
        if len(self.outputs) > 1 or self.buffers:
            for name, x in self.outputs:
                self.names.setdefault(x, name)
        for x in order:
            self._write(x)
        for name, x in self.outputs:
            if name in self.buffers and self.names[x] != name:  # the same as another output
                piece = self.pieces[x]
                self.statements.append(Statement([f"{name} = {self._copied(piece.text, name)}"], name, x, piece.names))
                self.results[name] = name
            else:
                copied = self.spelling.backend.copied if self._is_part(x) else ""
                self.results[name] = copied.format(self.pieces[x].text) or self.pieces[x].text
        if self.costs:
            self._forget()
        return self.statements

    def _write(self, x: Operation) -> None:
        if (x in self.pieces and x not in self.names) or x.op == "tiled":
            return
        name = self.names.get(x)
        if x.op == "tiles":
            self._write_tiles(x)
        elif x.op == "fill":
            self._write_block(x, name)
        elif name in self.buffers:
            self._write_output(x, name)
        elif not (name is None and (self._write_in_place(x) or self._write_in_old_memory(x))):
            template = self.spelling.template(x)
            template = f"{self.before[x]}({template})" if x in self.before else template
            text = self._fitted(x, template, len(name or "t00") + 3)
            self.pieces[x] = Written(text, kind_of(x, template), self._names_in(x))
            if name or (self.uses[x] > 1 and not x.cheap):
                self._assign(x, name)

    def _write_block(self, x: Operation, name: str | None) -> None:
        buffer = self.buffers.get(name or "")
        name = name or self._fresh_name()
        lines = self.spelling.template(x).split("\n")
        needed = x.is_fresh and self._is_shared(x.operands[0])
        if buffer and x.is_fresh:
            lines[0] = f"{{out}} = stored({{0}}, {buffer}{', copy=True' if needed else ''})"
        elif needed:
            lines[0] = "{out} = np.array({0})"
        elif buffer:
            lines[0] = f"{{out}} = zeros({self.spelling.shape(x.shape)}, {buffer}{self.spelling.created})"
        self._state(self._filled(x, lines, name), name, x)

    def _write_output(self, x: Operation, name: str | None) -> None:
        """A result, in the array that is given for it if there is one."""
        assert name is not None
        buffer = self.buffers[name]
        template = self.spelling.template(x)
        if x not in self.pieces and (lines := self._in_steps(x, buffer)):
            self._state(self._filled(x, lines, name, anywhere=True), name, x)
            return
        if x in self.pieces:  # a literal
            text = self._copied(self.pieces[x].text, name)
        elif buffer and x.shape and not x.view and (into := _into(x, template, buffer)):
            text = self._fitted(x, into, len(name) + 3, anywhere=True)
        else:
            text = self._fitted(x, template, len(name) + 20)
            text = self._copied(text, name) if self._is_part(x) else f"stored({text}, {buffer})" if buffer else text
        self.pieces[x] = Written(text, ATOM, self._names_in(x))
        self._assign(x, name)

    def _copied(self, text: str, name: str) -> str:
        """A copy of what is part of something else, as an output."""
        buffer = self.buffers[name]
        return f"stored({text}, {buffer}, copy=True)" if buffer else f"np.array({text})"

    def _names_in(self, x: Operation) -> frozenset[str]:
        """The names of arrays in the text of an operation."""
        return frozenset().union(*[self.pieces[y].names for y in x.operands])

    def _fitted(self, x: Operation, template: str, margin: int, out: str = "", anywhere: bool = False) -> str:
        """The template filled in, with the longest operands given names until the line is short enough."""
        places = places_of(x, template)
        while True:
            texts = []
            for y, place in zip(x.operands, places, strict=True):
                piece = self.pieces[y]
                texts.append(piece.text if anywhere or piece.kind in place else f"({piece.text})")
            result = template.format(*texts, out=out, part=self.part)
            if len(result) + margin <= LINE:
                return result
            long = [y for k, y in enumerate(x.operands) if f"{{{k}}}" in template and len(self.pieces[y].text) > 8]
            long = [y for y in long if y.operands and not self.pieces[y].text.isidentifier()]
            if not long:
                return result
            self._assign(max(long, key=lambda y: len(self.pieces[y].text)), None)

    def _filled(self, x: Operation, lines: Sequence[str], name: str, anywhere: bool = False) -> list[str]:
        """Several templates filled in; what gets a name stands before them all."""
        for line in lines:
            self._fitted(x, line, len(name), name, anywhere)
        if any("{part}" in line for line in lines):
            self.part = self.part or self._fresh_name()
        return [self._fitted(x, line, len(name), name, anywhere) for line in lines]

    def _assign(self, x: Operation, name: str | None) -> None:
        name = name or self._fresh_name()
        self._state([f"{name} = {self.pieces[x].text}"], name, x)

    def _named(self, x: Operation) -> str:
        """The name of a value, which it is given if it has none."""
        if not self.pieces[x].text.isidentifier():
            self._assign(x, None)
        return self.pieces[x].text

    def _state(self, lines: list[str], name: str, x: Operation) -> None:
        inside: list[Operation] = []
        stack = [x]
        while stack:
            y = stack.pop()
            if y not in self.done:
                self.done.add(y)
                inside.append(y)
                stack.extend(y.operands)
        used = self.pieces[x].names if x in self.pieces else self._names_in(x)
        self.statements.append(Statement(lines, name, x, used | {name}, inside))
        self.memory.state(x, name, inside)
        self.pieces[x] = Written(name, ATOM, frozenset({name}))

    def _fresh_name(self) -> str:
        while (name := f"t{self.count}") in self.taken:
            self.count += 1
        self.count += 1
        return name

    # Tiles

    def _write_tiles(self, x: Operation) -> None:
        """A loop over some rows at a time."""
        loop = x.parameters[0]
        for y in x.operands:
            if not y.cheap:
                self._named(y)
        self.pieces[x] = Written("", ATOM, self._names_in(x))
        names = {y.parameters[0]: self._begin(y, loop) for y in sorted(self.users[x], key=lambda y: y.parameters[0])}
        last = self.statements[-1]
        last.lines += self._loop(x, loop, names)
        last.used |= self._names_in(x) | set(names.values())
        for y in self.users[x]:
            if (own := self.names.get(y)) and own != self.pieces[y].text:
                piece = self.pieces[y]
                self.pieces[y] = piece._replace(text=f"stored({piece.text}, {self.buffers[own]})")
                self._assign(y, own)

    def _begin(self, y: Operation, loop: Loop) -> str:
        """State what takes a result of a loop: an array, or a sum, which is 0 at first. Its name."""
        is_sum, own = loop.axes[y.parameters[0]] is None, self.names.get(y)
        buffer = self.buffers.get(own or "")
        name = self._fresh_name() if own is None or (buffer and is_sum) else own
        given = f"{self.spelling.shape(y.shape)}{f', {buffer}' if buffer else ''}{self.spelling.created}"
        new = "0" if is_sum else f"empty({given})" if buffer else f"np.empty({given})"
        self._state([f"{name} = {new}"] if loop.threads == 1 or not is_sum else [], name, y)
        return name

    def _loop(self, x: Operation, loop: Loop, names: Mapping[int, str]) -> list[str]:
        """The lines of a loop whose results have names."""
        assert self.costs is not None
        costs = costs_of_tile(self.costs, loop.rows)
        outputs = [(self._fresh_name(), y) for y in loop.body]
        sums_first = sorted(outputs, key=lambda output: len(output[1].shape))  # then others may change what they read
        tiles = {name: self._tile(loop, k, names[k]) for k, (name, _) in enumerate(outputs) if loop.axes[k] is not None}
        short = {name for name, y in outputs if len(y.shape) > 2 and costs.evaluate(y.shape[-1]) < tuning.SHORT}
        into = {name: tile for name, tile in tiles.items() if name not in short}
        inner = Printer(sums_first, self.taken | set(names.values()), self.spelling, costs, into)
        inner.pieces.update({y: self.pieces[y] for y in x.operands})
        inner.count = self.count
        body = [line for statement in inner.run() for line in statement.lines]
        self.count = inner.count
        for k, (name, _) in enumerate(outputs):
            if name not in tiles:
                body.append(f"{names[k]} += {inner.results[name]}")
            elif name in short:
                body.append(f"store_columns({inner.results[name]}, {tiles[name]})")
        if ROWS in "".join(body):
            body.insert(0, f"{ROWS} = {STOP} - {START}")
        if loop.threads == 1:
            return self._over_tiles("0", self.spelling.size(loop.length), str(loop.rows), body)
        return self._in_threads(loop, names, body)

    def _in_threads(self, loop: Loop, names: Mapping[int, str], body: Sequence[str]) -> list[str]:
        """The loop over the tiles of some rows as a function, which each thread calls for rows of its own."""
        length = self.spelling.size(loop.length)
        sums = [names[k] for k, axis in enumerate(loop.axes) if axis is None]
        lines = [*(f"{name} = 0" for name in sums), *self._over_tiles(FIRST, LAST, STEP, body)]
        call, given = f"in_threads({WORK}, {length}, {loop.threads}, {loop.rows})", f"[{', '.join(sums)}]"
        return [
            f"def {WORK}({FIRST}, {LAST}, {STEP}):", *(f"    {line}" for line in [*lines, f"return {given}"]),
            f"{given} = {call}" if sums else call,
        ]  # fmt: skip

    @staticmethod
    def _over_tiles(first: str, last: str, step: str, body: Sequence[str]) -> list[str]:
        """A loop over the tiles of some rows."""
        body = [f"{STOP} = min({START} + {step}, {last})", *body]
        return [f"for {START} in range({first}, {last}, {step}):", *(f"    {line}" for line in body)]

    def _tile(self, loop: Loop, k: int, name: str) -> str:
        """The rows of a result that a tile gives."""
        start, stop = (self.spelling.size(sz.multiply(one, loop.times[k])) for one in (START, STOP))
        return f"{name}[{':, ' * (loop.axes[k] or 0)}{start}:{stop}]"

    # In place

    def _write_in_place(self, x: Operation) -> bool:
        """An elementwise operation on an array that nothing else needs any more, if there is one and it is large."""
        if not self._is_large(x, tuning.IN_PLACE_BYTES):
            return False
        for place, y in enumerate(x.operands):
            if y.shape == x.shape and self._is_free(y, x) and (lines := self._in_place(x, place)):
                name = self._named(y)
                self.memory.take_over(y, x)
                self._state(self._filled(x, lines, name, anywhere=True), name, x)
                return True
        return False

    def _in_steps(self, x: Operation, buffer: str) -> list[str]:
        """A large elementwise output as statements that make no other arrays, in the memory of an operand that nothing
        else needs if no array is given."""
        if not self._is_large(x, tuning.IN_PLACE_BYTES):
            return []
        signs = ["*" if x.op in _OPERATORS else "+", *_operators(x)]
        whole = [k for k, y in enumerate(x.operands) if signs[k : k + 1] != ["-"] and self._is_whole(y, x)]
        free = [k for k in whole if self._is_free(x.operands[k], x)]
        first = next(iter([*free, *whole]), 0)
        target = _given_or_first(buffer, first) if free else buffer
        if whole and len(signs) > 2 and x.op != "divide":
            lines = _one_after_another(signs, first, target)
        else:
            into = _into(x, self.spelling.template(x), target) if free and x.op not in ("matmul", "einsum") else None
            lines = [f"{{out}} = {into}"] if into else []
        if free and lines:
            self._named(x.operands[first])
            self.memory.take_over(x.operands[first], x)
        return lines

    def _is_large(self, x: Operation, least: int) -> bool:
        """Whether an operation makes an array of so many bytes."""
        return self.costs is not None and not x.cheap and not x.view and self.costs.size(x) >= least

    def _is_whole(self, y: Operation, x: Operation) -> bool:
        """Whether an operand is as large as the result, and as what it lies in, and has numbers."""
        assert self.costs is not None
        root = root_of(y)
        return y.shape == x.shape and self.costs.size(root) == self.costs.size(x) and root.op != "positive"

    def _write_in_old_memory(self, x: Operation) -> bool:
        """A large operation into an array of its shape that nothing needs any more, if there is one."""
        if not self._is_large(x, tuning.REUSED_BYTES) or x not in self.memory.own:
            return False
        if not (name := self.memory.unused(x.shape)):
            return False
        into = _into(x, self.spelling.template(x), name)
        if into is None:
            self.memory.give_back(x.shape, name)
            return False
        self._state(self._filled(x, [into], name, anywhere=True), name, x)
        return True

    def _is_free(self, y: Operation, x: Operation) -> bool:
        """Whether y is an array of its own, and x the last that needs it."""
        root = root_of(y)
        if not self._is_writable(y) or x.operands.count(y) > 1:
            return False
        stack = [root]
        while stack:
            for user in self.users.get(stack.pop(), ()):
                if user is not x and (user.cheap or user.view):
                    stack.append(user)
                elif user is not x and user not in self.done:
                    return False
        return root not in self.roots and all(root_of(z) is not root for z in x.operands if z is not y)

    def _is_writable(self, x: Operation) -> bool:
        """Whether a value lies in an array of numbers that is neither an input nor a constant."""
        while (x.view or x.cheap) and x.operands and x.op not in ("diagonal", "windows", "broadcast"):
            x = x.operands[0]
        return not (x.view or x.cheap or x in self.given or x.op in ("constant", "table", "positive"))

    def _is_part(self, x: Operation) -> bool:
        """Whether an output lies in an array that is not its own: an input, or another output's."""
        return not self._is_writable(x) or self.roots[root_of(x)] > 1

    def _is_shared(self, x: Operation) -> bool:
        """Whether an array is an input or used more than once, itself or what it is a view of."""
        if not self._is_writable(x):
            return True
        while self.uses[x] == 1 and (x.view or x.cheap) and x.operands:
            x = x.operands[0]
        return self.uses[x] > 1

    def _in_place(self, x: Operation, place: int) -> list[str]:
        """The operation as statements that change one of its operands."""
        target, template = f"{{{place}}}", self.spelling.template(x)
        if is_universal(x, template):
            return [f"{template[:-1]}, out={target})"]
        if lines := _IN_PLACE.get(x.op):
            return [line.format(target) for line in lines]
        if x.op == "mean":
            return [f"{target} += {{{1 - place}}}", f"{target} /= 2"]
        if x.op in ("scale", "power"):
            return [f"{target} {'*' if x.op == 'scale' else '**'}= {self.spelling.number(x.parameters[0])}"]
        if not (signs := _operators(x)):
            return []
        signs = ["*" if signs[0] in ("*", "/") else "+", *signs]
        lines = [f"{target} {sign}= {{{k}}}" for k, sign in enumerate(signs) if k != place]
        if signs[place] in ("-", "/"):  # from the first operand
            lines[0] = f"np.{_UFUNCS[signs[place]]}({{0}}, {target}, out={target})"
        return lines

    # Forgetting

    def _forget(self) -> None:
        """Delete large arrays after the statement that uses them last."""
        assert self.costs is not None
        returned = {name for _, x in self.outputs for name in self.pieces[x].names}
        last: dict[str, int] = {}
        sizes: dict[str, int] = {}
        for number, statement in enumerate(self.statements):
            last.update(dict.fromkeys(statement.used, number))
            sizes[statement.name] = self.costs.size(statement.result)
        for name, number in last.items():
            if name not in returned and sizes.get(name, 0) >= tuning.FORGET_BYTES and number < len(self.statements) - 1:
                self.statements[number].forgotten.append(name)
        for statement in self.statements:
            if statement.forgotten:
                statement.lines.append(f"del {', '.join(statement.forgotten)}")
