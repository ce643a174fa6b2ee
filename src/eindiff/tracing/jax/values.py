"""Values that JAX's functions are given: which are traced, which are in main memory, and what they are known by."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any

import jax
import jax.extend.core as jex
import jax.numpy as jnp
import numpy as np
from jax._src import lib
from jax.extend.backend import backends, get_default_device
from jax.extend.core.primitives import convert_element_type_p

from eindiff.core.recent import Same
from eindiff.tracing.jax.function import is_array
from eindiff.tracing.jax.opaque import is_real
from eindiff.tracing.jax.types import Weak

NUMPY_TYPES = frozenset({np.ndarray, np.float64, np.float32})


@lru_cache(maxsize=1)
def _concrete() -> type:
    """The type of JAX's arrays that are no tracers."""
    with jax.ensure_compile_time_eval():
        return type(jnp.zeros(()))


@lru_cache(maxsize=1)
def _concrete_types() -> frozenset[type]:
    """Types of values that belong to no program that is being traced."""
    return NUMPY_TYPES | {float, int, bool, str, _concrete()}


@lru_cache(maxsize=1)
def _local_types() -> frozenset[type]:
    """Types of values that are in main memory, whatever their devices are, which take long to ask for."""
    has_others = set(backends()) != {"cpu"}
    return NUMPY_TYPES | {float} if has_others else NUMPY_TYPES | {float, _concrete()}


def are_traced(values: Collection[Any]) -> bool:
    """Whether some values belong to a program that is being traced."""
    return not _concrete_types().issuperset(map(type, values)) and any(isinstance(x, jax.core.Tracer) for x in values)


def is_written(value: Any) -> bool:
    """Whether a value has no numbers, not even behind what `jax.vmap` or a derivative around puts in its place."""
    while isinstance(value, jax.core.Tracer):
        value = getattr(value, "primal", None) if hasattr(value, "primal") else getattr(value, "val", None)
    return value is None or isinstance(value, jex.Var)


def leaf_key(value: Any) -> Any:
    """Leaves with the same key are read in the same way."""
    is_concrete = type(value) is _concrete()
    if is_concrete:
        aval = value.aval
        return (aval.shape, aval.dtype, aval.weak_type, False)
    if isinstance(value, jax.Array):
        aval = value.aval  # `jax.typeof` takes a hundred times as long
    elif is_array(value):
        aval = jax.typeof(value)
    else:
        return ("static", type(value), _hashable(value))
    is_unknowable = isinstance(value, jax.core.Tracer) and not is_real(aval.dtype)
    return (tuple(aval.shape), aval.dtype, aval.weak_type, is_unknowable)


def _hashable(value: Any) -> Any:
    try:
        hash(value)
    except TypeError:
        return Same(value)
    return value


def as_jax(values: Sequence[Any], types: Sequence[Any]) -> list[Any]:
    """Values as arrays of types, which may be any."""
    copied = _copier(get_default_device())
    return [
        _as_weak(x, dtype.strong, copied) if type(dtype) is Weak
        else copied(x) if type(x) in NUMPY_TYPES and x.dtype == dtype
        else x if _is_of(x, dtype) else jnp.asarray(x, dtype)
        for x, dtype in zip(values, types, strict=True)
    ]  # fmt: skip


def _as_weak(x: Any, dtype: np.dtype, copied: Callable) -> Any:
    """A value as an array whose type gives way to others."""
    if type(x) in NUMPY_TYPES and x.dtype == dtype and copied is not jnp.asarray:
        return copied(x, True)
    return convert_element_type_p.bind(jnp.asarray(x), new_dtype=dtype, weak_type=True, sharding=None)


@lru_cache(maxsize=64)
def _copier(device: Any) -> Callable:
    """What makes an array of JAX of one of NumPy: what `jnp.asarray` calls in the end takes a quarter of the time,
    and nothing is compiled. It is no part of what JAX documents, so it may be gone."""
    sharding, devices = jax.sharding.SingleDeviceSharding(device), [device]
    put: Any = getattr(lib.xla_client, "batched_device_put", None)

    def copied(x: Any, weak: bool = False) -> Any:
        return put(_abstract(x.shape, x.dtype, weak), sharding, [x], devices, committed=False, force_copy=True)

    try:
        copied(np.zeros(1, np.float32))
    except TypeError:
        return jnp.asarray
    return copied


@lru_cache(maxsize=1024)
def _abstract(shape: tuple[int, ...], dtype: np.dtype, weak: bool) -> Any:
    return jax.core.ShapedArray(shape, dtype, weak_type=weak)


def _is_of(x: Any, dtype: Any) -> bool:
    return dtype is None or (isinstance(x, jax.Array) and x.dtype == dtype and not x.aval.weak_type)


def are_local(arrays: Mapping[str, Any]) -> bool:
    return _local_types().issuperset(map(type, arrays.values())) or all(map(_is_local, arrays.values()))


def _is_local(x: Any) -> bool:
    if isinstance(x, jax.core.Tracer):
        return False
    return not isinstance(x, jax.Array) or _is_on_cpu(x.sharding)


@lru_cache(maxsize=64)
def _is_on_cpu(sharding: jax.sharding.Sharding) -> bool:
    return all(device.platform == "cpu" for device in sharding.device_set)
