"""Derivatives by JAX as a whole, compiled: where closed forms would be left to it piece by piece, as in a long loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from math import prod
from typing import Any

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from eindiff.core.errors import EindiffError
from eindiff.tracing.jax.types import abstract
from eindiff.tracing.library import Arguments

COLUMNS = 64  # of a Hessian whose diagonal is wanted, at once


@jax.tree_util.register_pytree_node_class
class _Plain:
    """What is no array among auxiliary results, which JAX's transformations take no notice of."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def tree_flatten(self) -> tuple[tuple, Any]:
        return (), self.value

    @classmethod
    def tree_unflatten(cls, value: Any, _: Any) -> _Plain:
        return cls(value)


def with_plain(f: Callable) -> Callable:
    """A function that gives a pair, whose second part may have anything in it."""

    def run(*args: Any, **keywords: Any) -> Any:
        value, aux = f(*args, **keywords)
        return value, jax.tree_util.tree_map(lambda x: x if isinstance(x, jax.Array | np.ndarray) else _Plain(x), aux)

    return run


def without_plain(result: Any) -> Any:
    """The result of a transformation with what is no array as it is."""
    return jax.tree_util.tree_map(
        lambda x: x.value if isinstance(x, _Plain) else x, result, is_leaf=lambda x: isinstance(x, _Plain)
    )


class Whole:
    """A derivative that JAX makes, compiled for arguments of certain shapes; only some leaves are inputs of it."""

    def __init__(self, run: Callable, arguments: Arguments, places: Sequence[int], has_aux: bool) -> None:
        self._places, self._has_aux, self._program = places, has_aux, jax.jit(of_leaves(run, arguments, places))

    def __call__(self, arguments: Arguments, directions: Any = None) -> Any:
        found = self._program([arguments.leaves[k] for k in self._places], more(directions))
        return without_plain(found) if self._has_aux else found


class Written:
    """A derivative that JAX makes, as a program for the arguments of one call, which runs inside of another one.

    There it is one call, so that its equations are not read again. A Hessian is made of its product with a direction.
    """

    def __init__(
        self, run: Callable, arguments: Arguments, places: Sequence[int], directions: Any, along: Along | None = None
    ) -> None:
        self._arguments: Arguments | None = arguments
        self._places, self._run, self._directions, self._along = places, run, directions, along

    @property
    def along(self) -> Any:
        """The program for one direction, which is smaller and takes less than half of the time to write; or None."""
        return self._along and self._along.closed.jaxpr

    @cached_property
    def jaxpr(self) -> Any:
        """The program."""
        whole = self._made[0].jaxpr
        inner = [x for eqn in whole.eqns for x in jex.jaxprs_in_params(eqn.params)]
        return inner[0] if len(inner) == len(whole.eqns) == 1 else whole

    @cached_property
    def _made(self) -> tuple[Any, Any]:
        """The program as one call, and the structure of what it gives."""
        assert self._arguments is not None
        run = self._along.hessian if self._along else self._run
        given = [[self._arguments.leaves[k] for k in self._places], more(self._directions)]
        whole = jax.jit(of_leaves(run, self._arguments, self._places))
        closed, shapes = jax.make_jaxpr(whole, return_shape=True)(*jax.tree_util.tree_map(abstract, given))
        return closed, jax.tree_util.tree_structure(shapes)

    def __call__(self, arguments: Arguments, directions: Any = None) -> Any:
        """What is written, which takes a part of the time to write it again; other arguments may need others."""
        given = [*[arguments.leaves[k] for k in self._places], *jax.tree_util.tree_leaves(directions)]
        if arguments is not self._arguments or [jax.typeof(x) for x in given] != self._made[0].in_avals:
            return without_plain(self._run(*arguments.args, **arguments.keywords, **more(directions)))
        closed, structure = self._made
        self._arguments = self._along = None  # it is not remembered with what belongs to the program around it
        found = jax.core.eval_jaxpr(closed.jaxpr, closed.consts, *given)
        return without_plain(structure.unflatten(found))


class Along:
    """The product of a Hessian and a direction, as a program for the arguments of one call: all columns of the Hessian
    are made by it at once."""

    def __init__(
        self, f: Callable, argnums: Any, arguments: Arguments, places: Sequence[int], free: Sequence[int], form: Any
    ) -> None:
        self._product = _product(jax.jacrev, f, argnums, has_aux=False)
        self._arguments, self._places = arguments, places
        self._free, self._form = free, form

    @cached_property
    def closed(self) -> Any:
        """The program: of the leaves at some places, and those of the direction."""
        directions = self._form.unflatten([self._arguments.leaves[k] for k in self._free])
        given = [[self._arguments.leaves[k] for k in self._places], more(directions)]
        flat = of_leaves(self._product, self._arguments, self._places)
        return jax.make_jaxpr(flat)(*jax.tree_util.tree_map(abstract, given))

    def hessian(self, *args: Any, **keywords: Any) -> Any:
        """All of it, in the structure of the arguments twice."""
        leaves = jax.tree_util.tree_leaves((args, keywords))
        given, shapes = [leaves[k] for k in self._places], [jnp.shape(leaves[k]) for k in self._free]
        sizes = [prod(shape) for shape in shapes]
        unit = jnp.eye(sum(sizes), dtype=jnp.result_type(leaves[self._free[0]]))
        units = [x.reshape(-1, *shape) for x, shape in zip(jax.lax.split(unit, sizes, 1), shapes, strict=True)]

        def column(*direction: Any) -> list[Any]:
            return jax.core.eval_jaxpr(self.closed.jaxpr, self.closed.consts, *given, *direction)

        def blocks(columns: Any) -> Any:
            parts = zip(jax.lax.split(columns, sizes, columns.ndim - 1), shapes, strict=True)
            return self._form.unflatten([x.reshape(*columns.shape[:-1], *shape) for x, shape in parts])

        return self._form.unflatten(map(blocks, jax.vmap(column, out_axes=-1)(*units)))


def more(directions: Any) -> dict[str, Any]:
    return {} if directions is None else {"tangents": directions}


def of_leaves(run: Callable, arguments: Arguments, places: Sequence[int]) -> Callable:
    """A derivative as a function of some leaves; the others are known."""
    known = {k: value for k, value in enumerate(arguments.leaves) if k not in places}
    structure = arguments.structure

    def flat(given: list[Any], more: dict[str, Any]) -> Any:
        full = known | dict(zip(places, given, strict=True))
        args, keywords = structure.unflatten([full[k] for k in range(len(full))])
        return run(*args, **keywords, **more)

    return flat


def transform(kind: str, forward: bool = False) -> Callable | None:
    """JAX's transformation of a kind, as a function of `f, argnums, has_aux`; in forward mode where nothing else is."""
    first = jax.jacfwd if forward else jax.grad
    table: dict[str, Callable] = {
        "grad": first, "jacfwd": jax.jacfwd, "jacrev": jax.jacfwd if forward else jax.jacrev,
        "hessian": _twice if forward else jax.hessian, "hvp": partial(_product, first),
        "value_and_grad": partial(_with_value, first), "hessian_diagonal": partial(_diagonal, first),
        "value_grad_hessian": partial(_all, first),
    }  # fmt: skip
    return table.get(kind)


def _twice(f: Callable, argnums: Any, has_aux: bool) -> Callable:
    return jax.jacfwd(jax.jacfwd(f, argnums, has_aux=has_aux), argnums, has_aux=has_aux)


def _with_value(first: Callable, f: Callable, argnums: Any, has_aux: bool) -> Callable:
    def both(*args: Any, **keywords: Any) -> Any:
        found = f(*args, **keywords)
        return (found[0] if has_aux else found), found

    def run(*args: Any, **keywords: Any) -> Any:
        gradient, value = first(both, argnums, has_aux=True)(*args, **keywords)
        return value, gradient

    return run


def _all(first: Callable, f: Callable, argnums: Any, has_aux: bool) -> Callable:
    def gradient(*args: Any, **keywords: Any) -> Any:
        value, found = _with_value(first, f, argnums, has_aux)(*args, **keywords)
        return found, (value, found)

    def run(*args: Any, **keywords: Any) -> Any:
        hessian, (value, found) = jax.jacfwd(gradient, argnums, has_aux=True)(*args, **keywords)
        return value, found, hessian

    return run


def _chosen(args: Sequence[Any], argnums: Any) -> Any:
    found = tuple([args[k] for k in argnums]) if isinstance(argnums, tuple) else args[argnums]
    return jax.tree_util.tree_map(jnp.asarray, found)


def _at(f: Callable, args: Sequence[Any], keywords: dict[str, Any], argnums: Any) -> Callable:
    """A function of the chosen arguments alone."""

    def at(chosen: Any) -> Any:
        full = list(args)
        for k, x in zip(argnums, chosen, strict=True) if isinstance(argnums, tuple) else [(argnums, chosen)]:
            full[k] = x
        return f(*full, **keywords)

    return at


def _product(first: Callable, f: Callable, argnums: Any, has_aux: bool) -> Callable:
    def run(*args: Any, tangents: Any, **keywords: Any) -> Any:
        point, slope = _chosen(args, argnums), _at(first(f, argnums, has_aux=has_aux), args, keywords, argnums)
        check_tangents(point, tangents)
        along = jax.tree_util.tree_map(lambda v, x: jnp.asarray(v, x.dtype), tangents, point)
        found = jax.jvp(slope, (point,), (along,), has_aux=has_aux)
        return found[1:] if has_aux else found[1]

    return run


def _diagonal(first: Callable, f: Callable, argnums: Any, has_aux: bool) -> Callable:
    def run(*args: Any, **keywords: Any) -> Any:
        slope = _at(first(f, argnums, has_aux=has_aux), args, keywords, argnums)
        flat, unflatten = ravel_pytree(_chosen(args, argnums))

        def gradient(x: Any) -> Any:
            found = slope(unflatten(x))
            return ravel_pytree(found[0] if has_aux else found)[0]

        def entry(k: Any) -> Any:
            return jax.jvp(gradient, (flat,), (jnp.zeros_like(flat).at[k].set(1),))[1][k]

        places, count = jnp.arange(flat.size), min(COLUMNS, flat.size)
        found = unflatten(jax.lax.map(entry, places, batch_size=count) if count else flat)
        return (found, f(*args, **keywords)[1]) if has_aux else found

    return run


def check_tangents(point: Any, tangents: Any) -> None:
    """Refuse directions that have not the structure and the shapes of the arguments."""
    form, wanted = map(jax.tree_util.tree_structure, (tangents, point))
    if form != wanted:
        raise EindiffError(f"tangents has the structure {form}; the arguments have {wanted}", "tracing")
    for v, x in zip(*map(jax.tree_util.tree_leaves, (tangents, point)), strict=True):
        if jnp.shape(v) != jnp.shape(x):
            raise EindiffError(f"the tangent has shape {jnp.shape(v)} instead of {jnp.shape(x)}", "shapes")
