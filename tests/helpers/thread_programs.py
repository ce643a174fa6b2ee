"""What threads do at the same time: they derive, trace, compile, parse, print and solve, and know the right values.

`python tests/helpers/thread_programs.py 1000 numpy` does each of it so many times in each of eight threads.
"""

from __future__ import annotations

import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

import eindiff as ed
from eindiff.core.nodes import plain

THREADS = 8

Work = Callable[[int], None]  # of a number that tells functions apart

w = ed.vector("w", "n")
POINT = np.linspace(0.1, 1.0, 5)
SPREAD = np.random.default_rng(0).normal(size=(4, 5))


def near(found: Any, right: Any, rtol: float = 1e-9) -> None:
    """Refuse another value."""
    found = np.asarray(found, float)
    assert found.shape == np.shape(right)
    assert (np.abs(found - right) <= rtol * (1 + np.abs(right))).all(), (found, right)


# What is done, for a number c that tells functions apart


def derives(c: int) -> None:
    """Equal expressions are one object, however they come about."""
    f = ed.sum(ed.exp(c * w))
    gradient, right = ed.gradient(f, w), c * ed.exp(c * w)
    assert gradient == right
    assert plain(gradient) is right
    assert plain(ed.gradient(f, w)) is plain(gradient)
    assert ed.sum(ed.exp(w * c)) is f
    hessian = ed.hessian(f, w)
    assert hessian == ed.derivative(right, w)


def compiles(c: int) -> None:
    """One function for equal requests, with the right values."""
    f = ed.sum(ed.exp(-w / (1 + c % 5))) + ed.sum(w**2) * c
    function = ed.compile([f, ed.gradient(f, w), ed.hessian(f, w)])
    value, gradient, hessian = function(w=POINT)
    e, s = np.exp(-POINT / (1 + c % 5)), 1 + c % 5
    near(value, e.sum() + c * (POINT**2).sum())
    near(gradient, -e / s + 2 * c * POINT)
    near(hessian, np.diag(e / s**2 + 2 * c))


def traces(c: int) -> None:
    """Functions of NumPy: a new one each time, which makes arrays of lists and changes some in place."""
    weights = np.full(5, float(c))

    def f(v: Any) -> Any:
        y = np.array([v[0], *v[1:]]) * weights
        y += np.asarray(v) ** 2
        return np.sum(y * v)

    if c % 4 < 2:
        near(ed.gradient(f)(POINT), 2 * c * POINT + 3 * POINT**2)
    else:
        near(ed.hessian(f)(POINT), np.diag(2 * c + 6 * POINT))
    expr = ed.symbolic(lambda v: np.sum(np.exp(c * v)), 5, names=["v"])
    assert expr is ed.sum(ed.exp(c * ed.vector("v", 5)))


def parses(c: int) -> None:
    """Text to an expression, and an expression to text."""
    expr = ed.parse(f"sum(exp({c}*w)) + norm2(w)^2", "w(n)")
    assert expr is ed.sum(ed.exp(c * w)) + ed.norm2(w) ** 2
    text = str(expr)
    assert text == str(ed.sum(ed.exp(c * w)) + ed.norm2(w) ** 2)
    assert expr._repr_latex_() == ed.parse(f"norm2(w)^2 + sum(exp({c}*w))", "w(n)")._repr_latex_()


def solves(c: int) -> None:
    """A structured system: a diagonal plus a matrix of low rank."""
    A = ed.matrix("A", "m", "n")
    f = ed.sum(ed.exp(A @ w)) + (1 + c) / 2 * ed.sum(w**2)
    hessian = ed.structured(ed.hessian(f, w), {"A": SPREAD, "w": POINT})
    dense = SPREAD.T @ np.diag(np.exp(SPREAD @ POINT)) @ SPREAD + (1 + c) * np.eye(5)
    near(hessian.solve(POINT), np.linalg.solve(dense, POINT))
    near(ed.evaluate(ed.hessian(f, w), {"A": SPREAD, "w": POINT}), dense)


def logs(c: int) -> None:
    """Rules that are applied are written down for the thread that asks."""
    with ed.rewrite_log() as log:
        ed.log(ed.sum(ed.exp(w + c)))
        found = ed.exp(ed.log(w * c))
    assert found is c * w
    assert all(str(c) in repr(step) or "exp" in repr(step) for step in log), log


def matrices(c: int) -> None:
    """Functions of matrices and of libraries, which are made when they are first needed."""
    B = ed.matrix("B", 2, 2)
    scale = 1 + c % 7
    entries = np.array([[1.0, 0.2], [0.1, 0.8]])
    values, vectors = np.linalg.eig(scale * entries)
    right = scale * (vectors @ np.diag(np.exp(values)) @ np.linalg.inv(vectors)).T
    near(ed.evaluate(ed.gradient(ed.tr(ed.expm(scale * B)), B), {"B": entries}), right)
    near(ed.gradient(lambda v: np.sum(np.arcsinh(scale * v)))(POINT), scale / np.sqrt(1 + (scale * POINT) ** 2))


def of_jax() -> list[Work]:
    """Functions of JAX."""
    import jax.numpy as jnp

    import eindiff.jax

    def traces_jax(c: int) -> None:
        array = jnp.asarray(SPREAD * c, jnp.float32)

        def f(v: Any) -> Any:
            return jnp.sum(jnp.sin(v) * c) + jnp.sum((array @ v) ** 2) / 2

        point, matrix = jnp.asarray(POINT, jnp.float32), np.asarray(array, float)
        near(eindiff.jax.grad(f)(point), c * np.cos(POINT) + matrix.T @ matrix @ POINT, 1e-3)
        near(eindiff.jax.hessian(f)(point), np.diag(-c * np.sin(POINT)) + matrix.T @ matrix, 1e-3)

    return [traces_jax]


def of_torch() -> list[Work]:
    """Functions of PyTorch."""
    import torch

    import eindiff.torch

    def traces_torch(c: int) -> None:
        array = torch.from_numpy(SPREAD * c)

        def f(v: Any) -> Any:
            y = v.clone()
            y *= c
            noise = torch.distributions.Normal(v.new_zeros(()), v.new_ones(()))
            return torch.sin(y).sum() + ((array @ v) ** 2).sum() / 2 - noise.log_prob(v).sum()

        point, matrix = torch.from_numpy(POINT), SPREAD * c
        if c % 4 < 2:
            near(eindiff.torch.grad(f)(point), c * np.cos(c * POINT) + matrix.T @ matrix @ POINT + POINT)
        else:
            right = np.diag(1 - c * c * np.sin(c * POINT)) + matrix.T @ matrix
            near(eindiff.torch.hessian(f)(point), right)

    return [traces_torch]


WORKS: dict[str, Callable[[], Sequence[Work]]] = {
    "numpy": lambda: [derives, compiles, traces, parses, solves, logs, matrices],
    "jax": of_jax,
    "torch": of_torch,
}


# What a thread sees that does nothing of it


def _state() -> dict[str, Any]:
    """What other threads could change under a thread: the functions of the libraries, and their settings."""
    found: dict[str, Any] = {f"np.{name}": value for name, value in list(vars(np).items()) if callable(value)}
    found |= {f"np.linalg.{name}": value for name, value in list(vars(np.linalg).items()) if callable(value)}
    found |= {"filters": list(warnings.filters), "errstate": np.geterr()}
    if not warnings.showwarning.__module__.startswith("torch."):  # its filter while it makes fake tensors
        found["showwarning"] = warnings.showwarning
    if "torch" in sys.modules:
        import torch

        found |= {f"torch.{name}": value for name, value in list(vars(torch).items()) if callable(value)}
        found |= {f"Tensor.{name}": value for name, value in list(vars(torch.Tensor).items()) if callable(value)}
        found |= {
            "apply": torch.autograd.Function.__dict__["apply"],
            "validate": torch.distributions.Distribution._validate_args,
            "grad": torch.is_grad_enabled(), "dtype": torch.get_default_dtype(),
            "attention": (torch.backends.cuda.flash_sdp_enabled(), torch.backends.cuda.math_sdp_enabled()),
        }  # fmt: skip
    if "jax" in sys.modules:
        import jax

        found |= {f"jnp.{name}": value for name, value in list(vars(jax.numpy).items()) if callable(value)}
        found |= {"x64": jax.config.jax_enable_x64, "nans": jax.config.jax_debug_nans}
    return found


@contextmanager
def watched() -> Iterator[list[str]]:
    """Another thread that traces nothing, and names what it sees changed."""
    changed: list[str] = []
    stop = threading.Event()
    before = _state()
    a, b = ed.vector("a", 3), ed.vector("b", 3)

    def watch() -> None:
        while not stop.is_set():
            after = _state()
            changed.extend(name for name in before if after.get(name, before[name]) != before[name])
            if (a == a) is not True or (a == b) is not False or (a != b) is not True:
                changed.append("==")
            if type(np.array([1.0])) is not np.ndarray:
                changed.append("np.array")

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield changed
    finally:
        stop.set()
        thread.join()


def in_threads(work: Work, threads: int = THREADS) -> None:
    """Run the same in several threads that take turns as often as Python lets them, and pass on what they raise."""
    errors: list[BaseException] = []
    start = threading.Barrier(threads)

    def run(number: int) -> None:
        try:
            start.wait()
            work(number)
        except BaseException as error:
            errors.append(error)

    running = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    if errors:
        raise errors[0]


def stress(works: Sequence[Work], count: int) -> None:
    """Each thread does all of it so many times: the odd ones the same as others do, the even ones its own."""

    def work(number: int) -> None:
        for k in range(count):
            c = k + 2 if k % 2 else (number + 1) * 10_000 + k
            for step in range(len(works)):  # each thread begins with another
                works[(step + number) % len(works)](c)

    for own in works:  # libraries that are imported when they are first needed come with filters of warnings
        own(1)
    with watched() as changed:
        in_threads(work)
    assert not changed, sorted(set(changed))


if __name__ == "__main__":
    count = int(sys.argv[1])
    for library in sys.argv[2:] or WORKS:
        for work in WORKS[library]():
            began = time.perf_counter()
            stress([work], count)
            print(f"{library}: {THREADS} × {count} {work.__name__}: {time.perf_counter() - began:.1f} s", flush=True)
