"""Operations as statements: what is used twice gets a name, the rest is written where it is used, in lines that stay
short.

For known sizes large arrays are changed in place where nothing else needs them, and forgotten after their last use.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from eindiff.program.backends.backend import Backend
from eindiff.program.costs import Costs
from eindiff.program.operations import ATOM, Operation, count_uses, is_number, reachable

LINE = 96  # columns of a line of source, without its indentation
IN_PLACE = 2**14  # bytes of an array that is worth being changed in place
FORGET = 2**14  # bytes of an array that is worth being forgotten: memory that is used again need not be mapped again

_ELEMENTWISE = re.compile(r"[^\[@a-z]*|np\.(where|maximum|heaviside)\(.*")
_FUNCTION = re.compile(r"np\.(\w+)\(\{0\}\)")
_IN_PLACE_OPERATOR = {" * ": "*=", " / ": "/=", " + ": "+=", " - ": "-="}
_BINARY = {" @ ": "matmul", " * ": "multiply", " / ": "divide", " + ": "add", " - ": "subtract"}


@dataclass(slots=True)
class Statement:
    """Some lines that make one value, and the operations in them."""

    lines: list[str]
    name: str
    result: Operation
    operations: list[Operation] = field(default_factory=list)
    forgotten: list[str] = field(default_factory=list)


def _is_ufunc(template: str) -> bool:
    """Whether a template is a function of NumPy that takes `out=` and works entry by entry."""
    found = _FUNCTION.fullmatch(template)
    return found is not None and isinstance(getattr(np, found[1]), np.ufunc)


def _into(template: str, buffer: str) -> str | None:
    """An operation that writes its result into a given array.

    >>> _into("{0} @ {1}", "out"), _into("2 * {0}", "out")
    ('np.matmul({0}, {1}, out=out)', 'np.multiply(2, {0}, out=out)')
    """
    if found := re.fullmatch(r"(\{0\}|[\d.]+)( @ | \* | / | \+ | - )(\{[01]\})", template):
        return f"np.{_BINARY[found[2]]}({found[1]}, {found[3]}, out={buffer})"
    if template == "-{0}":
        return f"np.multiply(-1, {{0}}, out={buffer})"  # np.negative is wrong for some strides in NumPy 2.4
    if _is_ufunc(template) or template.startswith(("gram(", "mirrored(", "np.einsum(")):
        return f"{template[:-1]}, out={buffer})"
    return None


class Printer:
    """Writes operations as statements, in an order in which they can run."""

    def __init__(
        self, outputs: Sequence[tuple[str, Operation]], taken: set[str],
        costs: Costs | None = None, buffers: Mapping[str, str] | None = None, backend: Backend | None = None,
        dtype: str = "float64",
    ) -> None:  # fmt: skip
        self.outputs = outputs
        self.backend = backend if backend is not None and backend.functional else None
        self.dtype = dtype
        self.taken = taken | {name for name, _ in outputs}
        self.costs = costs
        self.buffers = dict(buffers or {})  # names of arrays that take outputs
        self.statements: list[Statement] = []
        self.texts: dict[Operation, tuple[str, str]] = {}
        self.uses: Counter[Operation] = Counter()
        self.users: dict[Operation, list[Operation]] = {}
        self.done: set[Operation] = set()
        self.results: dict[str, str] = {}
        self.names: dict[Operation, str] = {}
        self.count = 0

    def run(self) -> list[Statement]:
        """The statements; afterwards `results` has what stands for each output."""
        wanted = [x for _, x in self.outputs]
        order = reachable(wanted)
        self.uses = count_uses(order, wanted)
        for x in order:
            for y in x.operands:
                self.users.setdefault(y, []).append(x)
        if len(self.outputs) > 1 or self.buffers:
            for name, x in self.outputs:
                self.names.setdefault(x, name)
        for x in order:
            self._write(x)
        for name, x in self.outputs:
            if name in self.buffers and self.names[x] != name:  # the same as another output
                text = f"{name} = stored({self.texts[x][0]}, {self.buffers[name]}, copy=True)"
                self.statements.append(Statement([text], name, x))
                self.results[name] = name
            else:
                copied = self.backend.copied if self.backend is not None and self._is_part(x) else ""
                self.results[name] = copied.format(self.texts[x][0]) or self.texts[x][0]
        if self.costs:
            self._forget()
        return self.statements

    def _write(self, x: Operation) -> None:
        if x in self.texts and x not in self.names:
            return
        name = self.names.get(x)
        if x.lines:
            self._write_block(x, name)
        elif name in self.buffers:
            self._write_output(x, name)
        elif not (name is None and self._write_in_place(x)):
            text = self._fitted(x, x.template, len(name or "t00") + 3)
            self.texts[x] = (text, x.kind)
            if name or (self.uses[x] > 1 and not x.cheap):
                self._assign(x, name)

    def _write_block(self, x: Operation, name: str | None) -> None:
        buffer = self.buffers.get(name or "")
        name = name or self._fresh_name()
        lines = list(x.lines)
        needed = x.fresh and self._is_shared(x.operands[0])
        if buffer and x.fresh:
            lines[0] = f"{{out}} = stored({{0}}, {buffer}{', copy=True' if needed else ''})"
        elif needed:
            lines[0] = "{out} = np.array({0})"
        elif buffer:
            lines[0] = re.sub(r"= np\.zeros\((.*?)(, dtype=.*)?\)$", rf"= zeros(\1, {buffer}\2)", lines[0])
        self._state(self._filled(x, lines, name), name, x)

    def _write_output(self, x: Operation, name: str | None) -> None:
        """A result, in the array that is given for it if there is one."""
        assert name is not None
        buffer = self.buffers[name]
        if x in self.texts:  # an input, or a literal
            text = f"stored({self.texts[x][0]}, {buffer}, copy=True)"
        elif x.shape and not x.view and (template := _into(x.template, buffer)):
            text = self._fitted(x, template, len(name) + 3, anywhere=True)
        else:
            copy = ", copy=True" if self._is_part(x) else ""
            text = f"stored({self._fitted(x, x.template, len(name) + 20)}, {buffer}{copy})"
        self.texts[x] = (text, ATOM)
        self._assign(x, name)

    def _fitted(self, x: Operation, template: str, margin: int, out: str = "", anywhere: bool = False) -> str:
        """The template filled in, with the longest operands given names until the line is short enough."""
        template = self._spelled(x, template)
        while True:
            texts = []
            for y, place in zip(x.operands, x.places, strict=True):
                text, kind = self.texts[y]
                texts.append(text if anywhere or kind in place else f"({text})")
            result = template.format(*texts, out=out)
            long = [y for k, y in enumerate(x.operands) if f"{{{k}}}" in template and len(self.texts[y][0]) > 8]
            long = [y for y in long if y.operands and not self.texts[y][0].isidentifier()]
            if len(result) + margin <= LINE or not long:
                return result
            self._assign(max(long, key=lambda y: len(self.texts[y][0])), None)

    def _spelled(self, x: Operation, template: str) -> str:
        """The template in the words of the library."""
        if self.backend is None or (x.operands and is_number(x)):
            return template
        text = self.backend.spell(template, self.dtype)
        shapes = {y.shape for y in x.operands if y.shape}
        if len(x.shape) <= self.backend.broadcasts or len(shapes) < 2 or not _ELEMENTWISE.fullmatch(template):
            return text
        names = [f"x{k}" for k in range(len(x.operands))]
        slots = ", ".join(f"{{{k}}}" for k in range(len(names)))
        return f"spread(lambda {', '.join(names)}: {text.format(*names)}, {slots})"

    def _filled(self, x: Operation, lines: Sequence[str], name: str, anywhere: bool = False) -> list[str]:
        """Several templates filled in; what gets a name stands before them all."""
        for line in lines:
            self._fitted(x, line, len(name), name, anywhere)
        return [self._fitted(x, line, len(name), name, anywhere) for line in lines]

    def _assign(self, x: Operation, name: str | None) -> None:
        name = name or self._fresh_name()
        self._state([f"{name} = {self.texts[x][0]}"], name, x)

    def _state(self, lines: list[str], name: str, x: Operation) -> None:
        inside: list[Operation] = []
        stack = [x]
        while stack:
            y = stack.pop()
            if y not in self.done:
                self.done.add(y)
                inside.append(y)
                stack.extend(y.operands)
        self.statements.append(Statement(lines, name, x, inside))
        self.texts[x] = (name, ATOM)

    def _fresh_name(self) -> str:
        while (name := f"t{self.count}") in self.taken:
            self.count += 1
        self.count += 1
        return name

    # In place

    def _write_in_place(self, x: Operation) -> bool:
        """An elementwise operation on an array that nothing else needs any more, if there is one and it is large."""
        if self.costs is None or x.cheap or x.view or self.costs.size(x) < IN_PLACE:
            return False
        for place, y in enumerate(x.operands):
            if y.shape == x.shape and self._is_free(y, x) and (lines := self._in_place_templates(x, place)):
                if not self.texts[y][0].isidentifier():
                    self._assign(y, None)
                self._state(self._filled(x, lines, self.texts[y][0], anywhere=True), self.texts[y][0], x)
                return True
        return False

    def _is_free(self, y: Operation, x: Operation) -> bool:
        """Whether y is an array of its own, and x the last that needs it."""
        root = self._root(y)
        if not self._is_writable(y) or x.operands.count(y) > 1:
            return False
        stack = [root]
        while stack:
            for user in self.users.get(stack.pop(), ()):
                if user is not x and (user.cheap or user.view):
                    stack.append(user)
                elif user is not x and user not in self.done:
                    return False
        protected = [z for _, z in self.outputs] + [z for z in x.operands if z is not y]
        return all(self._root(z) is not root for z in protected)

    def _is_writable(self, x: Operation) -> bool:
        """Whether a value lies in an array of numbers that is neither an input nor a constant."""
        while (x.view or x.cheap) and x.operands and x.role[:1] != ("diagonal",):
            x = x.operands[0]
        return not (x.view or x.cheap or x.role[:1] in (("literal",), ("condition",)))

    def _is_part(self, x: Operation) -> bool:
        """Whether an output lies in an array that is not its own: an input, or another output's."""
        root = self._root(x)
        return not self._is_writable(x) or sum(self._root(y) is root for _, y in self.outputs) > 1

    def _is_shared(self, x: Operation) -> bool:
        """Whether an array is an input or used more than once, itself or what it is a view of."""
        while self.uses[x] == 1 and (x.view or x.cheap) and x.operands:
            x = x.operands[0]
        return self.uses[x] > 1 or not self._is_writable(x)

    @staticmethod
    def _root(x: Operation) -> Operation:
        """The array in which a view lies."""
        while (x.view or x.cheap) and x.operands:
            x = x.operands[0]
        return x

    @staticmethod
    def _in_place_templates(x: Operation, place: int) -> list[str]:
        """The operation as statements that change one of its operands."""
        target = f"{{{place}}}"
        if _is_ufunc(x.template):
            return [f"{x.template[:-1]}, out={target})"]
        if x.template == "-{0}":
            return ["{0} *= -1"]
        signs = re.split(r"\{\d+\}", x.template)[1:-1]
        if re.sub(r"\{\d+\}", "", x.template) != "".join(signs) or not set(signs) <= set(_IN_PLACE_OPERATOR):
            return []
        if len(signs) == 1 and place == 1 and signs[0] in (" - ", " / "):
            return [f"np.{_BINARY[signs[0]]}({{0}}, {{1}}, out={{1}})"]
        signs = [" * " if signs[0] in (" * ", " / ") else " + ", *signs]
        if signs[place] in (" - ", " / "):
            return []
        return [f"{target} {_IN_PLACE_OPERATOR[sign]} {{{k}}}" for k, sign in enumerate(signs) if k != place]

    # Forgetting

    def _forget(self) -> None:
        """Delete large arrays after the statement that uses them last."""
        assert self.costs is not None
        returned = {word for text in self.results.values() for word in re.findall(r"\w+", text)}
        last: dict[str, int] = {}
        sizes: dict[str, int] = {}
        for number, statement in enumerate(self.statements):
            for line in statement.lines:
                for word in re.findall(r"\w+", line):
                    if word in sizes or word == statement.name:
                        last[word] = number
            sizes[statement.name] = self.costs.size(statement.result)
        for name, number in last.items():
            if name not in returned and sizes[name] >= FORGET and number < len(self.statements) - 1:
                self.statements[number].forgotten.append(name)
        for statement in self.statements:
            if statement.forgotten:
                statement.lines.append(f"del {', '.join(statement.forgotten)}")
