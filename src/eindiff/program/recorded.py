"""Programs of PyTorch on a GPU: recorded once, and started as a whole from then on.

A program of many small operations takes the time of starting them, one by one, from Python. A CUDA graph starts them
all at once. What is recorded reads arrays of its own, into which arguments are copied, and results are copied out of
it, so that nobody sees it; it is kept only if that is faster.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from eindiff.core.locks import lock

CALLS = 8  # with arguments of a kind before it is recorded
KINDS = 8  # of arguments that are remembered
SHARE = 1 / 16  # of the memory that is free, which one recording may hold
WAITING = ("linalg", "cholesky", "triangular", "matrix_exp", "lu_")  # operations of linear algebra look how it went
GAIN = 0.9  # of the time, or less, has to remain


class Recorded:
    """A function of tensors, which is recorded when it is called often with tensors of one kind on a GPU.

    It is run as it is where somebody watches: autograd, the transforms of `torch.func`, `torch.compile`, modes that
    see operations, or a graph that is being recorded by others.
    """

    def __init__(
        self, function: Callable, record: Callable[..., Callable | None] | None = None, device: str = "cuda"
    ) -> None:
        self.function = function
        self._record = record or recorded
        self._device = device
        self._torch = import_module("torch")
        self._found: OrderedDict[tuple, int | Callable] = OrderedDict()  # calls so far, then what runs instead
        self._is_plain = False  # it was tried in vain
        self._lock = lock()

    def __call__(self, /, *tensors: Any, **sizes: int) -> Any:
        if self._is_plain or tensors[0].device.type != self._device or self._is_watched(tensors):
            return self.function(*tensors, **sizes)
        with self._lock:  # two threads may not fill the same arrays
            replay = self._replay(tensors, sizes)
            return self.function(*tensors, **sizes) if replay is None else replay(*tensors)

    def _is_watched(self, tensors: Sequence[Any]) -> bool:
        torch = self._torch
        plain = (torch.Tensor, torch.nn.Parameter)
        return (
            torch.compiler.is_compiling()
            or any(type(x) not in plain for x in tensors)
            or (torch.is_grad_enabled() and any(x.requires_grad for x in tensors))
            or torch._C._functorch.peek_interpreter_stack() is not None
            or torch._C._len_torch_dispatch_stack() > 0
            or torch._C._len_torch_function_stack() > 0
            or torch.cuda.is_current_stream_capturing()
        )

    def _replay(self, tensors: Sequence[Any], sizes: dict[str, int]) -> Callable | None:
        """What runs instead for tensors like these, if anything."""
        torch = self._torch
        kinds = [(x.shape, x.stride(), x.dtype, x.device) for x in tensors]
        stream = torch.cuda.current_stream(tensors[0].device)
        precision = torch.get_float32_matmul_precision(), torch.backends.cuda.matmul.allow_tf32
        key = (*kinds, *sizes.items(), stream.cuda_stream, *precision)
        found = self._found.get(key, 0)
        if isinstance(found, int):
            replay = self._record(self.function, tensors, sizes) if found == CALLS else None
            self._is_plain = found == CALLS and replay is None
            self._found[key] = found = replay or found + 1
            if len(self._found) > KINDS:
                self._found.popitem(last=False)
        return None if isinstance(found, int) else found


def recorded(function: Callable, tensors: Sequence[Any], sizes: dict[str, int]) -> Callable | None:
    """A function as a graph for tensors like these, if it can be recorded, is small enough, and is faster so."""
    torch, pytree = import_module("torch"), import_module("torch.utils._pytree")
    with torch.no_grad(), torch.cuda.device(tensors[0].device):
        own = [x.detach().clone() for x in tensors]
        if not stays_on_device(lambda: function(*own, **sizes), tensors[0].device):
            return None
        recording = _capture(lambda: function(*own, **sizes))
        if recording is None:
            return None
        graph, results = recording

        def replay(*given: Any) -> Any:
            torch._foreach_copy_(own, [x.detach() for x in given])
            graph.replay()
            return pytree.tree_map_only(torch.Tensor, torch.clone, results)

        as_it_is = _seconds(lambda: function(*tensors, **sizes))
        return replay if _seconds(lambda: replay(*tensors)) < GAIN * as_it_is else None


def stays_on_device(call: Callable[[], Any], device: Any) -> bool:
    """Whether all operations of a call read and write arrays of a device alone, and Python sees no value of them.

    Others cannot be recorded.
    """
    torch, pytree = import_module("torch"), import_module("torch.utils._pytree")
    modes = import_module("torch.utils._python_dispatch")
    waiting = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}
    seen: list[bool] = []

    class Watch(modes.TorchDispatchMode):  # type: ignore[name-defined]
        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            return False  # else PyTorch's compiler is imported, which takes seconds

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = func(*args, **(kwargs or {}))
            tensors = [x for x in pytree.tree_leaves((args, kwargs, result)) if isinstance(x, torch.Tensor)]
            is_mask = "aten.index" in str(func) and any(x.dtype == torch.bool for x in tensors)
            waits = is_mask or not waiting.isdisjoint(func.tags) or any(word in str(func) for word in WAITING)
            seen.append(not waits and all(x.device == device for x in tensors))
            return result

    with Watch():
        call()
    return all(seen)


def _capture(call: Callable[[], Any]) -> tuple[Any, Any] | None:
    """A call as a graph, and the arrays that take its results, if that holds little memory."""
    torch = import_module("torch")
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    try:
        with torch.cuda.stream(stream):
            call()  # what libraries prepare at their first call is not recorded
            torch.cuda.synchronize()
            before = torch.cuda.memory_reserved()
            graph.capture_begin(capture_error_mode="thread_local")
            try:
                results = call()
            finally:
                graph.capture_end()
    except RuntimeError:  # then random numbers of the device are only found again after a recording that ends well
        with torch.cuda.stream(stream):
            again = torch.cuda.CUDAGraph()
            again.capture_begin(capture_error_mode="thread_local")
            torch.zeros(1, device="cuda")
            again.capture_end()
        return None
    free, _ = torch.cuda.mem_get_info()
    return (graph, results) if torch.cuda.memory_reserved() - before < SHARE * free else None


def _seconds(call: Callable[[], Any]) -> float:
    """The least time of a call on the GPU."""
    synchronize = import_module("torch").cuda.synchronize
    times = []
    for _ in range(3):
        synchronize()
        start = time.perf_counter()
        call()
        synchronize()
        times.append(time.perf_counter() - start)
    return min(times)
