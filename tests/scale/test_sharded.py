"""Data in blocks gives what it gives in memory, in every form that blocks come in; faults are named."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import pytest

import eindiff as ed
from sharded_losses import SHARDED, Loss, losses

LOSSES = losses()
CUTS = (0, 0, 7, 30, 30, 31, 48)  # blocks of unequal and of zero length


def outputs(one: Loss) -> list[Any]:
    """Value and gradient, and the Hessian where it has no index of rows."""
    by = one.by if isinstance(one.by, list) else [one.by]
    dense = [one.loss, *ed.gradient(one.loss, by)]
    return dense if any("m" in x.shape for x in by) else [*dense, *chain(*ed.hessian(one.loss, by))]


def blocks(array: np.ndarray) -> list[np.ndarray]:
    return [array[start:stop] for start, stop in pairwise(CUTS)]


def in_blocks(one: Loss) -> dict[str, Any]:
    return {name: blocks(x) if name in SHARDED else x for name, x in one.arrays.items()}


def joined(values: Any) -> list[np.ndarray]:
    return [np.concatenate(x) if isinstance(x, list) else np.asarray(x) for x in values]


def assert_equal(found: Any, expected: Any) -> None:
    for a, b in zip(joined(found), expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12 * max(1.0, np.abs(b).max()))


@pytest.mark.parametrize("name", LOSSES)
def test_blocks_give_what_memory_gives(name: str) -> None:
    one = LOSSES[name]
    wanted = outputs(one)
    expected = ed.compile(wanted)(**one.arrays)
    function = ed.compile(wanted, shard="m")
    assert_equal(function(**in_blocks(one)), expected)
    assert_equal(function(**one.arrays, rows=5), expected)
    assert_equal(function(**one.arrays, rows=11, workers=3), expected)
    assert_equal(pickle.loads(pickle.dumps(function))(**one.arrays), expected)


@pytest.mark.parametrize("name", LOSSES)
def test_dask_gives_the_same(name: str) -> None:
    import dask.array as da

    one = LOSSES[name]
    wanted = outputs(one)
    chunks = tuple(np.diff(CUTS))
    arrays = {
        key: da.from_array(x, chunks=(chunks, *x.shape[1:])) if key in SHARDED else x for key, x in one.arrays.items()
    }
    assert_equal(ed.compile(wanted, shard="m")(**arrays), ed.compile(wanted)(**one.arrays))


@pytest.mark.parametrize("name", LOSSES)
def test_newton_steps_keep_their_structure(name: str) -> None:
    one = LOSSES[name]
    request = ed.newton_step(one.loss, one.by, damping="auto")
    found = ed.compile(request, shard="m")(**one.arrays, rows=9)
    expected = ed.compile(request)(**one.arrays)
    assert found.hessian.structure == expected.hessian.structure
    for a, b in zip(*[x.step if isinstance(x.step, list) else [x.step] for x in (found, expected)], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9 * np.abs(b).max())


def test_rows_that_are_fitted_alone_need_one_block_at_a_time() -> None:
    one = LOSSES["masked factorization by rows"]
    request = ed.newton_step(one.loss, one.by)
    steps = [x.step for x in ed.compile(request, shard="m").blocks(**one.arrays, rows=10)]
    np.testing.assert_allclose(np.concatenate(steps), ed.compile(request)(**one.arrays).step, rtol=1e-12)
    related = LOSSES["masked factorization by both"]
    with pytest.raises(ed.ShardingError, match="different blocks"):
        next(ed.compile(ed.newton_step(related.loss, related.by), shard="m").blocks(**related.arrays))


def sources(one: Loss, folder: Path) -> Iterator[dict[str, Any]]:
    """The data of the logistic loss in all forms."""
    import h5py
    import zarr

    X, s, w = (one.arrays[name] for name in "Xsw")
    mapped = np.memmap(folder / "X.bin", dtype=float, mode="w+", shape=X.shape)
    mapped[:] = X
    yield {"X": mapped, "s": s, "w": w}
    with h5py.File(folder / "X.h5", "w") as file:
        yield {"X": file.create_dataset("X", data=X), "s": file.create_dataset("s", data=s), "w": w}
    yield {"X": zarr.create_array(folder / "X.zarr", data=X), "s": s, "w": w}
    yield {"X": (block for block in blocks(X)), "s": s, "w": w}
    yield {"X": lambda: iter(blocks(X)), "s": blocks(s), "w": w}
    table = pa.table({f"x{k}": X[:, k] for k in range(X.shape[1])} | {"s": s})
    pyarrow.parquet.write_table(table, folder / "data.parquet", row_group_size=7)
    columns = [f"x{k}" for k in range(X.shape[1])]
    yield {"X": table.select(columns), "s": table.select(["s"]), "w": w}
    stored = pyarrow.dataset.dataset(folder / "data.parquet")
    yield {"X": stored.scanner(columns, batch_size=9), "s": stored.scanner(["s"], batch_size=9), "w": w}
    yield {"X": table.select(columns).to_reader(7), "s": table.select(["s"]).to_reader(7), "w": w}


def test_all_sources_give_the_same(tmp_path: Path) -> None:
    one = LOSSES["logistic"]
    wanted = outputs(one)
    expected = ed.compile(wanted)(**one.arrays)
    function = ed.compile(wanted, shard="m")
    for arrays in sources(one, tmp_path):
        assert_equal(function(**arrays, rows=10), expected)
    pieces = [{"X": X, "s": s} for X, s in zip(blocks(one.arrays["X"]), blocks(one.arrays["s"]), strict=True)]
    assert_equal(function(pieces, w=one.arrays["w"]), expected)
    assert_equal(function(lambda: iter(pieces), w=one.arrays["w"]), expected)


def test_the_index_may_be_any_axis() -> None:
    A, x = ed.matrix("A", "n", "m"), ed.vector("x", "n")
    loss = ed.sum(ed.exp(x @ A))
    arrays = {"A": np.arange(12.0).reshape(2, 6) / 9, "x": np.array([0.5, -0.2])}
    found = ed.compile([loss, ed.hessian(loss, x)], shard="m")(**arrays, rows=4)
    assert_equal(found, ed.compile([loss, ed.hessian(loss, x)])(**arrays))


def test_no_rows_at_all() -> None:
    one = LOSSES["logistic"]
    empty = {name: x[:0] if name in SHARDED else x for name, x in one.arrays.items()}
    assert_equal(ed.compile(outputs(one), shard="m")(**empty), ed.compile(outputs(one))(**empty))


REFUSED = {
    "a matrix of rows by rows": lambda X, K, v: v @ K @ v,
    "neighbours": lambda X, K, v: ed.sum((v[1:] - v[:-1]) ** 2),
    "a determinant": lambda X, K, v: ed.logdet(ed.eye("m") + X @ X.T),
    "a cumulative sum": lambda X, K, v: ed.sum(ed.cumsum(v) ** 2),
    "a product": lambda X, K, v: ed.prod(v),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_relates_rows_is_refused(name: str) -> None:
    X, K, v = ed.matrix("X", "m", "n"), ed.matrix("K", "m", "m"), ed.vector("v", "m")
    with pytest.raises(ed.ShardingError, match="not made block by block over m"):
        ed.compile(REFUSED[name](X, K, v), shard="m")


def test_an_index_that_nothing_has_is_refused() -> None:
    with pytest.raises(ed.ShardingError, match="no variable has the index q"):
        ed.compile(LOSSES["logistic"].loss, shard="q")


def _broken(name: str) -> tuple[list[Any], str]:
    """Blocks of X, one of them with a fault, and what is said of it."""
    good = blocks(LOSSES["logistic"].arrays["X"])
    if name == "no number":
        bad = good[3].copy() if len(good[3]) else good[2].copy()
        bad[1, 2] = np.nan
        return [*good[:2], bad, *good[3:]], "block 2: X has an entry that is no finite number, in its row 1"
    if name == "other columns":
        return [*good[:2], good[2][:, :3], *good[3:]], "block 2: .*X"
    if name == "fewer rows":
        return [*good[:2], good[2][:-1], *good[3:]], "block 2: .*same number of rows|the blocks have"
    return [*good[:-1]], "block 5: X ends before s does"


@pytest.mark.parametrize("name", ["no number", "other columns", "fewer rows", "one block less"])
def test_faults_name_the_block(name: str) -> None:
    one = LOSSES["logistic"]
    X, message = _broken(name)
    with pytest.raises(ed.ShardingError, match=message):
        ed.compile(outputs(one), shard="m")(X=X, s=blocks(one.arrays["s"]), w=one.arrays["w"])


def test_a_block_that_cannot_be_read_is_named() -> None:
    def torn() -> Iterator[np.ndarray]:
        yield from blocks(LOSSES["logistic"].arrays["X"])[:3]
        raise OSError("unexpected end of file")

    one = LOSSES["logistic"]
    with pytest.raises(ed.ShardingError, match="block 3 cannot be read: OSError: unexpected end"):
        ed.compile(one.loss, shard="m")(X=torn, s=blocks(one.arrays["s"]), w=one.arrays["w"])


def test_an_iterator_is_read_once() -> None:
    one = LOSSES["centred columns"]
    with pytest.raises(ed.ShardingError, match="only once"):
        ed.compile(one.loss, shard="m")(X=iter(blocks(one.arrays["X"])), w=one.arrays["w"])


def test_a_plan_counts_what_is_read_and_sent() -> None:
    one = LOSSES["logistic"]
    plan = ed.compile(outputs(one), shard="m").plan({"m": 1000, "n": 5}, blocks=10)
    assert len(plan.passes) == 1
    assert plan.read == 8 * 1000 * (5 + 1)
    assert plan.reduced == 8 * (1 + 5 + 25)
    assert plan.seconds(1) > plan.seconds(8)
    assert "1 pass over 1,000 rows in 10 blocks" in plan.explain()


class Counted:
    """An array that counts the bytes that are read."""

    def __init__(self, array: np.ndarray) -> None:
        self.array, self.shape, self.dtype, self.read = array, array.shape, array.dtype, 0

    def __getitem__(self, index: Any) -> np.ndarray:
        found = self.array[index]
        self.read += found.nbytes
        return found


@pytest.mark.parametrize("name", ["logistic", "centred columns", "softmax over rows"])
def test_a_plan_knows_the_bytes_that_are_read(name: str) -> None:
    """Each pass reads what it needs; the first block is read once more, to see the sizes."""
    one = LOSSES[name]
    arrays = {key: Counted(x) if key in SHARDED else x for key, x in one.arrays.items()}
    function = ed.compile(outputs(one), shard="m")
    function(**arrays, rows=12)
    first = sum(12 * x.array[0].nbytes for x in arrays.values() if isinstance(x, Counted))
    read = sum(x.read for x in arrays.values() if isinstance(x, Counted))
    assert function.plan({"m": 48, "n": 4}, blocks=4).read == read - first


def test_dask_arrays_are_not_loaded_without_a_word() -> None:
    import dask.array as da

    one = LOSSES["logistic"]
    with pytest.raises(ed.EindiffError, match="X is given as an array of dask: compile with shard="):
        ed.compile(one.loss)(**{**one.arrays, "X": da.from_array(one.arrays["X"])})


def test_scaling_is_drawn() -> None:
    from matplotlib import pyplot

    plan = ed.compile(LOSSES["logistic"].loss, shard="m").plan({"m": 10**7, "n": 50}, blocks=1024)
    axis = plan.plot()
    same, each = (line.get_ydata() for line in axis.lines)
    assert all(np.diff(same) < 0) and all(np.diff(each) >= 0)
    pyplot.close(axis.figure)
