"""Random programs of slices, places, gathers, scatters, windows and reshapes, over sizes that are names or numbers.

A program is text that is read twice: as an expression, and as plain NumPy on complex numbers, whose imaginary steps are
the derivatives. There every place has to exist, where NumPy alone would cut slices short.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import eindiff as ed
from eindiff.core import construct, sizes
from eindiff.core.index_relations import IndexMap

VARIABLES: dict[str, tuple[int | str, ...]] = {
    "x": ("n",), "z": ("n",), "y": ("m",), "A": ("m", "n"), "B": ("n", "n"), "u": (4,), "C": (3, 4),
}  # fmt: skip
INDICES: dict[str, tuple[tuple[int | str, ...], int | str]] = {"g": (("m",), "n"), "h": ((3,), 4), "e": (("m", 2), "n")}
SIZES = (0, 1, 2, 3, 5)
STEP = 1e-30


class OutOfRangeError(Exception):
    """A place that does not exist."""


class Expressions:
    """The words as expressions."""

    concatenate, kron, diag, outer, einsum = ed.concatenate, ed.kron, ed.diag, ed.outer, ed.einsum
    exp, sin, reshape = ed.exp, ed.sin, ed.reshape

    @staticmethod
    def at(a: Any, index: Any) -> Any:
        return a[index]

    @staticmethod
    def windows(a: Any, count: int) -> Any:
        places = sizes.subtract(a.shape[0], count - 1)
        if isinstance(places, int) and places < 1:
            raise ed.EindiffError("no window fits")
        chosen = construct.constant(IndexMap(a.shape[0], (places, count), 0, (1, 1)))
        return ed.einsum("kij,k->ij", chosen, a)

    @staticmethod
    def scattered(a: Any, places: list[int], size: int | str) -> Any:
        chosen = construct.constant(IndexMap(size, (len(places),), indices=tuple(places)))
        return ed.einsum("ki,i...->k...".replace("...", "abc"[: a.ndim - 1]), chosen, a)

    @staticmethod
    def cumsum(a: Any) -> Any:
        return ed.cumsum(a, 0)

    @staticmethod
    def total(a: Any) -> Any:
        return ed.sum(a)

    @staticmethod
    def flat(a: Any) -> Any:
        return ed.reshape(a, -1)


class Arrays:
    """The words in NumPy, for given sizes."""

    concatenate, diag, outer, einsum = map(staticmethod, (np.concatenate, np.diag, np.multiply.outer, np.einsum))
    kron, exp, sin, total = map(staticmethod, (np.kron, np.exp, np.sin, np.sum))

    def __init__(self, sizes: dict[str, int]) -> None:
        self.sizes = sizes

    @staticmethod
    def at(a: Any, index: Any) -> Any:
        entries = [e for e in (index if isinstance(index, tuple) else (index,)) if e is not None]
        for entry, size in zip(entries, a.shape, strict=False):
            if isinstance(entry, slice):
                start, stop = (
                    default if bound is None else bound if bound >= 0 else size + bound
                    for bound, default in ((entry.start, 0), (entry.stop, size))
                )
                if not 0 <= start <= stop <= size:
                    raise OutOfRangeError
            elif not all(-size <= k < size for k in np.ravel(entry)):
                raise OutOfRangeError
        return a[index]

    @staticmethod
    def windows(a: Any, count: int) -> Any:
        if len(a) < count - 1:
            raise OutOfRangeError
        return np.stack([a[k : len(a) - count + 1 + k] for k in range(count)], -1)

    def scattered(self, a: Any, places: list[int], size: int | str) -> Any:
        result = np.zeros((self.sizes.get(size, size), *a.shape[1:]), complex)
        if max(places) >= len(result):
            raise OutOfRangeError
        np.add.at(result, places, a)
        return result

    @staticmethod
    def cumsum(a: Any) -> Any:
        return np.cumsum(a, 0)

    def reshape(self, a: Any, shape: tuple) -> Any:
        return a.reshape([self.sizes.get(size, size) for size in shape])

    @staticmethod
    def flat(a: Any) -> Any:
        return a.reshape(-1)


class JaxArrays(Arrays):
    """The words in JAX, for given sizes."""

    concatenate, diag, outer, einsum = map(staticmethod, (jnp.concatenate, jnp.diag, jnp.multiply.outer, jnp.einsum))
    kron, exp, sin, total = map(staticmethod, (jnp.kron, jnp.exp, jnp.sin, jnp.sum))

    @staticmethod
    def windows(a: Any, count: int) -> Any:
        if len(a) < count - 1:
            raise OutOfRangeError
        return jnp.stack([a[k : len(a) - count + 1 + k] for k in range(count)], -1)

    def scattered(self, a: Any, places: list[int], size: int | str) -> Any:
        result = jnp.zeros((self.sizes.get(size, size), *a.shape[1:]))
        if max(places) >= len(result):
            raise OutOfRangeError
        return result.at[np.array(places)].add(a)

    @staticmethod
    def cumsum(a: Any) -> Any:
        return jnp.cumsum(a, 0)


class Places:
    """`s[1:4, None]` is an index."""

    def __getitem__(self, index: Any) -> Any:
        return index


@dataclass(frozen=True)
class Program:
    """A tensor, a scalar made of it, and a variable to derive by."""

    tensor: str
    scalar: str
    by: str

    def outputs(self) -> dict[str, ed.Expr]:
        """The tensor, the scalar and their derivatives as expressions."""
        values = variables()
        tensor, scalar = (read(text, Expressions, values) for text in (self.tensor, self.scalar))
        x = values[self.by]
        return {
            "tensor": tensor, "scalar": scalar, "gradient": ed.gradient(scalar, x), "hessian": ed.hessian(scalar, x),
            "diagonal": ed.hessian_diagonal(scalar, x), "jacobian": ed.derivative(tensor, x),
        }  # fmt: skip

    def expected(self, sizes: dict[str, int], arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Some of the outputs from NumPy alone."""
        words, at = Arrays(sizes), arrays[self.by]
        columns = []
        for place in np.ndindex(at.shape):
            moved = at.astype(complex)
            moved[place] += 1j * STEP
            values = arrays | {self.by: moved}
            columns.append([read(text, words, values).imag / STEP for text in (self.tensor, self.scalar)])
        found = {name: np.asarray(read(text, words, arrays)) for name, text in self._texts.items()}
        if columns:
            found["jacobian"] = np.stack([column[0] for column in columns], -1).reshape(
                found["tensor"].shape + at.shape
            )
        return found | {"gradient": np.reshape([column[1] for column in columns], at.shape)}

    def orders(self, sizes: dict[str, int], arrays: dict[str, np.ndarray], highest: int) -> list[np.ndarray]:
        """The tensor and its derivatives, one after the other, by JAX."""
        words = JaxArrays(sizes)

        def tensor(x: Any) -> Any:
            return read(self.tensor, words, {**known, self.by: x})

        known = {name: jnp.asarray(array) if array.dtype.kind == "f" else array for name, array in arrays.items()}
        functions: list[Callable] = [tensor]
        for _ in range(highest):
            functions.append(jax.jacfwd(functions[-1]))
        return [np.asarray(function(known[self.by])) for function in functions]

    @property
    def _texts(self) -> dict[str, str]:
        return {"tensor": self.tensor, "scalar": self.scalar}


def read(text: str, words: Any, values: dict[str, Any]) -> Any:
    return eval(text, {"w": words, "s": Places(), **values})


def variables() -> dict[str, Any]:
    given = {name: ed.indices(name, *shape, into=into) for name, (shape, into) in INDICES.items()}
    return {name: ed.tensor(name, shape) for name, shape in VARIABLES.items()} | given


def arrays_for(sizes: dict[str, int], seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    found = {name: rng.normal(size=[sizes.get(s, s) for s in shape]) for name, shape in VARIABLES.items()}  # type: ignore
    for name, (shape, into) in INDICES.items():
        found[name] = rng.integers(0, max(1, sizes.get(into, into)), [sizes.get(s, s) for s in shape])  # type: ignore
    return found


def _index(random: Random) -> str:
    k, j = random.randrange(3), random.randrange(1, 4)
    return random.choice([
        f"{k}", f"-{j}", f"{k}:", f":-{j}", f"-{j}:", f"{k}:{k + j}", f"-{j + 1}:-{random.randrange(1, j + 1)}",
        f"[{k}, {random.randrange(3)}, {random.randrange(3)}]", f"{k}:-{j}", f"[{k}, {j}]", "None", "::-1", ":",
        "g", "h", "e", "w.at(g, s[1:])", "w.at(e, s[:, 1])",
    ])  # fmt: skip


def _steps(random: Random) -> dict[str, Callable[[Any], str]]:
    def at(a: Any) -> str:
        count = random.randint(1, max(1, a.ndim))
        return f"w.at({{0}}, s[{', '.join(_index(random) for _ in range(count))}])"

    def einsum(a: Any) -> str:
        second, output = random.choice(["i", "j", "ij", "ii", "jk"]), random.choice(["i", "ij", "ji", "", "k"])
        return f'w.einsum("{"ijk"[: a.ndim]},{second}->{output}", {{0}}, {{1}})'

    return {
        "at": at,
        "at twice": lambda a: at(a).replace("{0}", at(a)),
        "einsum": einsum,
        "product": lambda a: "{0} * {1}",
        "sum": lambda a: "{0} + {1}",
        "square": lambda a: "{0}**2",
        "function": lambda a: f"w.{random.choice(['exp', 'sin'])}({{0}})",
        "matmul": lambda a: "{0} @ {1}",
        "concatenate": lambda a: "w.concatenate([{0}, {1}])",
        "kron": lambda a: "w.kron({0}, {1})",
        "diag": lambda a: "w.diag({0})",
        "outer": lambda a: "w.outer({0}, {1})",
        "cumsum": lambda a: "w.cumsum({0})",
        "transpose": lambda a: "{0}.T",
        "flat": lambda a: "w.flat({0})",
        "matrix": lambda a: f"w.reshape({{0}}, {random.choice([(2, 2), ('m', 'n'), ('n', 'n'), (2, 'n'), ('n', 2)])})",
        "windows": lambda a: f"w.windows({{0}}, {random.randint(2, 3)})",
        "scattered": lambda a: f"w.scattered({{0}}, {[random.randrange(4) for _ in range(random.randint(2, 4))]}, "
        f"{random.choice(['4', repr('n')])})",
    }  # fmt: skip


def random_program(seed: int, length: int = 6) -> Program:
    random = Random(seed)
    known = variables()
    numbers = [(name, value) for name, value in known.items() if name not in INDICES]
    pool: list[tuple[str, Any]] = [item for item in numbers if random.random() < 0.6] or numbers
    steps = _steps(random)
    weights = [6 if name.startswith("at") else 2 if name in ("einsum", "product") else 1 for name in steps]
    made = 0
    for _ in range(40 * length):
        text, value = random.choice(pool[-3:] if random.random() < 0.7 else pool)
        other = random.choice(pool)[0]
        template = random.choices([*steps.values()], weights)[0](value)
        new = template.replace("{0}", f"({text})").replace("{1}", f"({other})")
        try:
            found = read(new, Expressions, known)
        except (ed.EindiffError, IndexError, AttributeError):
            continue
        if isinstance(found, ed.Expr) and found.ndim <= 3 and len(new) < 300:
            pool.append((new, found))
            made += 1
        if made == length:
            break
    text, value = pool[-1]
    mates = [other for other, mate in pool if mate.shape == value.shape]
    scalar = f"w.total(({text}) * ({random.choice(mates)}))"
    names = [v.name for v in ed.variables(read(scalar, Expressions, known)) if v.into is None] or ["x"]
    return Program(text, scalar, random.choice(names))
