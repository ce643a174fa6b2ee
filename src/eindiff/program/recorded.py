"""Programs of PyTorch on a GPU: recorded once, and started as a whole from then on.

A program of many small operations takes the time of starting them, one by one, from Python. A CUDA graph starts them
all at once. What is recorded reads arguments that stay in one place there, and others from arrays of its own, into
which they are copied. Results are copied out of it, so that nobody sees it, or computed beside it by the last
operation; it is kept only if that is faster.
"""

from __future__ import annotations

import itertools
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

from eindiff.core.locks import lock

CALLS = 8  # with arguments of a kind before it is recorded
KINDS = 8  # of arguments that are remembered
SHARE_OF_MEMORY = 1 / 16  # of the memory that is free, which one recording may hold
WAITING = ("linalg", "cholesky", "triangular", "matrix_exp", "lu_")  # operations of linear algebra look how it went
GAIN = 0.9  # of the time, or less, has to remain


class Recorded:
    """A function of tensors, which is recorded when it is called often with tensors of one kind on a GPU.

    It is run as it is where somebody watches: autograd, the transforms of `torch.func`, `torch.compile`, modes that
    see operations, or a graph that is being recorded by others.
    """

    def __init__(
        self, function: Callable, record: Callable[..., Replay | None] | None = None, device: str = "cuda"
    ) -> None:
        self.function = function
        self._record = record or recorded
        self._device = device
        self._torch = import_module("torch")
        self._found: OrderedDict[tuple, int | Replay] = OrderedDict()  # calls so far, then what runs instead
        self._places: list[int] = []  # of the tensors of the last call that was counted
        self._is_plain = False  # it was tried in vain
        self._lock = lock()

    def __call__(self, /, *tensors: Any, **sizes: int) -> Any:
        if self._is_plain or tensors[0].device.type != self._device or self._is_watched(tensors):
            return self.function(*tensors, **sizes)
        with self._lock:  # two threads may not fill the same arrays
            replay = self._replay(tensors, sizes)
            return self.function(*tensors, **sizes) if replay is None else replay(tensors)

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

    def _replay(self, tensors: Sequence[Any], sizes: dict[str, int]) -> Replay | None:
        """What runs instead for tensors like these, if anything."""
        torch = self._torch
        kinds = [(x.shape, x.stride(), x.dtype, x.device) for x in tensors]
        stream = torch.cuda.current_stream(tensors[0].device)
        precision = torch.get_float32_matmul_precision(), torch.backends.cuda.matmul.allow_tf32
        key = (*kinds, *sizes.items(), stream.cuda_stream, *precision)
        found = self._found.get(key, 0)
        if isinstance(found, int):
            return self._counted(key, found, tensors, sizes)
        if moved := found.moved(tensors):
            return self._again(key, [k for k in found.places if k not in moved], tensors, sizes)
        return found

    def _counted(self, key: tuple, calls: int, tensors: Sequence[Any], sizes: dict[str, int]) -> Replay | None:
        """What runs from this call on, if there were enough with tensors like these."""
        places = [x.data_ptr() for x in tensors]
        before, self._places = self._places, places
        if calls == CALLS:
            staying = [k for k, (x, y) in enumerate(zip(places, before, strict=False)) if x == y]
            return self._again(key, staying, tensors, sizes)
        self._found[key] = calls + 1
        if len(self._found) > KINDS:
            self._found.popitem(last=False)
        return None

    def _again(
        self, key: tuple, staying: Sequence[int], tensors: Sequence[Any], sizes: dict[str, int]
    ) -> Replay | None:
        """What is recorded with some tensors where they are."""
        replay = self._record(self.function, tensors, sizes, staying)
        self._is_plain = replay is None
        if replay is not None:
            self._found[key] = replay
        return replay


class Replay:
    """A recording: what stands in for a function of tensors that are like those that it was recorded with."""

    def __init__(self, graph: Any, unfinished: Unfinished, tensors: Sequence[Any], own: Mapping[int, Any]) -> None:
        self._graph, self._unfinished = graph, unfinished
        self.places = {k: x.data_ptr() for k, x in enumerate(tensors) if k not in own}  # that it reads
        self._copied, self._own = list(own), list(own.values())
        self._copy = import_module("torch")._foreach_copy_  # no derivative is asked for where nobody watches

    def moved(self, tensors: Sequence[Any]) -> list[int]:
        """The tensors that are elsewhere now: it was not recorded with these."""
        return [k for k, place in self.places.items() if tensors[k].data_ptr() != place]

    def __call__(self, tensors: Sequence[Any]) -> Any:
        if self._own:
            self._copy(self._own, [tensors[k] for k in self._copied])
        self._graph.replay()
        return self._unfinished.results()


def recorded(
    function: Callable, tensors: Sequence[Any], sizes: dict[str, int], staying: Sequence[int] = ()
) -> Replay | None:
    """A function as a graph for tensors like these, if it can be recorded, is small enough, and is faster so.

    Some of them stay where they are, and are read there. Not those that the last operations need, nor results: these
    would be kept for longer than the user wants them.
    """
    torch = import_module("torch")
    with torch.no_grad(), torch.cuda.device(tensors[0].device):
        given = [x.detach() for x in tensors]
        seen, results = watched(lambda: function(*given, **sizes))
        if not stays_on_device(seen, tensors[0].device):
            return None
        last = last_operations(seen, results)
        if all(k in last or x.makes & x.reads for k, x in enumerate(seen)):
            return None  # nothing is left to record
        kept = results.union(*[seen[k].reads for k in last])
        own = {k: x.clone() for k, x in enumerate(given) if k not in staying or _storage(x) in kept}
        given = [own.get(k, x) for k, x in enumerate(given)]
        recording = _capture(lambda: Unfinished(lambda: function(*given, **sizes), last))
        if recording is None:
            return None
        replay = Replay(*recording, tensors, own)
        as_it_is = _seconds(lambda: function(*tensors, **sizes))
        return replay if _seconds(lambda: replay(tensors)) < GAIN * as_it_is else None


class Seen(NamedTuple):
    """An operation of PyTorch that was run; storages are what views of one tensor have in common."""

    function: Any
    kinds: frozenset[tuple]  # devices and types of what it reads and writes
    reads: frozenset[int]  # storages
    makes: frozenset[int]
    result: Any  # one tensor like the result, without memory; None if there are others


def watched(call: Callable[[], Any]) -> tuple[list[Seen], frozenset[int]]:
    """The operations of a call, and the storages of its results."""
    reductions = import_module("torch.multiprocessing.reductions")
    seen: list[Seen] = []
    known = []  # so that no number of a storage is used again

    def storages(tensors: list[Any]) -> frozenset[int]:
        known.extend([reductions.StorageWeakRef(x.untyped_storage()) for x in tensors])
        return frozenset(map(_storage, tensors))

    def run(function: Any, args: tuple, kwargs: dict) -> Any:
        result = function(*args, **kwargs)
        given, made = _tensors((args, kwargs)), _tensors(result)
        kinds = frozenset([(x.device, x.dtype) for x in (*given, *made)])
        like = _without_memory(result) if made == [result] and result.storage_offset() == 0 else None
        seen.append(Seen(function, kinds, storages(given), storages(made), like))
        return result

    with _each_operation(run):
        return seen, storages(_tensors(call()))


def stays_on_device(seen: Sequence[Seen], device: Any) -> bool:
    """Whether operations read and write arrays of a device alone, and Python sees no value of them.

    Others cannot be recorded.
    """
    torch = import_module("torch")
    waiting = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}

    def stays(x: Seen) -> bool:
        name = str(x.function)
        is_mask = "aten.index" in name and any(dtype == torch.bool for _, dtype in x.kinds)
        waits = is_mask or not waiting.isdisjoint(x.function.tags) or any(word in name for word in WAITING)
        return not waits and all(where == device for where, _ in x.kinds)

    return all(map(stays, seen))


def last_operations(seen: Sequence[Seen], results: frozenset[int]) -> dict[int, Any]:
    """Tensors without memory for the operations that make results, by their numbers: others only look at these."""
    found = {}
    for storage in results:
        users = [k for k, x in enumerate(seen) if storage in x.reads | x.makes]
        if users and storage not in seen[users[0]].reads and seen[users[0]].result is not None:
            views = [seen[k] for k in users[1:]]
            if all(x.makes == {storage} and not x.function._schema.is_mutable for x in views):
                found[users[0]] = seen[users[0]].result
    return found


class Unfinished:
    """A call without some operations, which are run anew for each result: nothing is copied out of a recording."""

    def __init__(self, call: Callable[[], Any], last: dict[int, Any]) -> None:
        self._last: dict[int, Callable[[], Any]] = {}  # by the storage that stands for the result
        count = itertools.count()

        def run(function: Any, args: tuple, kwargs: dict) -> Any:
            if (result := last.get(next(count))) is None:
                return function(*args, **kwargs)
            self._last[_storage(result)] = partial(function, *args, **kwargs)
            return result

        with _each_operation(run):
            leaves, self._structure = import_module("torch.utils._pytree").tree_flatten(call())
        tensor = import_module("torch").Tensor
        self._leaves = [
            (x, _storage(x), (x.shape, x.stride(), x.storage_offset())) if isinstance(x, tensor) else (x, None, ())
            for x in leaves
        ]

    def results(self) -> Any:
        """New arrays with the results."""
        made = {storage: run() for storage, run in self._last.items()}
        leaves = [
            made[storage].as_strided(*form) if storage in made else x.clone() if form else x
            for x, storage, form in self._leaves
        ]
        return leaves[0] if self._structure.is_leaf() else self._structure.unflatten(leaves)


def _without_memory(x: Any) -> Any:
    torch = import_module("torch")
    return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="meta")


def _tensors(tree: Any) -> list[Any]:
    torch, pytree = import_module("torch"), import_module("torch.utils._pytree")
    return [x for x in pytree.tree_leaves(tree) if isinstance(x, torch.Tensor)]


def _storage(x: Any) -> int:
    """What views of one tensor have in common."""
    return x.untyped_storage()._cdata


def _each_operation(run: Callable[[Any, tuple, dict], Any]) -> Any:
    """A context in which operations are run by a function."""
    modes = import_module("torch.utils._python_dispatch")

    class Mode(modes.TorchDispatchMode):  # type: ignore[name-defined]
        @classmethod
        def _should_skip_dynamo(cls) -> bool:
            return False  # else PyTorch's compiler is imported, which takes seconds

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return run(func, args, kwargs or {})

    return Mode()


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
    return (graph, results) if torch.cuda.memory_reserved() - before < SHARE_OF_MEMORY * free else None


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
