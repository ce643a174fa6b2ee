"""Arrays of other libraries than NumPy: their shapes and types without touching values, and conversions to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from importlib import import_module
from typing import Any

import numpy as np

from eindiff.core.errors import EindiffError
from eindiff.core.libraries import library_of
from eindiff.program.inputs import real_array, type_of
from eindiff.program.recorded import Recorded


def stand_ins(arrays: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Arrays of zeros with the shapes and types of others, which take no memory: for all that looks only at these."""
    return {name: np.broadcast_to(np.zeros((), _dtype(name, x)), _shape(name, x)) for name, x in arrays.items()}


def _shape(name: str, value: Any) -> tuple[int, ...]:
    """The shape of an array, which has to be known."""
    if not _is_dense(value):
        raise EindiffError(
            f"what is given for {name} is a {type(value).__name__}: make it a dense array first", "arrays"
        )
    sharding: Any = getattr(value, "sharding", None)
    if any(getattr(sharding, "spec", ())) and "Explicit" in str(getattr(sharding.mesh, "axis_types", "")):
        raise EindiffError(
            f"the array for {name} is spread over a mesh with explicit axes, {sharding.spec}: compile with shard= and "
            "the name of the index that is spread",
            "arrays",
        )
    shape = tuple(np.shape(value))
    if None in shape:
        raise EindiffError(
            f"the array for {name} has a shape that is not known: {shape}; programs are made for sizes", "sizes"
        )
    return shape


def _is_dense(value: Any) -> bool:
    """Whether a value of a library is one of its plain arrays: sparse, ragged and masked ones are others."""
    match library_of([value]):
        case "jax":
            return isinstance(value, import_module("jax").Array)
        case "torch":
            torch = import_module("torch")
            return value.layout == torch.strided and not isinstance(value, torch.masked.MaskedTensor)
        case "tensorflow":
            tf = import_module("tensorflow")
            return isinstance(value, tf.Tensor | tf.Variable)
        case "cupy":
            return isinstance(value, import_module("cupy").ndarray)
    return True


def _dtype(name: str, value: Any) -> np.dtype:
    """The type of an array's entries, in NumPy's terms."""
    dtype = type_of(value)
    if dtype is None or dtype == np.float16 or dtype.isbuiltin != 1:  # some libraries teach NumPy more types
        text = getattr(value.dtype, "name", str(value.dtype)).rpartition(".")[2]
        raise EindiffError(f"the array for {name} holds {text}: use float32 or float64", "arrays")
    return dtype


def known(name: str, value: Any) -> np.ndarray | None:
    """The entries of an array, if they are in main memory and not those of a function that is being traced."""
    if type(value) is np.ndarray:
        return value
    match library_of([value]):
        case "jax":
            is_known = not isinstance(value, import_module("jax").core.Tracer)
            return np.asarray(value) if is_known and all(x.platform == "cpu" for x in value.devices()) else None
        case "torch":
            torch = import_module("torch")
            if value.device.type != "cpu" or type(value) not in (torch.Tensor, torch.nn.Parameter):
                return None
            is_wrapped = torch.compiler.is_compiling() or torch._C._functorch.is_functorch_wrapped_tensor(value)
            return None if is_wrapped else value.detach().numpy()
        case "tensorflow":
            is_known = import_module("tensorflow").executing_eagerly() and "CPU" in value.device
            return value.numpy() if is_known else None
        case "cupy":
            return None
    return real_array(name, value)


def device_of(library: str, arrays: Iterable[Any]) -> AbstractContextManager:
    """A context in which new arrays are made on the device of some others, where that is known."""
    for x in arrays:
        match library_of([x]):
            case "torch" | "cupy" as own if own == library:
                return x.device
            case "jax" as own if own == library and not isinstance(x, import_module("jax").core.Tracer):
                devices = list(x.devices())
                return import_module("jax").default_device(devices[0]) if len(devices) == 1 else nullcontext()
            case "tensorflow" as own if own == library and import_module("tensorflow").executing_eagerly():
                return import_module("tensorflow").device(x.device)
    return nullcontext()


def converter(library: str, dtype: np.dtype, arrays: Mapping[str, Any]) -> Callable[[Any], Any]:
    """What makes any value an array of a library, of a type, and on the device of the arrays that are there."""
    if library == "torch":
        torch = import_module("torch")
        kind = getattr(torch, dtype.name)
        device = next((x.device for x in arrays.values() if isinstance(x, torch.Tensor)), None)
        return lambda value: torch.as_tensor(value, dtype=kind, device=device)
    if library == "tensorflow":
        tf = import_module("tensorflow")
        return lambda value: tf.cast(value if tf.is_tensor(value) else np.asarray(value, dtype), dtype.name)
    if library == "jax":
        jnp = import_module("jax.numpy")
        kind = {"float64": float, "int64": int}.get(dtype.name, dtype)  # the widest type that is switched on
        return lambda value: jnp.asarray(value, kind)
    module = import_module(library)
    return lambda value: module.asarray(value, dtype)


def _inline(function: Callable) -> Callable:
    """A program without loops that JAX reads in half of the time: functions like NumPy's are compiled one by one else,
    and then found to be parts of a program that is. Loops would be written out."""
    one_by_one = import_module("jax").disable_jit

    @wraps(function)
    def run(*args: Any, **keywords: Any) -> Any:
        with one_by_one():
            return function(*args, **keywords)

    return run


def _written_out(function: Callable, compiled: Callable) -> Callable:
    """A short program for JAX, compiled; in another one that JAX reads it is no part with a name, which would take
    longer to read and to compile than its lines."""
    jax, inline = import_module("jax"), _inline(function)
    variable = import_module("jax.extend.core").Var

    def run(*args: Any, **keywords: Any) -> Any:
        is_read = any(isinstance(x, jax.core.Tracer) and isinstance(getattr(x, "val", None), variable) for x in args)
        return (inline if is_read else compiled)(*args, **keywords)

    return run


def prepared(
    library: str, function: Callable, keywords: list[str], takes_arrays: bool = True, may_loop: bool = False,
    is_short: bool = False,
) -> Callable:  # fmt: skip
    """A generated function as its library runs it best: JAX compiles it as a whole, PyTorch may record it on a GPU."""
    match library:
        case "jax":
            jit = import_module("jax").jit
            compiled = jit(function if may_loop else _inline(function), static_argnames=keywords)
            return _written_out(function, compiled) if is_short and not may_loop else compiled
        case "torch" if takes_arrays and import_module("torch").cuda.is_available():
            return Recorded(function)
    return function


def to_numpy(value: Any) -> np.ndarray:
    """An array of any library as one of NumPy."""
    match library_of([value]):
        case "torch":
            return value.detach().cpu().numpy()
        case "cupy":
            return value.get()
    return np.asarray(value)
