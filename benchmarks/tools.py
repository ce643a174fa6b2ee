"""One class a tool: how it makes a derivative of a problem, its arrays, and its result as NumPy arrays.

A framework sees a problem's objective through its `xp`, a namespace of the few functions that the problems use.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from benchmarks.problem import Array, Problem

LARGEST = 1 << 30  # bytes of a compressed result that is compared as a whole
CORNER = 100  # rows and columns of a larger one that are compared


@dataclass(frozen=True)
class Task:
    """What a tool is asked for."""

    problem: Problem
    quantity: str
    variant: str
    n: int

    @property
    def corner(self) -> int | None:
        """How many rows of a compressed result are compared, if not all."""
        large = 8 * self.problem.entries(self.quantity, self.n) > LARGEST
        return CORNER if self.quantity == "compressed" and large else None

    def positional(self, xp: Any) -> tuple[Callable[..., Any], int]:
        """The objective as a function of all arrays in order, and the place of the one to differentiate by."""
        names, objective = list(self.problem.shapes), self.problem.objective
        return lambda *args: objective(xp, **dict(zip(names, args, strict=True))), names.index(self.problem.wrt)


class Tool:
    """A tool. Making one imports it; `build` and the first `call` are timed as its compilation."""

    title = ""
    package = ""  # to import, and whose version is reported
    peer = True
    array: Any = staticmethod(np.asarray)  # makes an array of the tool's own

    @staticmethod
    def variants(problem: Problem, quantity: str) -> tuple[str, ...]:
        """The ways in which the tool can compute a quantity of a problem; none if it cannot."""
        return () if quantity == "compressed" else ("",)

    def build(self, task: Task) -> Any:
        """The derivative as a function."""
        raise NotImplementedError

    def inputs(self, task: Task, function: Any) -> dict[str, Any]:
        """The arguments of that function."""
        return self.native(task, task.problem.shapes)

    def native(self, task: Task, names: Iterable[str]) -> dict[str, Any]:
        """Data in the tool's own arrays."""
        return {name: self.array(task.problem.array(name, task.n)) for name in names}

    def call(self, function: Any, inputs: dict[str, Any]) -> Any:
        """The result, when it is there."""
        return function(*inputs.values())

    def results(self, task: Task, value: Any) -> list[Array]:
        """The result as dense NumPy arrays."""
        return [np.asarray(one) for one in _several(value)]

    def size(self, value: Any) -> int:
        """The bytes of the result."""
        return sum(getattr(one, "nbytes", 8) for one in _several(value))

    def predicted(self, task: Task) -> dict[str, float]:
        """What the tool's own model says about the cost, if it has one."""
        return {}


def _several(value: Any) -> Any:
    return value if isinstance(value, list | tuple) else [value]


class Hand(Tool):
    """NumPy and SciPy as a person would write them."""

    title = "by hand"
    package = "scipy"
    peer = False

    @staticmethod
    def variants(problem: Problem, quantity: str) -> tuple[str, ...]:
        return tuple(problem.hand.get(quantity, ()))

    def build(self, task: Task) -> Any:
        return task.problem.hand[task.quantity][task.variant]

    def inputs(self, task: Task, function: Any) -> dict[str, Any]:
        return task.problem.arguments(function, task.n)

    def call(self, function: Any, inputs: dict[str, Any]) -> Any:
        return function(**inputs)

    def results(self, task: Task, value: Any) -> list[Array]:
        expand = task.problem.expand
        if task.quantity != "compressed" or expand is None:
            return super().results(task, value)
        sizes = task.problem.arguments(expand, task.n)
        if task.corner:
            sizes = {name: min(size, task.corner) for name, size in sizes.items()}
        return [expand(*_several(value), **sizes)]


class Eindiff(Tool):
    """This package, in its modes; compressed results in its default mode."""

    title = "eindiff"
    package = "eindiff"
    peer = False

    def __init__(self) -> None:
        import scipy.linalg
        import scipy.special  # noqa: F401 (generated code imports these)

        import eindiff

        self.ed, self.compile = eindiff, eindiff.compile

    @staticmethod
    def variants(problem: Problem, quantity: str) -> tuple[str, ...]:
        if quantity == "compressed":
            return ("auto",) if quantity in problem.hand else ()
        return ("auto", "reverse", "cross_country")

    def build(self, task: Task) -> Any:
        form = "structured" if task.quantity == "compressed" else "dense"
        return self.compile(self._outputs(task), sizes=task.problem.sizes(task.n), form=form)

    def _outputs(self, task: Task) -> list[Any]:
        ed, problem = self.ed, task.problem
        variables = {name: ed.tensor(name, tuple(shape.split())) for name, shape in problem.shapes.items()}
        value, x = problem.objective(ed, **variables), variables[problem.wrt]
        if task.quantity == "gradient":
            return [value, ed.gradient(value, x, mode=task.variant)]
        return [ed.hessian(value, x, mode=task.variant)]

    def inputs(self, task: Task, function: Any) -> dict[str, Any]:
        return self.native(task, [variable.name for variable in self.ed.variables(*self._outputs(task))])

    def call(self, function: Any, inputs: dict[str, Any]) -> Any:
        return function(**inputs)

    def results(self, task: Task, value: Any) -> list[Array]:
        if task.quantity != "compressed":
            return super().results(task, value)
        return [_corner(one, task.corner) if task.corner else one.as_tensor() for one in value]

    def predicted(self, task: Task) -> dict[str, float]:
        plan = self.ed.plan(self._outputs(task), task.problem.sizes(task.n))
        return {"flops": float(plan.flops), "seconds": float(plan.seconds)}


def _corner(value: Any, count: int) -> Array:
    """The first rows along each axis of a structured result, which as a whole would be too large."""
    total = np.zeros([min(size, count) for size in value.shape])
    for term in value.terms:
        outer = set(term.output)
        cuts = [[slice(count) if label in outer else slice(None) for label in labels] for labels in term.labels]
        arrays = tuple([array[(*cut, ...)] for array, cut in zip(term.arrays, cuts, strict=True)])
        sizes = {label: min(size, count) if label in outer else size for label, size in term.sizes.items()}
        total += replace(term, arrays=arrays, sizes=sizes).to_dense()
    return total


class Jax(Tool):
    """`jax.jit` of `jax.hessian` and `jax.value_and_grad`, in double precision."""

    title = "JAX"
    package = "jax"

    def __init__(self) -> None:
        import jax
        import jax.numpy as jnp

        jax.config.update("jax_enable_x64", True)
        self.jax, self.array = jax, jnp.asarray
        self.xp = SimpleNamespace(
            exp=jnp.exp, log=jnp.log, sqrt=jnp.sqrt, tanh=jnp.tanh, sum=jnp.sum, eye=jnp.eye, solve=jnp.linalg.solve,
            relu=jax.nn.relu, sigmoid=jax.nn.sigmoid, softmax=jax.nn.softmax,
            logsumexp=jax.scipy.special.logsumexp, logdet=lambda a: jnp.linalg.slogdet(a)[1],
        )  # fmt: skip

    def build(self, task: Task) -> Any:
        derive = self.jax.hessian if task.quantity == "hessian" else self.jax.value_and_grad
        return self.jax.jit(derive(*task.positional(self.xp)))

    def call(self, function: Any, inputs: dict[str, Any]) -> Any:
        return self.jax.block_until_ready(function(*inputs.values()))


class Torch(Tool):
    """`torch.func.hessian` and `torch.func.grad_and_value`."""

    title = "PyTorch"
    package = "torch"

    def __init__(self) -> None:
        import torch

        self.func, self.array = torch.func, torch.from_numpy
        self.xp = SimpleNamespace(
            exp=torch.exp, log=torch.log, sqrt=torch.sqrt, tanh=torch.tanh, sum=torch.sum, relu=torch.relu,
            sigmoid=torch.sigmoid, softmax=lambda a: torch.softmax(a, -1), logsumexp=torch.logsumexp,
            solve=torch.linalg.solve, logdet=torch.logdet, eye=lambda n: torch.eye(n, dtype=torch.float64),
        )  # fmt: skip

    def build(self, task: Task) -> Any:
        derive = self.func.hessian if task.quantity == "hessian" else self.func.grad_and_value
        return derive(*task.positional(self.xp))

    def results(self, task: Task, value: Any) -> list[Array]:
        return super().results(task, value[::-1] if task.quantity == "gradient" else value)


class TensorFlow(Tool):
    """`GradientTape.gradient`, and `GradientTape.jacobian` of it, in a `tf.function`."""

    title = "TensorFlow"
    package = "tensorflow"

    def __init__(self) -> None:
        import tensorflow as tf

        tf.experimental.numpy.experimental_enable_numpy_behavior()
        self.tf, self.array = tf, tf.constant
        self.xp = SimpleNamespace(
            exp=tf.exp, log=tf.math.log, sqrt=tf.sqrt, tanh=tf.tanh, sum=tf.reduce_sum, relu=tf.nn.relu,
            sigmoid=tf.sigmoid, softmax=tf.nn.softmax, logsumexp=tf.reduce_logsumexp,
            solve=lambda a, b: tf.linalg.solve(a, b[:, None])[:, 0], logdet=lambda a: tf.linalg.slogdet(a)[1],
            eye=lambda n: tf.eye(n, dtype=tf.float64),
        )  # fmt: skip

    def build(self, task: Task) -> Any:
        tf, (objective, index) = self.tf, task.positional(self.xp)

        def gradient(*args: Any) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(args[index])
                value = objective(*args)
            return value, tape.gradient(value, args[index])

        def hessian(*args: Any) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(args[index])
                first = gradient(*args)[1]
            return tape.jacobian(first, args[index])

        return tf.function(hessian if task.quantity == "hessian" else gradient)

    def size(self, value: Any) -> int:
        return sum(8 * one.shape.num_elements() for one in _several(value))


class Autograd(Tool):
    """`autograd.hessian` and `autograd.value_and_grad`."""

    title = "autograd"
    package = "autograd"

    def __init__(self) -> None:
        import autograd
        import autograd.numpy as anp
        from autograd.scipy import special

        self.autograd = autograd
        self.xp = SimpleNamespace(
            exp=anp.exp, log=anp.log, sqrt=anp.sqrt, tanh=anp.tanh, sum=anp.sum, eye=anp.eye, solve=anp.linalg.solve,
            relu=lambda a: anp.maximum(a, 0), sigmoid=special.expit, logsumexp=special.logsumexp,
            softmax=lambda a: anp.exp(a - special.logsumexp(a, -1, keepdims=True)),
            logdet=lambda a: anp.linalg.slogdet(a)[1],
        )  # fmt: skip

    def build(self, task: Task) -> Any:
        derive = self.autograd.hessian if task.quantity == "hessian" else self.autograd.value_and_grad
        return derive(*task.positional(self.xp))


class Casadi(Tool):
    """`casadi.hessian` and `casadi.gradient` of matrix (MX) and scalar (SX) graphs, of problems it can express."""

    title = "CasADi"
    package = "casadi"

    def __init__(self) -> None:
        import casadi

        self.casadi, self.array = casadi, casadi.DM
        self.xp = SimpleNamespace(exp=casadi.exp, log=casadi.log, sum=lambda a: casadi.sum1(casadi.sum2(a)))

    @staticmethod
    def variants(problem: Problem, quantity: str) -> tuple[str, ...]:
        return ("MX", "SX") if problem.casadi and quantity != "compressed" else ()

    def build(self, task: Task) -> Any:
        casadi, problem, kind = self.casadi, task.problem, getattr(self.casadi, task.variant)
        inputs = {name: kind.sym(name, *problem.shape(name, task.n)) for name in problem.shapes}
        shape = inputs[problem.wrt].shape
        x = inputs[problem.wrt] = kind.sym("x", shape[0] * shape[1])  # derivatives are by vectors
        value = problem.objective(self.xp, **(inputs | {problem.wrt: casadi.reshape(x, shape)}))
        outputs = [casadi.hessian(value, x)[0]] if task.quantity == "hessian" else [value, casadi.gradient(value, x)]
        return casadi.Function("f", list(inputs.values()), outputs)

    def inputs(self, task: Task, function: Any) -> dict[str, Any]:
        arrays = super().inputs(task, function)
        return arrays | {task.problem.wrt: self.casadi.vec(arrays[task.problem.wrt])}

    def call(self, function: Any, inputs: dict[str, Any]) -> Any:
        return function.call(list(inputs.values()))

    def results(self, task: Task, value: Any) -> list[Array]:
        shape = task.problem.shape(task.problem.wrt, task.n)[::-1]  # columns come first
        arrays = [one.full() for one in value]
        if task.quantity == "gradient":
            return [arrays[0][0, 0], arrays[1].reshape(shape).T]
        order = [*reversed(range(len(shape))), *reversed(range(len(shape), 2 * len(shape)))]
        return [arrays[0].reshape(shape + shape).transpose(order)]

    def size(self, value: Any) -> int:
        return sum(8 * one.nnz() for one in value)


TOOLS: dict[str, type[Tool]] = {
    "hand": Hand,
    "eindiff": Eindiff,
    "jax": Jax,
    "torch": Torch,
    "tensorflow": TensorFlow,
    "autograd": Autograd,
    "casadi": Casadi,
}

# Before a framework is imported: no accelerators, no messages.
os.environ.update(JAX_PLATFORMS="cpu", TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="-1")
