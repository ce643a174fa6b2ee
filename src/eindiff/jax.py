"""Derivatives of JAX functions with JAX's signatures: change the import and keep the code.

>>> import jax.numpy as jnp
>>> from eindiff.jax import hessian
>>> X = jnp.arange(6.0).reshape(3, 2)
>>> hessian(lambda w: jnp.sum(jnp.square(X @ w)))(jnp.ones(2)).tolist()
[[40.0, 52.0], [52.0, 70.0]]

A function is traced once for each set of shapes and types of its arguments, as `jax.jit` does it, and again when
numbers or arrays that it sees in its closure, globals or attributes have changed. Derivatives are made in closed form,
and compiled: for NumPy, so that a first call takes little time, and by JAX's compiler inside of `jax.jit`, and where a
function is called so often that this has paid.

Arguments that derivatives are not by may be anything: arrays and fractions are inputs; Python's integers, text and
functions are known when the function is traced, and so are arrays whose values are needed then (indices, for instance).
Other values of these are another trace; `f.traces` counts them.

A part that has no closed form is computed and differentiated by JAX, with a warning; where it is a large part, such as
a long loop, JAX differentiates the whole function, compiled. What cannot be read at all (random numbers, side effects)
is refused with the reason, or, with `fallback=True`, done by JAX alone.

The first call for a trace outside of `jax.jit` and `jax.vmap` compares the value of the traced function with that of a
plain call, and refuses a function that is another one when it is called again (`verify=False` turns this off).

Derivatives at kinks are those of JAX, except that abs'(0) = 0. Tests for values that are not finite (`jnp.isfinite`,
`jnp.isnan`) are taken to find none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from eindiff.core.errors import EindiffError
from eindiff.tracing import derivatives
from eindiff.tracing.computation import Lowered
from eindiff.tracing.derivatives import Kind
from eindiff.tracing.fields import Fields
from eindiff.tracing.jax.library import JAX
from eindiff.tracing.traced_function import HessianProduct, TracedFunction
from eindiff.tracing.verify import Compared, compared

__all__ = [
    "biharmonic", "check", "curl", "directional", "divergence", "grad", "hessian", "hessian_diagonal", "hvp", "jacfwd",
    "jacobian", "jacrev", "laplacian", "lower", "newton_step", "operator", "value_and_grad", "value_grad_hessian",
]  # fmt: skip

ArgNums = int | Sequence[int]


def _derivative(
    kind: Kind, fun: Callable, argnums: ArgNums, has_aux: bool, holomorphic: bool = False, *,
    fallback: bool = False, verify: bool = True, **options: Any,
) -> TracedFunction:  # fmt: skip
    if holomorphic:
        raise EindiffError("holomorphic=True: there are no derivatives by complex numbers here", "options")
    if not callable(fun):
        raise EindiffError(f"expected a function, not {fun!r}", "options")
    chosen = argnums if isinstance(argnums, int) else tuple(argnums)
    made = HessianProduct if kind is derivatives.PRODUCT else TracedFunction
    return made(JAX, kind, fun, chosen, has_aux, fallback, verify, together=True, **options)


_fields = Fields(lambda kind, fun, argnums, verify: _derivative(kind, fun, argnums, False, verify=verify))
laplacian, biharmonic, divergence = _fields.laplacian, _fields.biharmonic, _fields.divergence
curl, directional, operator = _fields.curl, _fields.directional, _fields.operator


# With JAX's signatures


def grad(
    fun: Callable, argnums: ArgNums = 0, has_aux: bool = False, holomorphic: bool = False,
    *, fallback: bool = False, verify: bool = True,
) -> TracedFunction:  # fmt: skip
    """The gradient of a scalar function, as `jax.grad`.

    Args:
        fun: a function of arrays that gives one number
        argnums: which arguments it is differentiated by: a place, or several
        has_aux: whether the function gives a pair, whose second part is passed on
        holomorphic: there for the signature; True is refused
        fallback: whether what cannot be read is left to JAX instead of refused
        verify: whether the first call of a trace is compared with a plain call of the function

    >>> import jax.numpy as jnp
    >>> grad(lambda x: jnp.sum(x**3))(jnp.array([1.0, 2.0])).tolist()
    [3.0, 12.0]

    See also: `value_and_grad`, `hessian`.
    """
    return _derivative(derivatives.GRADIENT, fun, argnums, has_aux, holomorphic, fallback=fallback, verify=verify)


def value_and_grad(
    fun: Callable, argnums: ArgNums = 0, has_aux: bool = False, holomorphic: bool = False,
    *, fallback: bool = False, verify: bool = True,
) -> TracedFunction:  # fmt: skip
    """The value and the gradient of a scalar function, as `jax.value_and_grad`.

    Args:
        fun: a function of arrays that gives one number
        argnums: which arguments it is differentiated by: a place, or several
        has_aux: whether the function gives a pair, whose second part is passed on
        holomorphic: there for the signature; True is refused
        fallback: whether what cannot be read is left to JAX instead of refused
        verify: whether the first call of a trace is compared with a plain call of the function

    >>> import jax.numpy as jnp
    >>> value, gradient = value_and_grad(lambda x: jnp.sum(x**3))(jnp.array([1.0, 2.0]))
    >>> float(value), gradient.tolist()
    (9.0, [3.0, 12.0])

    See also: `grad`, `value_grad_hessian`.
    """
    return _derivative(derivatives.VALUE_GRADIENT, fun, argnums, has_aux, holomorphic, fallback=fallback, verify=verify)


def jacrev(
    fun: Callable, argnums: ArgNums = 0, has_aux: bool = False, holomorphic: bool = False,
    *, structured: bool = False, fallback: bool = False, verify: bool = True,
) -> TracedFunction:  # fmt: skip
    """The Jacobian, as `jax.jacrev`. It is the same in all modes: the program decides on the order of products.

    Args:
        fun: a function of arrays
        argnums: which arguments it is differentiated by: a place, or several
        has_aux: whether the function gives a pair, whose second part is passed on
        holomorphic: there for the signature; True is refused
        structured: whether the result is a `Derivative`, in its structure, instead of arrays
        fallback: whether what cannot be read is left to JAX instead of refused
        verify: whether the first call of a trace is compared with a plain call of the function

    >>> import jax.numpy as jnp
    >>> jacrev(jnp.sin)(jnp.zeros(2)).tolist()
    [[1.0, 0.0], [0.0, 1.0]]

    See also: `jacfwd`, `hessian`.
    """
    options = {"structured": structured, "fallback": fallback, "verify": verify}
    return _derivative(derivatives.JACREV, fun, argnums, has_aux, holomorphic, **options)


def jacfwd(
    fun: Callable, argnums: ArgNums = 0, has_aux: bool = False, holomorphic: bool = False,
    *, structured: bool = False, fallback: bool = False, verify: bool = True,
) -> TracedFunction:  # fmt: skip
    """The Jacobian, as `jax.jacfwd`.

    Args:
        fun: a function of arrays
        argnums: which arguments it is differentiated by: a place, or several
        has_aux: whether the function gives a pair, whose second part is passed on
        holomorphic: there for the signature; True is refused
        structured: whether the result is a `Derivative`, in its structure, instead of arrays
        fallback: whether what cannot be read is left to JAX instead of refused
        verify: whether the first call of a trace is compared with a plain call of the function

    >>> import jax.numpy as jnp
    >>> jacfwd(jnp.sin)(jnp.zeros(2)).tolist()
    [[1.0, 0.0], [0.0, 1.0]]

    See also: `jacrev`, `hessian`.
    """
    options = {"structured": structured, "fallback": fallback, "verify": verify}
    return _derivative(derivatives.JACFWD, fun, argnums, has_aux, holomorphic, **options)


jacobian = jacrev


def hessian(
    fun: Callable, argnums: ArgNums = 0, has_aux: bool = False, holomorphic: bool = False,
    *, structured: bool = False, fallback: bool = False, verify: bool = True,
) -> TracedFunction:  # fmt: skip
    """The Hessian, as `jax.hessian`. With `structured` it is one `Derivative` for all variables, in its structure.

    Args:
        fun: a function of arrays
        argnums: which arguments it is differentiated by: a place, or several
        has_aux: whether the function gives a pair, whose second part is passed on
        holomorphic: there for the signature; True is refused
        structured: whether the result is a `Derivative`, in its structure, instead of arrays
        fallback: whether what cannot be read is left to JAX instead of refused
        verify: whether the first call of a trace is compared with a plain call of the function

    >>> import jax.numpy as jnp
    >>> hessian(lambda w: jnp.sum(jnp.exp(w)), structured=True)(jnp.zeros(1000)).structure
    'diagonal'

    By what a long loop reads in its turns (inputs of a recurrent network, controls, observations of a filter) it is a
    `recurrence`, whose products and solutions take time and memory in proportion to the number of turns.

    See also: `hvp`, `hessian_diagonal`, `newton_step`, `lower`, `check`.
    """
    options = {"structured": structured, "fallback": fallback, "verify": verify}
    return _derivative(derivatives.HESSIAN, fun, argnums, has_aux, holomorphic, **options)


# More


def value_grad_hessian(
    fun: Callable, argnums: ArgNums = 0, has_aux: bool = False, *, fallback: bool = False, verify: bool = True
) -> TracedFunction:
    """The value, the gradient and the Hessian of a scalar function, which share their work.

    Args:
        fun: a function of arrays that gives one number
        argnums: which arguments it is differentiated by: a place, or several
        has_aux: whether the function gives a pair, whose second part is passed on
        fallback: whether what cannot be read is left to JAX instead of refused
        verify: whether the first call of a trace is compared with a plain call of the function

    >>> import jax.numpy as jnp
    >>> value, gradient, H = value_grad_hessian(lambda x: jnp.sum(x**3))(jnp.array([1.0, 2.0]))
    >>> float(value), H.tolist()
    (9.0, [[6.0, 0.0], [0.0, 12.0]])

    See also: `hessian`.
    """
    return _derivative(derivatives.VALUE_GRADIENT_HESSIAN, fun, argnums, has_aux, fallback=fallback, verify=verify)


def hessian_diagonal(
    fun: Callable, argnums: ArgNums = 0, has_aux: bool = False, *, verify: bool = True
) -> TracedFunction:
    """The diagonal of the Hessian of a scalar function, in the shape of the arguments. The Hessian is not formed.

    Args:
        fun: a function of arrays that gives one number
        argnums: which arguments it is differentiated by: a place, or several
        has_aux: whether the function gives a pair, whose second part is passed on
        verify: whether the first call of a trace is compared with a plain call of the function

    >>> import jax.numpy as jnp
    >>> hessian_diagonal(lambda x: jnp.sum(x**3))(jnp.array([1.0, 2.0])).tolist()
    [6.0, 12.0]

    See also: `hessian`, `hvp`.
    """
    return _derivative(derivatives.DIAGONAL, fun, argnums, has_aux, verify=verify)


def hvp(fun: Callable, argnums: ArgNums = 0, has_aux: bool = False, *, verify: bool = True) -> TracedFunction:
    """The Hessian times a direction, at the cost of a few gradients: `hvp(f)(x, tangents=v)`.

    Args:
        fun: a function of arrays that gives one number
        argnums: which arguments it is differentiated by: a place, or several
        has_aux: whether the function gives a pair, whose second part is passed on
        verify: whether the first call of a trace is compared with a plain call of the function

    >>> import jax.numpy as jnp
    >>> hvp(lambda x: jnp.sum(x**3))(jnp.array([1.0, 2.0]), tangents=jnp.array([1.0, 0.5])).tolist()
    [6.0, 6.0]

    See also: `hessian`.
    """
    return _derivative(derivatives.PRODUCT, fun, argnums, has_aux, verify=verify)


def newton_step(
    fun: Callable, argnums: ArgNums = 0, has_aux: bool = False, *, damping: float | str = 0.0, verify: bool = True
) -> TracedFunction:
    """A Newton step of a scalar function, solved through the structure of its Hessian; damping as in `ed.newton_step`.

    Args:
        fun: a function of arrays that gives one number
        argnums: which arguments it is differentiated by: a place, or several
        has_aux: whether the function gives a pair, whose second part is passed on
        damping: what is added to the diagonal: a number, or `auto`
        verify: whether the first call of a trace is compared with a plain call of the function

    >>> import jax.numpy as jnp
    >>> newton_step(lambda x: jnp.sum(jnp.exp(x) - 2 * x))(jnp.zeros(3)).step.tolist()
    [1.0, 1.0, 1.0]

    See also: `hessian`.
    """
    return _derivative(derivatives.NEWTON, fun, argnums, has_aux, verify=verify, damping=damping)


def lower(fun: Callable, argnums: ArgNums = 0, has_aux: bool = False, *, verify: bool = True) -> Callable[..., Lowered]:
    """What runs for the Hessian of a function: `lower(f)(*args)` has `.expression`, `.formula`, `.source`, `.plan`.

    Args:
        fun: a function of arrays
        argnums: which arguments it is differentiated by: a place, or several
        has_aux: whether the function gives a pair, whose second part is passed on
        verify: whether the first call of a trace is compared with a plain call of the function

    >>> import jax.numpy as jnp
    >>> print(lower(lambda w, X: jnp.sum(jnp.log1p(jnp.exp(X @ w))))(jnp.ones(2), jnp.ones((3, 2))).formula)
    X'*diag(sigmoid(X*w) .* sigmoid(-X*w))*X

    See also: `hessian`.
    """
    return hessian(fun, argnums, has_aux, verify=verify).lower


def check(
    fun: Callable, *args: Any, argnums: ArgNums = 0, has_aux: bool = False, verify: bool = True, **kwargs: Any
) -> Compared:
    """The Hessian at some arguments, compared with the one that JAX gives.

    Args:
        fun: a function of arrays
        *args: arguments of the function
        argnums: which arguments it is differentiated by: a place, or several
        has_aux: whether the function gives a pair, whose second part is passed on
        verify: whether the first call of a trace is compared with a plain call of the function
        **kwargs: its arguments by name

    >>> import jax.numpy as jnp
    >>> check(lambda x: jnp.sum(jnp.sin(x) ** 2), jnp.ones(3)).passed
    True

    See also: `hessian`.
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
