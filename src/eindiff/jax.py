"""Derivatives of JAX functions with JAX's signatures: change the import and keep the code.

>>> import jax.numpy as jnp
>>> from eindiff.jax import hessian
>>> X = jnp.arange(6.0).reshape(3, 2)
>>> hessian(lambda w: jnp.sum(jnp.square(X @ w)))(jnp.ones(2)).tolist()
[[40.0, 52.0], [52.0, 70.0]]

A function is traced once for each set of shapes and types of its arguments, as `jax.jit` does it, and again when
numbers or arrays that it sees in its closure, globals or attributes have changed. Derivatives are made in closed form,
and compiled.

Arguments that derivatives are not by may be anything: arrays and fractions are inputs; Python's integers, text and
functions are known when the function is traced, and so are arrays whose values are needed then (indices, for instance).
Other values of these are another trace; `f.traces` counts them.

A part that has no closed form is computed and differentiated by JAX, with a warning. What cannot be read at all (random
numbers, side effects, loops whose length depends on values) is refused with the reason, or, with `fallback=True`, done
by JAX alone.

The first call for a trace outside of `jax.jit` and `jax.vmap` compares the value of the traced function with that of a
plain call, and refuses a function that is another one when it is called again (`verify=False` turns this off).

Derivatives at kinks are those of JAX, except that abs'(0) = 0. Tests for values that are not finite (`jnp.isfinite`,
`jnp.isnan`) are taken to find none.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np

from eindiff.program.interpreter import as_tuples
from eindiff.structure.newton import NewtonStep, Step
from eindiff.tracing.front_ends import Compared, Lowered, Newton, check_tangents, compared, direction_name
from eindiff.tracing.jax import derivatives
from eindiff.tracing.jax.derivatives import ArgNums, Request, Transformed, Valued, lowered
from eindiff.tracing.jax.function import Traced

__all__ = [
    "check", "grad", "hessian", "hessian_diagonal", "hvp", "jacfwd", "jacobian", "jacrev", "lower", "newton_step",
    "value_and_grad", "value_grad_hessian",
]  # fmt: skip


def _in_jax(transform: Callable) -> Callable:
    """A transformation of JAX for the same arguments."""
    return lambda f, argnums, has_aux: transform(f, argnums=argnums, has_aux=has_aux)


def _first(traced: Traced, value: Any) -> Any:
    return value


_GRADIENT = Request("gradient", derivatives.gradient_exprs, derivatives.like_free, _in_jax(jax.grad))
_REVERSE = Request("jacrev", derivatives.jacobian_exprs, derivatives.jacobian_result, _in_jax(jax.jacrev))
_FORWARD = Request(
    "jacfwd", derivatives.jacobian_exprs, partial(derivatives.jacobian_result, forward=True), _in_jax(jax.jacfwd)
)
_HESSIAN = Request("hessian", derivatives.hessian_exprs, derivatives.hessian_result, _in_jax(jax.hessian))
_STRUCTURED = Request("structured hessian", derivatives.grid_exprs, _first, form="structured")
_STRUCTURED_JACOBIAN = Request("structured jacobian", derivatives.jacobian_exprs, _first, form="structured")
_DIAGONAL = Request("hessian diagonal", derivatives.diagonal_exprs, derivatives.like_free)
_PRODUCT = Request("hessian product", derivatives.product_exprs, derivatives.like_free)


def _with_gradient(traced: Traced) -> list:
    return [traced.finished(traced.outputs), derivatives.gradient_exprs(traced)]


def _with_hessian(traced: Traced) -> list:
    return [*_with_gradient(traced), derivatives.hessian_exprs(traced)]


def _value_gradient(traced: Traced, values: Any) -> Valued:
    return Valued((derivatives.value_result(traced, values[0]), derivatives.like_free(traced, values[1])))


def _value_gradient_hessian(traced: Traced, values: Any) -> Valued:
    return Valued((*_value_gradient(traced, values[:2]), derivatives.hessian_result(traced, values[2])))


_VALUE_GRADIENT = Request("value, gradient", _with_gradient, _value_gradient, _in_jax(jax.value_and_grad))
_VALUE_GRADIENT_HESSIAN = Request("value, gradient, hessian", _with_hessian, _value_gradient_hessian)


# With JAX's signatures


def grad(
    fun: Callable, argnums: ArgNums = 0, has_aux: bool = False, holomorphic: bool = False,
    *, fallback: bool = False, verify: bool = True,
) -> Transformed:  # fmt: skip
    """The gradient of a scalar function, as `jax.grad`."""
    return Transformed(fun, argnums, has_aux, _GRADIENT, fallback, holomorphic, verify)


def value_and_grad(
    fun: Callable, argnums: ArgNums = 0, has_aux: bool = False, holomorphic: bool = False,
    *, fallback: bool = False, verify: bool = True,
) -> Transformed:  # fmt: skip
    """The value and the gradient of a scalar function, as `jax.value_and_grad`."""
    return Transformed(fun, argnums, has_aux, _VALUE_GRADIENT, fallback, holomorphic, verify)


def jacrev(
    fun: Callable, argnums: ArgNums = 0, has_aux: bool = False, holomorphic: bool = False,
    *, structured: bool = False, fallback: bool = False, verify: bool = True,
) -> Transformed:  # fmt: skip
    """The Jacobian, as `jax.jacrev`. It is the same in all modes: the program decides on the order of products."""
    request = _STRUCTURED_JACOBIAN if structured else _REVERSE
    return Transformed(fun, argnums, has_aux, request, fallback, holomorphic, verify)


def jacfwd(
    fun: Callable, argnums: ArgNums = 0, has_aux: bool = False, holomorphic: bool = False,
    *, structured: bool = False, fallback: bool = False, verify: bool = True,
) -> Transformed:  # fmt: skip
    """The Jacobian, as `jax.jacfwd`."""
    request = _STRUCTURED_JACOBIAN if structured else _FORWARD
    return Transformed(fun, argnums, has_aux, request, fallback, holomorphic, verify)


jacobian = jacrev


def hessian(
    fun: Callable, argnums: ArgNums = 0, has_aux: bool = False, holomorphic: bool = False,
    *, structured: bool = False, fallback: bool = False, verify: bool = True,
) -> Transformed:  # fmt: skip
    """The Hessian, as `jax.hessian`. With `structured` it is one `Derivative` for all variables, in its structure.

    >>> import jax.numpy as jnp
    >>> hessian(lambda w: jnp.sum(jnp.exp(w)), structured=True)(jnp.zeros(1000)).structure
    'diagonal'
    """
    return Transformed(fun, argnums, has_aux, _STRUCTURED if structured else _HESSIAN, fallback, holomorphic, verify)


# More


def value_grad_hessian(
    fun: Callable, argnums: ArgNums = 0, has_aux: bool = False, *, fallback: bool = False, verify: bool = True
) -> Transformed:
    """The value, the gradient and the Hessian of a scalar function, which share their work."""
    return Transformed(fun, argnums, has_aux, _VALUE_GRADIENT_HESSIAN, fallback, verify=verify)


def hessian_diagonal(fun: Callable, argnums: ArgNums = 0, has_aux: bool = False, *, verify: bool = True) -> Transformed:
    """The diagonal of the Hessian of a scalar function, in the shape of the arguments. The Hessian is not formed."""
    return Transformed(fun, argnums, has_aux, _DIAGONAL, False, verify=verify)


class _Product(Transformed):
    """A Hessian-vector product: a function of the arguments, and `tangents` in their tree."""

    def __call__(self, *args: Any, tangents: Any, **kwargs: Any) -> Any:
        record, arguments = self._read(args, kwargs)
        given, tree = jax.tree_util.tree_flatten(tangents)
        check_tangents(record.traced.free, record.traced.free_tree, given, tree)
        directions = {direction_name(x): v for x, v in zip(record.traced.free, given, strict=True)}
        return self._result(record, self._arrays(record, arguments) | directions)

    def lower(self, *args: Any, tangents: Any, **kwargs: Any) -> Lowered:
        """The expressions and the program for arguments like these."""
        self(*args, tangents=tangents, **kwargs)
        record, _ = self._read(args, kwargs)
        return lowered(record.traced, self._request.program(record))


def hvp(fun: Callable, argnums: ArgNums = 0, has_aux: bool = False, *, verify: bool = True) -> _Product:
    """The Hessian times a direction, at the cost of a few gradients: `hvp(f)(x, tangents=v)`.

    >>> import jax.numpy as jnp
    >>> hvp(lambda x: jnp.sum(x**3))(jnp.array([1.0, 2.0]), tangents=jnp.array([1.0, 0.5])).tolist()
    [6.0, 6.0]
    """
    return _Product(fun, argnums, has_aux, _PRODUCT, False, verify=verify)


def newton_step(
    fun: Callable, argnums: ArgNums = 0, has_aux: bool = False, *, damping: float | str = 0.0, verify: bool = True
) -> Transformed:
    """A Newton step of a scalar function, solved through the structure of its Hessian; damping as in `ed.newton_step`.

    >>> import jax.numpy as jnp
    >>> newton_step(lambda x: jnp.sum(jnp.exp(x) - 2 * x))(jnp.zeros(3)).step.tolist()
    [1.0, 1.0, 1.0]
    """

    def exprs(traced: Traced) -> NewtonStep:
        gradient, hessian = derivatives.gradient_exprs(traced), derivatives.grid_exprs(traced)
        return NewtonStep(as_tuples(gradient), as_tuples(hessian), damping)

    def finish(traced: Traced, found: Step) -> Newton:
        return Newton.like(partial(derivatives.like_free, traced), found)

    return Transformed(fun, argnums, has_aux, Request(f"newton {damping}", exprs, finish), False, verify=verify)


def lower(fun: Callable, argnums: ArgNums = 0, has_aux: bool = False, *, verify: bool = True) -> Callable[..., Lowered]:
    """What runs for the Hessian of a function: `lower(f)(*args)` has `.expression`, `.formula`, `.source`, `.plan`.

    >>> import jax.numpy as jnp
    >>> print(lower(lambda w, X: jnp.sum(jnp.log1p(jnp.exp(X @ w))))(jnp.ones(2), jnp.ones((3, 2))).formula)
    X'*diag(sigmoid(X*w) .* sigmoid(-X*w))*X
    """
    return hessian(fun, argnums, has_aux, verify=verify).lower


def check(
    fun: Callable, *args: Any, argnums: ArgNums = 0, has_aux: bool = False, verify: bool = True, **kwargs: Any
) -> Compared:
    """The Hessian at some arguments, compared with the one that JAX gives.

    >>> import jax.numpy as jnp
    >>> check(lambda x: jnp.sum(jnp.sin(x) ** 2), jnp.ones(3)).passed
    True
    """
    ours = hessian(fun, argnums, has_aux, verify=verify)
    actual = ours(*args, **kwargs)
    expected = jax.hessian(fun, argnums, has_aux)(*args, **kwargs)
    if has_aux:
        actual, expected = actual[0], expected[0]
    if jax.tree_util.tree_structure(actual) != jax.tree_util.tree_structure(expected):
        raise AssertionError("the Hessian has another structure than that of JAX")
    found, wanted = (list(map(np.asarray, jax.tree_util.tree_leaves(x))) for x in (actual, expected))
    return compared(found, wanted, ours.lower(*args, **kwargs).opaque, "jax.hessian")
