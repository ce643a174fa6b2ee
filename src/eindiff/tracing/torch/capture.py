"""Capture of a function of tensors as a graph of ATen's operations, with nothing that a graph would get wrong.

`make_fx` runs the function on fake tensors, which have shapes but no values, under PyTorch's functionalization, which
turns updates in place into pure operations. So whatever would depend on values, such as `if x.sum() > 0`, fails there
instead of being traced for one case. A mode at the level of `torch.*` calls watches for what a graph does not show:
`detach`, `no_grad`, and integers and masks whose values are needed; these are read, and remembered as guards.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import lru_cache, partial
from linecache import getline
from pathlib import Path
from traceback import walk_tb
from typing import Any, NoReturn

import torch
import torch.fx.traceback as fx_traceback
from torch import Tensor
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
from torch._subclasses.fake_tensor import FakeTensor
from torch.distributions import Distribution, Geometric
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing, make_fx
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from eindiff.core.errors import EindiffError
from eindiff.core.locks import reentrant_lock
from eindiff.tracing.torch.aten import ATEN
from eindiff.tracing.torch.spelled_out import NEED_VALUES, SPELLED_OUT, stop_gradient
from eindiff.tracing.unsupported import OUTSIDE, RANDOM

_NOT_USERS = (str(Path(torch.__file__).parent), str(Path(__file__).parent.parent))
_DATA = torch.Tensor.data.__get__
_APPLY = torch.autograd.Function.apply.__func__.__code__
_CHECKS = {f.__code__ for f in (Distribution.__init__, Distribution._validate_sample, Geometric.__init__)}
_ATTENTION = ("scaled_dot_product_attention", "multi_head_attention_forward")
_math_only = partial(torch.nn.attention.sdpa_kernel, torch.nn.attention.SDPBackend.MATH)  # for all threads meanwhile
_capturing = reentrant_lock()  # make_fx keeps what it does in globals of PyTorch

# Tensors that are made of sizes and numbers.
_MADE = ("arange", "zeros", "ones", "full", "eye", "zeros_like", "ones_like", "full_like", "new_zeros", "new_ones",
         "new_full", "tril_indices", "triu_indices", "tensor", "as_tensor")  # fmt: skip
_CHANGING = {f"__i{name}__" for name in ("add", "sub", "mul", "truediv", "floordiv", "pow", "mod", "and", "or", "xor")}
_LEAVING = ("numpy", "tolist", "__array__", "data_ptr", "storage", "untyped_storage", "__dlpack__", "share_memory_")

# Exceptions that say that a value is needed which a fake tensor does not have.
_VALUES = ("GuardOnDataDependentSymNode", "DataDependentOutputException", "DynamicOutputShapeException")


@dataclass
class Capture:
    """A graph, the shape of what it returns, and the tensors whose values it was made for."""

    graph: torch.fx.Graph
    outside: dict[torch.fx.Node, Tensor]  # the nodes that are tensors from outside
    leaves: list[Any]  # of what the function returns: tensors are nodes of the graph, all else is as it is
    structure: Any
    guards: list[tuple[Tensor, Tensor]] = field(default_factory=list)  # a tensor, and its values when it was read


def is_real(x: Tensor) -> bool:
    """Whether a tensor has values: it is not one of those that are traced."""
    return not isinstance(x, FakeTensor) and not torch._C._functorch.is_functorch_wrapped_tensor(x)


def is_discrete(x: Tensor) -> bool:
    """Whether a tensor holds integers or truth values."""
    return not x.dtype.is_floating_point and not x.dtype.is_complex


class _Watch(TorchFunctionMode):
    """What a graph does not show, seen where the function calls PyTorch."""

    def __init__(self, capture: list[tuple[Tensor, Tensor]]) -> None:
        super().__init__()
        self.guards = capture
        self.line = ""
        self.level = 0  # of functionalization
        self.lifted: dict[int, tuple[Tensor, Tensor]] = {}  # tensors from outside, and what stands for them
        self._made: dict[int, Tensor] = {}
        self._constant: dict[int, Tensor] = {}  # tensors of the graph that depend on no input

    def __torch_function__(self, func: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        if _is_check(sys._getframe(1)):
            with disable_proxy_modes_tracing():
                return True if func is torch.Tensor.__bool__ else func(*args, **kwargs)
        self.line = user_line(sys._getframe(1)) or self.line
        fx_traceback.current_meta["stack_trace"] = self.line
        name = getattr(func, "__name__", "")
        tensors = [x for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, Tensor | torch.Generator)]
        is_traced = self._is_traced(func, name, tensors)
        if name in _MADE and (found := self._filled(func, args, kwargs)) is not None:
            return found
        if func in (torch.Tensor.detach, torch.detach):
            return self._stopped(func(*args, **kwargs))
        if not is_traced and name != "requires_grad_" and self._are_known(tensors):
            return self._computed(func, name, tensors, args, kwargs)
        func, args = self._with_places(func, name, args)
        func = self._spelled_out(func, [x for x in tensors if is_discrete(x)])
        args, kwargs = pytree.tree_map_only(Tensor, self._lift, (args, kwargs))
        with _math_only() if name in _ATTENTION else nullcontext():
            result = func(*args, **kwargs)
        self._note_constants(name, tensors, result)
        return result

    def _note_constants(self, name: str, tensors: list[Any], result: Any) -> None:
        """Keep in mind what depends on no input."""
        if all(is_real(x) or id(x) in self._constant for x in tensors):
            self._constant.update((id(x), x) for x in pytree.tree_leaves(result) if isinstance(x, Tensor))
            return
        if _changes(name):  # what was constant may be no more
            self._constant.clear()
        if not torch.is_grad_enabled():
            self._check_constant(name, result)

    def _is_traced(self, func: Callable, name: str, tensors: list[Any]) -> bool:
        """Whether a call is part of the graph. What a graph cannot say is refused."""
        if any(isinstance(x, torch.Generator) for x in tensors):
            refuse(f"{name} {RANDOM}", self.line)
        is_traced = not all(map(is_real, tensors))
        if func == _DATA and is_traced:
            refuse("x.data is constant for some derivatives of PyTorch only: use x.detach()", self.line)
        if name in _LEAVING and is_traced:
            refuse(f"{name}: the values of a tensor leave PyTorch, where nothing can be traced", self.line)
        return is_traced

    def _are_known(self, tensors: list[Any]) -> bool:
        """Whether a call has tensors, and all of them are discrete or filled by the function itself."""
        return bool(tensors) and all(is_discrete(x) or id(x) in self._made for x in tensors)

    def _with_places(self, func: Callable, name: str, args: tuple) -> tuple[Callable, tuple]:
        """A call with places for known masks."""
        if name == "__getitem__" and _is_one_place(args[1]):
            return _entry_at, args
        if name in ("__getitem__", "__setitem__"):
            return func, (args[0], self._places(args[1]), *args[2:])
        if name == "masked_select" and len(args) == 2 and is_real(args[1]) and args[0].shape == args[1].shape:
            return torch.Tensor.__getitem__, (args[0], self._places(args[1]))
        return func, args

    def _spelled_out(self, func: Callable, discrete: list[Tensor]) -> Callable:
        """Another function that does the same, where PyTorch's own looks at values or has another derivative."""
        needed = discrete if func in NEED_VALUES else []
        if func not in SPELLED_OUT or not all(map(is_real, needed)):
            return func
        for x in needed:
            self._guard(x)
        return SPELLED_OUT[func]

    def _lift(self, x: Tensor) -> Tensor:
        """A tensor from outside as one that functionalization knows, so that what is made of it may change in place."""
        if not is_real(x) or is_discrete(x) or type(x) not in (Tensor, torch.nn.Parameter) or x.layout != torch.strided:
            return x
        if id(x) not in self.lifted:
            self.lifted[id(x)] = (x, torch._C._functorch._wrap_functional_tensor(x, self.level))
        return self.lifted[id(x)][1]

    def check_outside(self) -> None:
        """Refuse a function that changed a tensor from outside."""
        for x, wrapped in self.lifted.values():
            torch._sync(wrapped)
            if torch._C._functorch._unwrap_functional_tensor(wrapped, False) is not x:
                refuse("a tensor from outside of the function is changed in place", self.line)

    def _stopped(self, x: Tensor) -> Tensor:
        return x if is_real(x) or is_discrete(x) else stop_gradient(x)

    def _check_constant(self, name: str, result: Any) -> None:
        """Under no_grad PyTorch's forward and reverse mode differ in what is constant: no graph can say both."""
        if any(isinstance(x, Tensor) and x.dtype.is_floating_point for x in pytree.tree_leaves(result)):
            refuse(f"{name} under torch.no_grad(): use detach() to make a tensor constant for derivatives", self.line)

    def _computed(self, func: Callable, name: str, tensors: list[Tensor], args: tuple, kwargs: dict) -> Any:
        """Integers and masks with values are computed at once; the graph then holds for these values only."""
        if _changes(name) and not self._is_made(tensors[0]):
            refuse(f"{name} {OUTSIDE}", self.line)
        for x in tensors:
            self._guard(x)
        with temporarily_clear_interpreter_stack(), _disable_current_modes():
            result = func(*args, **kwargs)
        for x in pytree.tree_leaves(result):
            if isinstance(x, Tensor):
                self._made[id(x)] = x
        return result

    def _is_made(self, x: Tensor) -> bool:
        """Whether a tensor is made by the function, and no view of one from outside."""
        memory = x.untyped_storage().data_ptr()
        return id(x) in self._made and all(y.untyped_storage().data_ptr() != memory for y, _ in self.guards)

    def _filled(self, func: Callable, args: tuple, kwargs: dict) -> Tensor | None:
        """Integers and masks that are made of nothing but sizes and numbers have values at once."""
        tensors = [x for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
        if tensors and func in (torch.tensor, torch.as_tensor):
            return None
        with temporarily_clear_interpreter_stack(), _disable_current_modes():
            like = {id(x): torch.empty(x.shape, dtype=x.dtype, device=x.device) for x in tensors}
            args, kwargs = pytree.tree_map_only(Tensor, lambda x: like[id(x)], (args, kwargs))
            found = func(*args, **kwargs)
        if not isinstance(found, Tensor) or not is_discrete(found):
            return None
        self._made[id(found)] = found
        return found

    def _guard(self, x: Tensor) -> None:
        if id(x) not in self._made and not any(x is known for known, _ in self.guards):
            with temporarily_clear_interpreter_stack(), _disable_current_modes():
                self.guards.append((x, x.clone()))

    def _places(self, index: Any) -> Any:
        """An index with known masks as lists of places, whose number is then known too."""
        several = isinstance(index, tuple)
        found: list[Any] = []
        for part in index if several else [index]:
            if isinstance(part, Tensor) and part.dtype == torch.bool and is_real(part):
                self._guard(part)
                with temporarily_clear_interpreter_stack(), _disable_current_modes():
                    found.extend(part.nonzero(as_tuple=True))
            else:
                found.append(part)
        return tuple(found) if several or len(found) > 1 else found[0]


def _is_one_place(index: Any) -> bool:
    """Whether an index is of integers, and one of them a tensor without a value, which PyTorch would ask for."""
    parts = index if isinstance(index, tuple) else (index,)
    is_unknown = [isinstance(x, Tensor) and not x.ndim and not is_real(x) and x.dtype != torch.bool for x in parts]
    return any(is_unknown) and all(one or type(x) is int for one, x in zip(is_unknown, parts, strict=True))


def _entry_at(x: Tensor, index: Any) -> Tensor:
    """`x[k]` for tensors k that hold one integer."""
    parts = index if isinstance(index, tuple) else (index,)
    return x[tuple(k.reshape(1) if isinstance(k, Tensor) else torch.tensor([k]) for k in parts)][0]


def _changes(name: str) -> bool:
    """Whether a function changes its first argument in place."""
    return (name.endswith("_") and not name.startswith("_")) or name == "__setitem__" or name in _CHANGING


def user_line(frame: Any) -> str:
    """The innermost line that is neither PyTorch's nor ours, as `file.py:12: code`."""
    while frame is not None and frame.f_code.co_filename.startswith((*_NOT_USERS, "<")):
        frame = frame.f_back
    if frame is None:
        return ""
    path, number = frame.f_code.co_filename, frame.f_lineno
    return f"{Path(path).name}:{number}: {getline(path, number).strip()}"


def refuse(reason: str, line: str = "") -> NoReturn:
    """Raise an error that names the operation and the user's line."""
    raise EindiffError(f"{reason}{f' ({line})' if line else ''}", "tracing")


def _is_check(frame: Any) -> bool:
    """Whether a distribution looks at values that it was given, which a graph does not have."""
    while frame is not None and frame.f_globals.get("__name__", "").startswith("torch.distributions."):
        if frame.f_code in _CHECKS:
            return True
        frame = frame.f_back
    return False


@lru_cache(maxsize=1)
def decompositions() -> dict:
    """PyTorch's ways to take operations apart, for those that the table does not have."""
    from torch._decomp import core_aten_decompositions  # slow to import, and needed for the first trace only

    found = core_aten_decompositions()
    return {op: way for op, way in found.items() if base_name(op) not in ATEN}


def base_name(target: Any) -> str:
    """The name of an operation, without its overload; copies are named as views are."""
    name = getattr(getattr(target, "overloadpacket", target), "__name__", str(target))
    return name.removesuffix("_copy") if name not in ("lift_fresh_copy", "_to_copy", "index_copy") else name


def capture(function: Callable, leaves: Sequence[Any], structure: Any) -> Capture:
    """The graph of a function of `(args, kwargs)`, given flat; tensors of real numbers become its inputs."""
    guards: list[tuple[Tensor, Tensor]] = []
    watch = _Watch(guards)
    places = [k for k, x in enumerate(leaves) if isinstance(x, Tensor) and not is_discrete(x)]
    returned: list[Any] = []

    def forward(*inputs: Tensor) -> list[Tensor]:
        filled = list(leaves)
        for place, x in zip(places, inputs, strict=True):
            filled[place] = x
        args, kwargs = pytree.tree_unflatten(filled, structure)
        watch.level = torch._C._functorch.maybe_current_level()
        with watch:
            result = function(*args, **kwargs)
        watch.check_outside()
        found, form = pytree.tree_flatten(result)
        returned[:] = [found, form]
        return [x for x in found if isinstance(x, Tensor)]

    pure = torch.func.functionalize(forward, remove="mutations_and_views")
    inputs = [leaves[k].detach() for k in places]
    trace = make_fx(pure, decompositions(), tracing_mode="fake", _allow_non_fake_inputs=True)
    with _capturing, fx_traceback.preserve_node_meta(), torch.enable_grad(), _uncompiled():
        try:
            module = trace(*inputs)
        except EindiffError:
            raise
        except Exception as error:
            _explain(error, watch.line, function, leaves, structure)
            raise
        module, outside = _pure(module, inputs)
    found, form = returned
    [output] = [node for node in module.graph.nodes if node.op == "output"]
    nodes = iter(output.args[0])
    return Capture(module.graph, outside, [next(nodes) if isinstance(x, Tensor) else x for x in found], form, guards)


def _uncompiled() -> Any:
    """What runs functions that `torch.compile` has compiled as they were written."""
    is_imported = "torch._dynamo" in sys.modules  # else nothing is compiled, and the import takes a second
    return torch._dynamo.config.patch(error_on_nested_fx_trace=False) if is_imported else nullcontext()


def _pure(module: torch.fx.GraphModule, inputs: Sequence[Tensor]) -> tuple[torch.fx.GraphModule, dict]:
    """A graph without the updates in place of composed operations, and its nodes for tensors from outside."""
    outside = {node: getattr(module, str(node.target)) for node in module.graph.nodes if node.op == "get_attr"}
    calls = [node.target for node in module.graph.nodes if node.op == "call_function"]
    if not any(isinstance(call, torch._ops.OpOverload) and call._schema.is_mutable for call in calls):
        return module, outside
    names = list(dict.fromkeys(str(node.target) for node in outside))
    constants = [getattr(module, name) for name in names]

    def forward(*tensors: Tensor) -> Any:
        given = dict(zip(names, tensors[len(inputs) :], strict=True))
        return _Again(module, given).run(*tensors[: len(inputs)])

    pure = torch.func.functionalize(forward, remove="mutations_and_views")
    again = make_fx(pure, tracing_mode="fake", _allow_non_fake_inputs=True)(*inputs, *constants)
    placeholders = [node for node in again.graph.nodes if node.op == "placeholder"][len(inputs) :]
    return again, dict(zip(placeholders, constants, strict=True))


class _Again(torch.fx.Interpreter):
    """Runs a graph with its tensors from outside given as inputs."""

    def __init__(self, module: torch.fx.GraphModule, given: dict[str, Tensor]) -> None:
        super().__init__(module)
        self.given = given

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        return self.given[target]


def _explain(error: Exception, line: str, function: Callable, leaves: Sequence[Any], structure: Any) -> None:
    """Say why a function cannot be traced; an error that it has anyway is left to itself."""
    for frame, _ in walk_tb(error.__traceback__):
        if frame.f_code is _APPLY:
            name = frame.f_locals["cls"].__name__
            raise EindiffError(
                f"the torch.autograd.Function {name} has derivatives of its own ({line})", "tracing"
            ) from error
    cause: BaseException | None = error
    while cause is not None:
        if type(cause).__name__ in _VALUES:
            message = (
                "the values of a tensor decide what is computed (a Python branch, item(), a mask or nonzero): "
                "use torch.where"
            )
            raise EindiffError(f"{message} ({line})", "tracing") from error
        cause = cause.__cause__ or cause.__context__
    if "mutating a non-functional tensor" in str(error):
        raise EindiffError(f"a tensor from outside of the function is changed in place ({line})", "tracing") from error
    args, kwargs = pytree.tree_unflatten(list(leaves), structure)
    kept = [(x, x.clone()) for x in leaves if isinstance(x, Tensor)]
    function(*args, **kwargs)  # raises the user's own error, if it is one
    for x, values in kept:
        x.copy_(values)
    raise EindiffError(f"the function cannot be traced: {type(error).__name__}: {error} ({line})", "tracing") from error
