"""Outputs of data that comes in blocks: a function of arrays by name, of which some are read block by block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from eindiff.core.derivation import origins
from eindiff.core.errors import EindiffError
from eindiff.core.nodes import Expr, plain, variables
from eindiff.core.recent import Recent
from eindiff.core.sizes import evaluate
from eindiff.program.inputs import common_type
from eindiff.program.interpreter import as_tuples, bind_from_unneeded, bind_sizes, read_inputs
from eindiff.scale.blocks import blocks_of
from eindiff.scale.dask_tasks import Tasks, is_dask
from eindiff.scale.jax_mesh import Mesh, is_spread
from eindiff.scale.passes import Pass, Passes, ShardingError
from eindiff.scale.progress import Bar, Report
from eindiff.scale.shard_plan import ShardPlan
from eindiff.scale.streams import Stream
from eindiff.scale.torch_processes import Processes, is_torch
from eindiff.scale.work import Arrays, BlockResult, BlockWork, Work
from eindiff.structure import compile as in_memory
from eindiff.structure.patterns import Pattern
from eindiff.structure.results import Factors, Results

ENGINES = ("stream", "dask", "jax", "torch")
MANY_ROWS = 2**20  # rows that programs are made for where nobody knows how many there are


def compile(
    outputs: Any, backend: str | None = None, dtype: Any = None, sizes: Mapping[str, int] | None = None,
    form: str = "dense", shard: str | None = None, validate: bool = True,
) -> Any:  # fmt: skip
    """A fast function for an expression, or for a list of them (which share work): call it with arrays by name.

    The program is made for the sizes of the arrays of the first call, or at once if all `sizes` are given; and for
    their library (NumPy, JAX, PyTorch, TensorFlow, CuPy), unless `backend` names one. Without `dtype`, results are
    float32 if all floats in the arrays are, else float64. Results are arrays (`form="dense"`), or `structured`: a
    `Derivative` each, and one for a grid of blocks such as a Hessian by several variables. A `newton_step` is solved
    for in either form. Equal requests give the same function.

    With `shard="m"` the arrays that have the index m come in blocks (see `Sharded`): what is added over m is computed
    block by block, and the others are passed whole.

    Args:
        outputs: an expression, a list of them, or a `newton_step`
        backend: `numpy`, `jax`, `torch`, `tensorflow` or `cupy`; else the library of the arrays
        dtype: `float32` or `float64`
        sizes: sizes by name, to make the program at once
        form: `dense` or `structured`
        shard: the index that arrays come in blocks along
        validate: whether arrays are held against what their variables are declared to be, at each call: it takes as
            long as a product of each declared matrix with a vector

    >>> import numpy as np
    >>> import eindiff as ed
    >>> A, x = ed.matrix("A", "m", "n"), ed.vector("x", "n")
    >>> f = ed.compile(ed.gradient(ed.norm2(A @ x) ** 2, x))
    >>> f(A=np.eye(2), x=np.array([3.0, 4.0]))
    array([6., 8.])
    >>> print(f.source)
    import numpy as np
    <BLANKLINE>
    <BLANKLINE>
    _2 = np.array(2.0)
    <BLANKLINE>
    <BLANKLINE>
    def f(A, x):
        return A.dot(x).dot(A) * _2
    <BLANKLINE>
    >>> sharded = ed.compile(ed.gradient(ed.norm2(A @ x) ** 2, x), shard="m")
    >>> sharded(A=[np.eye(2), np.ones((1, 2))], x=np.array([3.0, 4.0]))
    array([20., 22.])

    See also: `evaluate`, `structured`, `newton_step`, `plan`.
    """
    if shard is None:
        return in_memory.compile(outputs, backend, dtype, sizes, form, validate)
    if backend is not None or sizes:
        raise EindiffError(
            "a sharded function runs where its data is: give neither backend nor sizes with shard", "options"
        )
    if form not in in_memory.FORMS:
        raise EindiffError(f"form {form!r}: choose one of {', '.join(in_memory.FORMS)}", "options")
    return Sharded(outputs, shard, None if dtype is None else np.dtype(dtype).name, form)


class Engine(Protocol):
    """What reads blocks, and runs a pass over them."""

    @property
    def library(self) -> str:
        """The library that computes."""
        ...

    @property
    def count(self) -> int | None:
        """The number of all rows, where it is known."""
        ...

    @property
    def example(self) -> Arrays:
        """A block, or what looks like one."""
        ...

    def run(self, work: BlockWork, whole: Arrays, sizes: Mapping[str, int], what: str) -> BlockResult:
        """The parts of all blocks, put together."""
        ...

    def count_rows(self) -> int:
        """How many rows there are, before the first pass."""
        ...


class Sharded:
    """Outputs of data in blocks along an index.

    An array with the index is given as any of these, the others are whole:

    - an array that can be sliced: NumPy's, a memory map, HDF5 (h5py), zarr;
    - blocks of it: a list, an iterator, or a function without arguments that begins one;
    - a table, dataset or reader of Arrow, for one column or for the columns of a matrix;
    - an array of dask: one task a block, where the block is;
    - an array of JAX that is spread over devices;
    - a tensor of PyTorch with the rows of this process, of those that `torch.distributed` knows.

    Or all of them as `data`: dictionaries of arrays, one for each block. Outputs that have the index come as a list of
    blocks. What cannot be made block by block is an error that says why.

    >>> f = ed.compile(ed.sum(ed.vector("x", "m") ** 2), shard="m")
    >>> float(f(x=[np.ones(3), np.ones(2)]))
    5.0

    See also: `compile`, `newton`.
    """

    __module__ = "eindiff"

    def __init__(self, outputs: Any, index: str, dtype: str | None, form: str) -> None:
        self.index = index
        self.dtype = dtype
        self.form = form
        self._outputs = outputs
        self._results = Results(as_tuples(outputs), form)
        self.exprs = self._results.exprs
        inputs = {*variables(*self.exprs), *origins(*self.exprs)}
        self._axes = {x.name: x.shape.index(index) for x in inputs if index in x.shape}
        self._names = {x.name for x in inputs}
        self._planned: Recent[_Planned] = Recent()
        if not any(self._results.structured):
            Passes(self.exprs, index)  # refuses what cannot be had before there is data

    def __reduce__(self) -> tuple:
        return Sharded, (self._outputs, self.index, self.dtype, self.form)

    def __repr__(self) -> str:
        return f"<sharded function of {', '.join(sorted(self._names))}, in blocks along {self.index}>"

    def __call__(
        self, data: Any = None, /, *, engine: str | None = None, rows: int | None = None, workers: int = 1,
        progress: Report | None = None, mesh: Any = None, axis: Any = None, **arrays: Any,
    ) -> Any:  # fmt: skip
        """The outputs, from `data` or from arrays by name.

        `engine` is chosen by what is given, or named: `stream`, `dask`, `jax` or `torch`. `rows` is how many rows a
        block of a sliced array has, `workers` how many threads compute blocks; `mesh` and its `axis` are for JAX arrays
        that do not say how they are spread; `progress` is called with what is done, the rows read, and how many there
        are.
        """
        sharded, whole = self._given(data, arrays)
        own = self._engine(engine, data, sharded, rows, workers, progress or Bar(), mesh, axis)
        sizes, dtype = self._sizes(own.example, whole)
        planned = self._plan({**sizes, self.index: own.count or MANY_ROWS}, sizes[self.index], dtype.name, own.library)
        del sizes[self.index]
        return planned.run(own, whole, sizes, dtype)

    def blocks(self, data: Any = None, /, *, rows: int | None = None, **arrays: Any) -> Iterator[Any]:
        """The outputs of one block after the other, where no row needs another: memory for a few blocks is enough.

        A Newton step by a matrix whose rows are fitted independently is such an output.
        """
        sharded, whole = self._given(data, arrays)
        blocks = blocks_of(data, sharded, {name: self._axes[name] for name in sharded or self._axes}, rows)
        sizes, _ = self._sizes(blocks.peek(), whole)
        self._refuse_related({**sizes, self.index: MANY_ROWS})
        function = in_memory.compile(self._outputs, form=self.form)
        for number, block in enumerate(blocks.read()):
            try:
                yield function(**whole, **block)
            except EindiffError as error:
                raise ShardingError(f"block {number}: {error}") from error

    def example(self, data: Any, arrays: Arrays) -> dict[str, Any]:
        """Arrays like those of one block, and the whole ones."""
        sharded = {name: arrays[name] for name in self._axes if name in arrays}
        engine = self._engine(None, data, sharded, None, 1, Bar(), arrays.get("mesh"), arrays.get("axis"))
        whole = {name: x for name, x in arrays.items() if name in self._names and name not in sharded}
        return {name: _stand_in(x) for name, x in {**whole, **engine.example}.items()}

    def plan(self, sizes: Mapping[str, int], blocks: int = 1) -> ShardPlan:
        """What passes over the data cost, for the sizes of all data in so many blocks."""
        count = -(-sizes[self.index] // max(blocks, 1))
        planned = self._plan(sizes, count, self.dtype or "float64", "numpy")
        return ShardPlan(self.index, planned.passes, planned.works, planned.final, sizes, blocks)

    def _given(self, data: Any, arrays: Arrays) -> tuple[dict[str, Any], dict[str, Any]]:
        needed = [x.name for x in variables(*self.exprs)]
        wanted = [name for name in needed if data is None or name not in self._axes]
        if missing := [name for name in wanted if name not in arrays]:
            raise EindiffError(f"there is no array for {missing[0]}", "blocks")
        sharded = {name: arrays[name] for name in self._axes if name in arrays}
        return sharded, {name: x for name, x in arrays.items() if name in self._names and name not in sharded}

    def _engine(
        self, engine: str | None, data: Any, arrays: dict[str, Any], rows: int | None, workers: int, report: Report,
        mesh: Any, axis: Any,
    ) -> Engine:  # fmt: skip
        if engine not in (None, *ENGINES):
            raise EindiffError(f"engine {engine!r}: choose one of {', '.join(ENGINES)}", "options")
        axes = {name: self._axes[name] for name in arrays or self._axes}
        match engine or _engine_for(arrays, mesh):
            case "dask":
                return Tasks(arrays, axes)
            case "jax":
                return Mesh(arrays, axes, mesh, axis)
            case "torch":
                return Processes(arrays, axes)
        return Stream(blocks_of(data, arrays, axes, rows), workers, report)

    def _sizes(self, block: Arrays, whole: Arrays) -> tuple[dict[str, int], np.dtype]:
        arrays = {**whole, **block}
        shown = {name: x if isinstance(x, np.ndarray) else _stand_in(x) for name, x in arrays.items()}
        counts = {np.shape(shown[name])[axis] for name, axis in self._axes.items() if name in block}
        given = {self.index: max(counts, default=0)}
        dtype = np.dtype(self.dtype) if self.dtype else common_type(list(shown), shown)
        bindings = bind_sizes(read_inputs(self.exprs, shown), given)
        bind_from_unneeded(self.exprs, shown, bindings)
        return bindings, dtype

    def _plan(self, sizes: Mapping[str, int], count: int, dtype: str, library: str) -> _Planned:
        kind = tuple([(name, size.bit_length() if size > 1 else size) for name, size in sorted(sizes.items())])
        key = (kind, count.bit_length(), dtype, library)
        found = self._planned.get(key)
        return found or self._planned.keep(key, _Planned(self, sizes, count, dtype, library), 0)

    def _refuse_related(self, sizes: Mapping[str, int]) -> None:
        """Refuse outputs for which a block is not enough."""
        exprs = [plain(expr) for expr in self.exprs]
        parts = self._results.parts(exprs, sizes)
        passes = Passes(parts.exprs if parts else exprs, self.index)
        related = len(passes.passes) != 1 or bool(passes.passes[0].totals)
        if isinstance(parts, Factors):
            related = related or not all(_is_diagonal(term, self.index) for term in parts.terms)
        if related:
            raise ShardingError("the outputs put rows of different blocks together: call the function itself instead")


class _Planned:
    """The programs of all passes, and of what is made of the totals, for sizes of one kind."""

    def __init__(self, function: Sharded, sizes: Mapping[str, int], count: int, dtype: str, library: str) -> None:
        self.index = function.index
        self.results = function._results
        outputs = [plain(expr) for expr in function.exprs]
        self.parts = self.results.parts(outputs, sizes)
        self.exprs: Sequence[Expr] = self.parts.exprs if self.parts else outputs
        self.passes = Passes(self.exprs, self.index)
        block = {**sizes, self.index: max(count, 2)}
        self.works = [self._block_work(one, function._axes, block, dtype, library) for one in self.passes.passes]
        self.final = Work(list(self.passes.final.values()), sizes, dtype, library) if self.passes.final else None

    def _block_work(
        self, one: Pass, axes: Mapping[str, int], sizes: Mapping[str, int], dtype: str, library: str
    ) -> BlockWork:
        own = {x.name: axes[x.name] for x in variables(*one.exprs) if x.name in axes}
        reductions = tuple([total.reduction for total in one.totals])
        return BlockWork(Work(one.exprs, sizes, dtype, library), reductions, self.index, own)

    def run(self, engine: Engine, whole: Arrays, sizes: Mapping[str, int], dtype: np.dtype) -> Any:
        """The outputs."""
        rows = self.passes.rows.name
        known = dict(whole)
        values: dict[int, Any] = {}
        if self.passes.needs_count:
            known[rows] = np.asarray(float(engine.count_rows()))
        count = 0
        for number, (one, work) in enumerate(zip(self.passes.passes, self.works, strict=True)):
            part = engine.run(work, known, sizes, f"pass {number + 1} of {len(self.works)}")
            if number and part.count != count:
                raise ShardingError(f"a pass read {part.count} rows, and the one before {count}: the data changed")
            count = part.count
            known[rows] = np.asarray(float(count))
            totals = part.totals if part.totals is not None else self._of_nothing(work, known, sizes)
            known |= {total.variable.name: value for total, value in zip(one.totals, totals, strict=True)}
            for place, output in enumerate(one.rows):
                values[output] = [block[place] for block in part.rows]
        if self.final is not None:
            final = self.final({name: known[name] for name in self.final.names}, {**sizes, self.index: count})
            values |= dict(zip(self.passes.final, final, strict=True))
        is_numpy, sizes = engine.library == "numpy", {**sizes, self.index: count}
        assemble = self.results.assembler(self.parts, self.exprs, sizes, dtype, is_numpy)
        return assemble(self._joined([values[k] for k in range(len(self.exprs))], is_numpy))

    def _of_nothing(self, work: BlockWork, known: Arrays, sizes: Mapping[str, int]) -> list[np.ndarray]:
        """The totals where no block has rows."""
        given = {**sizes, self.index: 0}
        inputs = [x for x in variables(*work.work.exprs) if x.name in work.axes]
        empty = {x.name: np.zeros([evaluate(size, given) for size in x.shape]) for x in inputs}
        return work.work({**known, **empty}, given)[: len(work.reductions)]

    def _joined(self, values: list[Any], is_numpy: bool) -> list[Any]:
        """Values in one array, where that is what outputs are made of."""
        if not is_numpy:  # it keeps what has rows in one array
            values = [value[0] if isinstance(value, list) else value for value in values]
        if self.parts is None:
            return values
        return [
            np.concatenate(value, axis=expr.shape.index(self.index)) if isinstance(value, list) else value
            for expr, value in zip(self.exprs, values, strict=True)
        ]


def _engine_for(arrays: Arrays, mesh: Any) -> str:
    """The engine that arrays with the index are for."""
    values = list(arrays.values())
    if any(map(is_dask, values)):
        return "dask"
    if mesh is not None or (values and all(map(is_spread, values))):
        return "jax"
    return "torch" if values and all(map(is_torch, values)) else "stream"


def _is_diagonal(term: Pattern, index: str) -> bool:
    """Whether rows and columns of a term belong to the same row of data."""
    own = [label for label, size in term.sizes.items() if size == index]
    return len(own) == 1 and term.output.count(own[0]) == 2


def _stand_in(x: Any) -> np.ndarray:
    """An array of NumPy that looks like one elsewhere."""
    if not hasattr(x, "shape"):
        return np.asarray(x)
    dtype = np.dtype(getattr(x.dtype, "name", str(x.dtype)).rpartition(".")[2])
    return np.broadcast_to(np.zeros((), dtype), tuple(x.shape))
