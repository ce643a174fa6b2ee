"""What a traced function sees: lists of symbols in np.array, no random numbers; and what nobody else sees."""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable
from functools import partial, wraps
from random import gauss
from typing import Any

import numpy as np
import pytest
from numpy import array, asarray
from numpy.random import normal

import eindiff as ed
import numpy_programs
from eindiff.core.errors import EindiffError
from numpy_cases import EXACT
from oracles import assert_close, finite_difference

POINT = np.array([0.7, 1.9])
GENERATOR = np.random.default_rng(0)
calls = 0


def rotation(t: Any) -> Any:
    return np.array([[np.cos(t), -np.sin(t)], [np.sin(t), np.cos(t)]])


def even(x: Any, n: int) -> Any:
    return np.array([x[0]]).sum() if n == 0 else odd(x, n - 1)


def odd(x: Any, n: int) -> Any:
    return x[1] ** 2 if n == 0 else even(x, n - 1)


def twice(f: Callable) -> Callable:
    @wraps(f)
    def doubled(*args: Any) -> Any:
        return 2 * f(*args)

    return doubled


class Model:
    """Methods that make arrays of symbols, of which the first is given, and the second is called by the first."""

    scale = 2.0

    def matrix(self, x: Any) -> Any:
        return np.array([[x[0], 1.0], [self.scale, x[1]]])

    def loss(self, x: Any) -> Any:
        return np.sum(np.array([self.matrix(x) @ x, x]) ** 2)

    def __call__(self, x: Any) -> Any:
        return np.linalg.det(np.array([[x[0], 1.0], [self.scale, x[1]]]))


def imported_inside(x: Any) -> Any:
    import numpy as other
    from numpy import array as made

    return other.array([x[0], 2.0]) @ made([x[1], x[0]])


def with_imported_names(x: Any) -> Any:
    return array([x[0], 2.0])[0] * x[1] + asarray(x).sum()


def with_a_default(x: Any, turn: Callable = rotation) -> Any:
    return turn(x[0])[0, 1] * x[1]


def with_functions_of_eindiff(x: Any) -> Any:
    y = ed.exp(x)
    z = y
    z *= x
    return np.sum(np.where(y == y, y, 0)) if isinstance(y, np.ndarray) else np.sum(ed.exp(x) * x)


def from_lists(x: Any) -> Any:
    total = np.sum([x[0], x[1] ** 2]) + np.dot([x[0], x[1]], [x[1], 2.0])
    return total + np.array((x, x)).sum() + np.array(x, ndmin=2)[0, 1] + np.r_[x, 1.0] @ np.ones(3)


def counted(x: Any) -> Any:
    global calls
    calls += 1
    return np.array([x[0] ** 2, x[1]]).sum()


FUNCTIONS: dict[str, Callable] = {
    "callee": lambda x: np.sum(rotation(x[0]) @ x),
    "callees that call each other": lambda x: even(x, 5) * even(x, 4) * odd(x, 2),
    "decorated": twice(lambda x: np.array([x[0], x[1]]) @ x),
    "method": Model().loss,
    "object": Model(),
    "method of a global": lambda x: MODEL.loss(x),
    "partial": partial(lambda k, x: np.array([x[0] * k, x[1] ** 2]).sum(), 3.0),
    "in a dictionary": lambda x: TURNS["left"](x[0])[0, 1] * x[1],
    "in a module": lambda x: numpy_programs.ridge(x, rotation(x[0]), x, 0.1),
    "globals": counted,
    **{f.__name__: f for f in (imported_inside, with_imported_names, with_a_default, with_functions_of_eindiff)},
    "lists": from_lists,
}  # fmt: skip
MODEL = Model()
TURNS = {"left": rotation}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_arrays_of_symbols(name: str) -> None:
    f = FUNCTIONS[name]
    plain = (lambda x: np.sum(np.exp(x) * x)) if name == "with_functions_of_eindiff" else f
    assert_close(ed.gradient(f)(POINT), finite_difference(plain, POINT), 1e-7)


def test_what_a_function_assigns_is_kept() -> None:
    def maker() -> tuple[Callable, Callable]:
        count = 0

        def f(x: Any) -> Any:
            nonlocal count
            count += 1
            return np.array([x[0], x[1]]).sum()

        return f, lambda: count

    f, count = maker()
    ed.gradient(f, verify=False)(POINT)
    before = calls
    ed.gradient(counted, verify=False)(POINT)
    assert count() == 1 and calls == before + 1


class Scale:
    """A class that others inherit from, with a buffer, a property and a static method."""

    factor = 2.0

    def __init__(self, W: Any) -> None:
        self.W, self.calls = W, 0

    @property
    def size(self) -> int:
        return len(self.W)

    @staticmethod
    def square(x: Any) -> Any:
        return np.sum(np.array([x[0], x[1]]) ** 2)

    def positive(self, h: Any) -> Any:
        out = np.zeros(len(h))
        out[h > 0] = h[h > 0]
        return out


class Network(Scale):
    """A class with another object inside."""

    def __init__(self, W: Any, inner: Any = None) -> None:
        super().__init__(W)
        self.inner = inner

    def positive(self, h: Any) -> Any:
        return super().positive(h) * self.factor

    def __call__(self, x: Any) -> Any:
        self.calls = 7
        more = self.inner.loss(x) if self.inner else 0.0
        return self.positive(self.W @ x).sum() * self.size + self.square(x) + more

    def loss(self, x: Any) -> Any:
        return self(x) ** 2 if isinstance(self, Scale) else 0.0


def test_methods_see_what_functions_see() -> None:
    W = np.array([[1.0, -2.0], [0.5, 1.5], [-1.0, 0.3]])
    network = Network(W, Network(0.3 * W))
    for f in (network, network.loss, lambda x: network.loss(x), lambda x: Network(W).loss(x)):
        gradient = ed.gradient(f)
        for x in (np.array([0.4, -0.7]), np.array([-0.4, 0.7])):
            expected = [(f(x + e) - f(x - e)) / 2e-6 for e in 1e-6 * np.eye(2)]
            np.testing.assert_allclose(gradient(x), expected, rtol=1e-6)
    assert network.calls == 7 and type(network.inner) is Network
    assert_close(ed.gradient(lambda x: np.linalg.det(MODEL.matrix(x)))(POINT), ed.gradient(_determinant)(POINT), EXACT)


def _determinant(x: Any) -> Any:
    return np.linalg.det(MODEL.matrix(x))


# Random numbers

RANDOM: dict[str, Callable] = {
    "np.random.normal": lambda x: np.sum(x) * np.random.normal(),
    "np.random.rand": lambda x: np.sum(x * np.random.rand(2)),
    "np.random.default_rng": lambda x: np.sum(x * np.random.default_rng().normal(size=2)),
    "np.random.seed": lambda x: np.random.seed(0) or x.sum(),
    "GENERATOR.normal": lambda x: np.sum(x) * GENERATOR.normal(),
    "random.random": lambda x: np.sum(x) * random.random(),
    "normal": lambda x: np.sum(x) * normal(),
    "gauss": lambda x: np.sum(x) * gauss(0, 1),
}


@pytest.mark.parametrize("name", RANDOM)
def test_random_numbers_are_refused(name: str) -> None:
    with pytest.raises(EindiffError, match=rf"{name} is random: draw the numbers outside of the function"):
        ed.gradient(RANDOM[name])(POINT)
    with pytest.raises(EindiffError, match="is random"):
        ed.gradient(lambda x: RANDOM[name](x))(POINT)


@pytest.mark.parametrize("draw", [np.random.normal, random.random])
def test_random_numbers_in_methods_are_refused(draw: Callable) -> None:
    class Noisy:
        def loss(self, x: Any) -> Any:
            return self.noise() * np.sum(x)

        def noise(self) -> Any:
            return draw()

    with pytest.raises(EindiffError, match=rf"{draw.__name__} is random"):
        ed.gradient(Noisy().loss)(POINT)


def test_random_numbers_that_others_draw_do_not_matter() -> None:
    class Model:
        __slots__ = ()  # its methods see NumPy as it is

        def loss(self, x: Any) -> Any:
            self.other()
            return np.sum(x**2)

        def other(self) -> None:  # as if it were another thread
            np.random.normal()

    assert_close(ed.gradient(Model().loss)(POINT), 2 * POINT, EXACT)


def test_random_numbers_as_arguments() -> None:
    drawn: Any = np.random.default_rng(1)
    with pytest.raises(EindiffError, match=r"rng\.normal is random"):
        ed.gradient(lambda x, rng: x.sum() * rng.normal())(POINT, rng=drawn)

    def seeded(x: Any) -> Any:
        return np.sum(x * np.random.default_rng(3).normal(size=2)) + x[0] * random.Random(1).random()

    expected = np.random.default_rng(3).normal(size=2) + np.array([random.Random(1).random(), 0])
    assert_close(ed.gradient(seeded)(POINT), expected, EXACT)


# Threads


def _traced_in_a_thread(seed: int) -> Any:
    """A function whose trace needs `np.array`, comparisons of entries and changes in place."""

    def f(x: Any) -> Any:
        y = np.array([x[0] * x[1], seed * x[1], x[0] ** 2])
        y[1:] *= 2
        return np.sum(np.where(y == y, y, 0.0))

    return f


def test_other_threads_see_numpy_and_expressions_as_they_are() -> None:
    originals = {name: getattr(np, name) for name in dir(np)}
    x, y = ed.vector("x", 3), ed.vector("y", 3)
    done, errors = threading.Event(), []

    def traces(number: int) -> None:
        try:
            for k in range(12):
                seed = number * 100 + k if k % 2 else k
                found = ed.gradient(_traced_in_a_thread(seed))(POINT)
                expected = [POINT[1] + 4 * POINT[0], POINT[0] + 2 * seed]
                assert_close(found, expected, EXACT)
        except BaseException as error:
            errors.append(error)

    def watches() -> None:
        try:
            while not done.is_set():
                assert all(vars(np).get(name, value) is value for name, value in originals.items())
                assert (x == x) is True and (x == y) is False and (x != y) is True and y in [x, y]
        except BaseException as error:
            errors.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        watcher = threading.Thread(target=watches)
        workers = [threading.Thread(target=traces, args=(k,)) for k in range(8)]
        for thread in [watcher, *workers]:
            thread.start()
        for thread in workers:
            thread.join()
        done.set()
        watcher.join()
    finally:
        sys.setswitchinterval(interval)
    assert not errors


def test_a_buffer_that_an_object_keeps_has_numbers_again() -> None:
    class Cached:
        def __init__(self) -> None:
            self.buffer: Any = None

        def loss(self, x: Any) -> Any:
            if self.buffer is None:
                self.buffer = np.zeros(2)
            self.buffer[0] = x[0] ** 2
            self.buffer[1] = np.sum(x)
            return self.buffer @ self.buffer

    model = Cached()
    x = np.array([0.4, -0.7])
    expected = [(Cached().loss(x + e) - Cached().loss(x - e)) / 2e-6 for e in 1e-6 * np.eye(2)]
    np.testing.assert_allclose(ed.gradient(model.loss)(x), expected, rtol=1e-6)
    np.testing.assert_allclose(model.buffer, [0.16, -0.3])
    assert_close(model.loss(x), Cached().loss(x), EXACT)
