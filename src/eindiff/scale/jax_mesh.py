"""Arrays that JAX has spread over devices: each device computes its part, and one reduction adds the parts up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib import import_module
from typing import Any

from eindiff.core.errors import EindiffError
from eindiff.scale.passes import LOG_SUM, MAXIMUM, SUM
from eindiff.scale.work import Arrays, BlockResult, BlockWork


def is_spread(value: Any) -> bool:
    """Whether something is an array of JAX, known or traced, without importing it."""
    return type(value).__module__.startswith(("jax", "jaxlib"))


class Mesh:
    """The devices that the rows of some arrays are spread over."""

    library = "jax"

    def __init__(self, arrays: Arrays, axes: Mapping[str, int], mesh: Any = None, axis: Any = None) -> None:
        for name, place in axes.items():
            sharding: Any = getattr(arrays.get(name), "sharding", None)
            spec = getattr(sharding, "spec", None)
            if spec is not None and len(spec) > place and spec[place] is not None:
                mesh, axis = mesh or sharding.mesh, axis or spec[place]
        if mesh is None or axis is None:
            raise EindiffError(
                "no array says over which devices its rows are spread: put one with a NamedSharding whose spec names a "
                "mesh axis for the rows, or give mesh= and axis=",
                "blocks",
            )
        self.mesh, self.axis = mesh, axis
        self.example = self._arrays = dict(arrays)
        name, place = next(iter(axes.items()))
        self.count = int(arrays[name].shape[place])

    def count_rows(self) -> int:
        """The number of rows, which shapes say."""
        return self.count

    def run(self, work: BlockWork, whole: Arrays, sizes: Mapping[str, int], what: str) -> BlockResult:
        """One pass: totals are whole on every device, and outputs with rows are spread as the data is."""
        jax, jnp = import_module("jax"), import_module("jax.numpy")

        dtype = jnp.dtype(work.work.dtype) if jax.config.jax_enable_x64 else jnp.float32
        arrays = {**whole, **self._arrays}
        known = {x.name: jnp.asarray(arrays[x.name], dtype if x.into is None else int) for x in work.work.inputs}
        orders = tuple([(name, x.ndim) for name, x in known.items()])
        found = _mapped(work, self.mesh, self.axis, orders, tuple(sorted(sizes.items())))(known)
        count = len(work.reductions)
        return BlockResult(list(found[:count]), [list(found[count:])], self.count, 1)


@lru_cache(maxsize=64)
def _mapped(
    work: BlockWork, mesh: Any, axis: Any, orders: tuple[tuple[str, int], ...], sizes: tuple[tuple[str, int], ...]
) -> Callable[[Arrays], tuple]:
    """A pass as one compiled function of arrays by name."""
    jax = import_module("jax")
    specification = jax.sharding.PartitionSpec

    def spec(order: int, place: int | None) -> Any:
        return specification(*[axis if k == place else None for k in range(order if place is not None else 0)])

    count = len(work.reductions)
    inputs = {name: spec(order, work.axes.get(name)) for name, order in orders}
    outputs = [*[specification()] * count, *(spec(x.ndim, x.shape.index(work.index)) for x in work.work.exprs[count:])]
    body = _body(work, axis, dict(sizes))
    return jax.jit(jax.shard_map(body, mesh=mesh, in_specs=(inputs,), out_specs=tuple(outputs), check_vma=False))


def _body(work: BlockWork, axis: Any, given: Mapping[str, int]) -> Callable[[Arrays], tuple]:
    """What a device does with its rows."""
    jax = import_module("jax")

    reduced: dict[str, Callable] = {
        SUM: lambda x: jax.lax.psum(x, axis),
        MAXIMUM: lambda x: jax.lax.pmax(x, axis),
        LOG_SUM: lambda x: jax.nn.logsumexp(jax.lax.all_gather(x, axis), axis=0),
    }

    def body(arrays: Arrays) -> tuple:
        name, place = next(iter(work.axes.items()))
        sizes = {**given, work.index: arrays[name].shape[place]}
        found = work.work.function(*[arrays[name] for name in work.work.names], **work.work.keywords(sizes))
        values = [found] if len(work.work.exprs) == 1 else list(found)
        return tuple([reduced[kind](x) for kind, x in zip(work.reductions, values, strict=False)]) + tuple(
            values[len(work.reductions) :]
        )

    return body
