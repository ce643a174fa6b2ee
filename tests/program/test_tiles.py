"""Large arrays some rows at a time: the same numbers, without the large arrays."""

from __future__ import annotations

import os
import re

import numpy as np
import pytest

import eindiff as ed
import eindiff.program.threads as program_threads
from eindiff.planning import tuning
from eindiff.program.backends.numpy_helpers import NUMPY_HELPERS
from eindiff.program.interpreter import evaluate
from eindiff.program.operations import Operations, with_operands
from eindiff.program.write.tiles import Loop

X, V = ed.tensor("X", ("n", "d")), ed.tensor("v", ("n",))
APART = X[:, None, :] - X[None, :, :]
SQUARES = ed.sum(APART * APART, 2)
PAIRS = {
    "energy": ed.sum(ed.sqrt(SQUARES + 0.01)),
    "kernel": V @ ed.exp(-SQUARES) @ V,
    "repulsion": ed.sum(1 / (1 + SQUARES)),
    "soft": ed.sum(ed.logsumexp(-SQUARES, 1)),
}


@pytest.fixture(params=["one thread", "three threads"])
def threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Threads that the rows of tiles are divided among."""
    if request.param == "one thread":
        return 1
    several_threads(monkeypatch)
    return 3


def several_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on three cores, whatever tests are told to use, and worth it for whatever is computed."""
    monkeypatch.setattr(tuning, "THREAD", 1e-12)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1, 2}, raising=False)
    for library in ("OMP", "OPENBLAS", "MKL"):
        monkeypatch.delenv(f"{library}_NUM_THREADS", raising=False)


def problem(name: str) -> tuple[ed.Expr, ed.Expr]:
    return PAIRS[name], X


def arrays_of(n: int, d: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    return {"X": rng.normal(size=(n, d)), "v": rng.normal(size=n)}


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", PAIRS)
def test_pairs(tiny_is_large, threads, name, dtype, order):
    f, x = problem(name)
    outputs = [f, ed.gradient(f, x), ed.hessian(f, x)]
    given = {key: np.asarray(y, dtype, order=order) for key, y in arrays_of(7, 2).items()}
    compiled = ed.compile(outputs)
    found = compiled(**given)
    assert "for tile_start" in compiled.source or name == "soft"
    assert ("in_threads(" in compiled.source) == ("for tile_start" in compiled.source and threads > 1)
    for value, right in zip(found, evaluate(outputs, {k: y.astype(float) for k, y in given.items()}), strict=True):
        assert value.dtype == dtype
        scale = np.abs(right).max() * (1e-12 if dtype == "float64" else 1e-5)
        np.testing.assert_allclose(value, right, rtol=0, atol=scale)


def test_results_go_into_given_arrays(tiny_is_large, threads):
    f, x = problem("energy")
    hessian, given = ed.hessian(f, x), arrays_of(6, 2)
    out = np.full((6, 2, 6, 2), np.nan)
    assert ed.compile(hessian)(X=given["X"], out=out) is out
    np.testing.assert_allclose(out, evaluate(hessian, {"X": given["X"]}), rtol=1e-12, atol=1e-12)


def test_one_program_serves_sizes_of_one_kind(tiny_is_large, threads):
    f, x = problem("energy")
    compiled = ed.compile([f, ed.hessian(f, x)])
    for n in (4, 5, 6, 7):
        given = {"X": arrays_of(n, 2)["X"]}
        for value, right in zip(compiled(**given), evaluate([f, ed.hessian(f, x)], given), strict=True):
            np.testing.assert_allclose(value, right, rtol=1e-11, atol=1e-11)


def test_threads_know_of_the_state_around_them(monkeypatch):
    """Overflow in one part of the rows is no warning where the others' is none, and an error where theirs is."""
    several_threads(monkeypatch)
    f = ed.compile(ed.exp(X) * ed.exp(2 * X), sizes={"n": 1000, "d": 300})
    assert "in_threads(" in f.source
    point = np.zeros((1000, 300))
    point[-1] = 1e4
    assert np.isinf(f(X=point)[-1]).all()
    work: dict = {}
    exec("import os\nfrom concurrent.futures import ThreadPoolExecutor\nimport numpy as np", work)
    exec(NUMPY_HELPERS["core_count"] + NUMPY_HELPERS["in_threads"], work)
    with np.errstate(over="raise"), pytest.raises(FloatingPointError):
        work["in_threads"](lambda first, last, step: [np.exp(point[first:last]).sum()], 1000, 3, 100)
    parts = work["in_threads"](lambda first, last, step: [last - first, np.full(2, 1.0)], 1000, 64, 100)
    assert parts[0] == 1000 and (parts[1] == 3).all()
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert (work["in_threads"](lambda first, last, step: [np.full(2, 1.0)], 1000, 64, 100)[0] == 1).all()


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_threads_take_equal_steps(monkeypatch, threads):
    """No tile is larger than planned, and none is a rest: one thread would wait for another."""
    monkeypatch.setattr(program_threads, "core_count", lambda: threads)
    for length in (0, 1, 199, 1000):
        tiles: list[int] = []

        def work(first: int, last: int, step: int, found: list[int] = tiles) -> list[int]:
            found += [min(step, last - start) for start in range(first, last, step)]
            return [last - first]

        assert program_threads.in_threads(work, length, 8, 200) == [length]
        assert sum(tiles) == length
        assert not tiles or max(tiles) <= min(200, min(tiles) + len(tiles))


def test_what_all_tiles_copy_is_copied_once(monkeypatch):
    """The transposed matrix of a product in a loop does not depend on the tile."""
    several_threads(monkeypatch)
    T, U, V = ed.matrix("T", "m", "n"), ed.matrix("U", "m", "k"), ed.matrix("V", "n", "k")
    f = ed.sum((T - U @ V.T) ** 2)
    plan = ed.plan([f, ed.gradient(f, U)], {"m": 1000, "n": 1000, "k": 5})
    before, loop = plan.source.rsplit("def f(", 1)[1].split("for tile_start")
    assert "V.T.copy()" in before and ".copy()" not in loop


def test_threads_are_started_where_they_pay():
    """Products use all cores by themselves, and what takes little time is done before a thread has begun."""
    Y = ed.tensor("Y", ("n", "n"))
    entries = ed.sum(ed.exp(ed.sin(Y)))
    assert "in_threads(" in ed.plan(entries, {"n": 2000}).source
    assert "in_threads(" not in ed.plan(entries, {"n": 300}).source
    assert "in_threads(" not in ed.plan(Y @ Y @ Y, {"n": 1000}).source


def test_each_thread_has_one_tile_of_arrays_that_are_not_large():
    """Results are written where they belong."""
    A, B, C = ed.tensor("A", ("n", "n", "n")), ed.matrix("B", "n", "n"), ed.matrix("C", "n", "n")
    chain = A
    for W in (B, C, B + C, B - C):
        chain = ed.tanh(ed.einsum("ijk,kl->ijl", chain, W))
    source = ed.plan([ed.einsum("ijk,jk->ijk", chain, C)], {"n": 50}).source
    assert re.search(r"in_threads\(.*, 50\)\n", source)
    body = source[source.index("def in_tiles") : source.index("in_threads(in_tiles")]
    assert re.search(r"out=\w+\[tile_start:tile_stop\]", body) and "[tile_start:tile_stop] =" not in body
    rng = np.random.default_rng(4)
    given = {"A": rng.normal(size=(50, 50, 50)), "B": rng.normal(size=(50, 50)), "C": rng.normal(size=(50, 50))}
    right = given["A"]
    for W in (given["B"], given["C"], given["B"] + given["C"], given["B"] - given["C"]):
        right = np.tanh(right @ W)
    np.testing.assert_allclose(ed.compile(ed.einsum("ijk,jk->ijk", chain, C))(**given), right * given["C"], rtol=1e-9)


def test_what_joins_a_tile_brings_its_other_operands():
    """`M**2` is needed by rows, though nothing that it is made of is computed in the loop."""
    M, T = ed.tensor("M", ("m", "n")), ed.tensor("T", ("m", "n"))
    U, V = ed.tensor("U", ("m", "k")), ed.tensor("V", ("n", "k"))
    R = M * (T - U @ V.T)
    f = ed.sum(ed.sqrt(1 + R * R))
    plan = ed.plan([f, ed.gradient(f, U)], {"m": 1500, "n": 1000, "k": 4})
    assert plan.peak < 8 * 1500 * 1000


@pytest.mark.parametrize("name", ["energy", "kernel", "repulsion"])
def test_sums_over_pairs_form_no_large_array(name):
    n, d = 3000, 3
    f, x = problem(name)
    plan = ed.plan([f, ed.gradient(f, x)], {"n": n, "d": d})
    assert plan.peak <= 8 * n * n // 4


def test_the_hessian_of_pairs_takes_little_more_than_its_memory():
    f, x = problem("energy")
    plan = ed.plan(ed.hessian(f, x), {"n": 500, "d": 3})
    assert plan.peak <= 1.5 * plan.result_bytes


def test_small_arrays_run_at_once():
    f, x = problem("energy")
    assert "for tile_start" not in ed.plan(ed.hessian(f, x), {"n": 40, "d": 3}).source


def test_squares_of_differences_do_not_cancel():
    """Points that are near each other and far from 0: nothing of the size of their squares is rounded."""
    n = 300
    points = 1e6 + np.random.default_rng(0).integers(0, 1000, (n, 3)) / 1024
    expected = ((points[:, None] - points) ** 2).sum(2)
    for f, right in [(ed.sum(SQUARES), expected.sum()), (ed.exp(-SQUARES), np.exp(-expected))]:
        np.testing.assert_allclose(ed.compile(f, sizes={"n": n, "d": 3})(X=points), right, rtol=1e-11)


def test_a_sign_before_a_condition():
    x = ed.vector("x", "n")
    f = ed.compile(ed.derivative(ed.sum(ed.relu(ed.sin(ed.softplus(-x)))), x, x), sizes={"n": 600})
    point = np.linspace(-3, 3, 600)
    expected = evaluate(ed.derivative(ed.sum(ed.relu(ed.sin(ed.softplus(-x)))), x, x), {"x": point})
    np.testing.assert_allclose(f(x=point), expected, rtol=1e-12, atol=1e-12)


def test_stacks_of_matrices_that_are_repeated(tiny_is_large):
    """New axes of a stack are said without those of the matrices."""
    y, z = ed.tensor("y", (1, 1, 1, 1, 2), "positive"), ed.scalar("z")
    stack = ed.tan(ed.einsum("ijiik,ii,->jki", y, ed.einsum("ijjkl->ik", y), z))
    product = ed.einsum("ijk,lmk,kmn->klnil", stack, stack, stack)
    arrays = {"y": np.array([0.6, 0.3]).reshape(y.shape), "z": np.asarray(0.7)}
    for _ in range(4):
        np.testing.assert_allclose(ed.compile(product)(**arrays), evaluate(product, arrays), rtol=1e-12, atol=1e-12)
        product = ed.jacobian(product, z)


def test_views_of_a_tile_are_stored_once_and_large_sums_are_not_added_up():
    """A mixture: `t.T @ t` needs t alone, and stacks of products over the tiled points never form their factors."""
    M, means = ed.tensor("M", ("m", "d")), ed.tensor("means", ("k", "d"))
    apart = M[:, None, :] - means[None, :, :]
    f = ed.sum(ed.logsumexp(-ed.sum(apart * apart, 2), 1))
    source = ed.compile(ed.hessian(f, means), sizes={"m": 2500, "k": 10, "d": 50}).source
    assert source.count("= np.empty((") == 1
    assert source.count("+= t") >= 2


def test_a_short_last_axis_is_written_column_by_column():
    value = np.arange(24.0).reshape(3, 2, 4).transpose(1, 2, 0)
    namespace: dict = {"np": np}
    exec(NUMPY_HELPERS["store_columns"], namespace)
    out = np.zeros((2, 4, 3))
    namespace["store_columns"](value, out)
    np.testing.assert_array_equal(out, value)
    f, x = problem("energy")
    source = ed.compile(ed.hessian(f, x), sizes={"n": 500, "d": 3}).source
    assert "store_columns(" in source.split("for tile_start")[1]


def net(layers: int) -> tuple[list[ed.Expr], list[ed.Expr]]:
    """Outputs whose factors for each sample are chains of matrices, and all inputs."""
    Z = ed.tensor("Z", ("b", "n"))
    weights = [ed.tensor(f"W{k}", ("n", "n")) for k in range(layers)]
    a = Z
    for W in weights:
        a = ed.tanh(a @ W)
    return [ed.hessian(ed.sum(ed.logsumexp(a, 1)), weights[0])], [Z, *weights]


@pytest.mark.parametrize("b", [4, 5, 7])
def test_samples_and_rows_that_are_one_axis(tiny_is_large, b):
    """`(b, n, n)` as `(b*n, n)` is tiled along the samples all the same."""
    outputs, inputs = net(3)
    rng = np.random.default_rng(b)
    given = {x.name: rng.normal(size=(b if x.name == "Z" else 3, 3)) for x in inputs}
    compiled = ed.compile(outputs)
    [found] = compiled(**given)
    np.testing.assert_allclose(found, evaluate(outputs, given)[0], rtol=1e-10, atol=1e-12)


def test_layers_of_nets_form_no_array_of_all_samples():
    outputs, _ = net(6)
    plan = ed.plan(outputs, {"b": 90, "n": 90})
    body = plan.source.split("for tile_start")[1]
    assert len(re.findall(r"\*tile_rows, n\)(?: @ |, |\.dot\()W", body)) >= 6


def random_stack(rng: np.random.Generator) -> ed.Expr:
    """A matrix for each sample, through products with weights, which merge axes, and what goes entry by entry."""
    Z, W, P = ed.tensor("Z", ("b", "n")), ed.tensor("W", ("n", "n")), ed.tensor("P", ("b", "n", "n"))
    J = P if rng.random() < 0.5 else Z[:, :, None] * Z[:, None, :]
    for step in rng.integers(8, size=rng.integers(2, 7)):
        J = [
            lambda J: ed.einsum("bij,jk->bik", J, W),
            lambda J: ed.einsum("bij,ik->bkj", J, W),
            lambda J: J * ed.tanh(Z)[:, None, :],
            lambda J: J * ed.exp(-Z * Z)[:, :, None],
            lambda J: ed.tanh(ed.einsum("bij,bkj->bik", J, J)),
            lambda J: ed.tanh(J) + ed.einsum("bij->bji", J),
            lambda J: J + ed.einsum("bi,ij->bij", Z, ed.eye("n")),
            lambda J: J * ed.tanh(ed.einsum("bij,bj->bi", J, Z))[:, :, None],
        ][step](J)
    return J


def test_random_stacks_of_matrices(tiny_is_large, threads):
    rng, merged = np.random.default_rng(3), 0
    for _ in range(20):
        J = random_stack(rng)
        outputs = [ed.einsum("bij->jib", J), ed.einsum("bij->ij", J), ed.einsum("bij,bik->jk", J, J), ed.sum(J * J, 0)]
        wanted = [outputs[k] for k in rng.choice(4, rng.integers(1, 3), replace=False)]
        b = int(rng.integers(4, 8))
        given = {"Z": rng.normal(size=(b, 3)), "W": rng.normal(size=(3, 3)) / 2, "P": rng.normal(size=(b, 3, 3))}
        compiled = ed.compile(wanted)
        for found, right in zip(compiled(**given), evaluate(wanted, given), strict=True):
            np.testing.assert_allclose(found, right, rtol=1e-9, atol=1e-10 * max(1, np.abs(right).max()))
        merged += "*tile_rows" in compiled.source
    assert merged > 3


def test_what_is_stored_in_another_order_is_an_array_of_its_own(tiny_is_large):
    """Of a transposed matrix, which lies in that order already, it is a copy: the matrix may be changed in place."""
    x = ed.tensor("x", (5,))
    v = x[2:] - x[:3]
    v = ed.sin(v[1:]) * v[:2]
    third = ed.jacobian(ed.jacobian(ed.jacobian(ed.sin(v[1:]) * v[:1], x), x), x)
    compiled, given = ed.compile(third), {"x": np.array([1.13, 0.43, -0.24, -0.18, 1.1])}
    np.testing.assert_allclose(compiled(**given), evaluate(third, given), rtol=1e-9, atol=1e-11)
    assert "ascontiguousarray" not in compiled.source


def test_what_a_loop_reads_is_replaced_in_it_too():
    """Else it would be computed again in each turn."""
    operations = Operations()
    x = operations.make("input", [], ("x",), shape=("n",))
    before, after = (operations.make("call", [x], (name,)) for name in ("exp", "sin"))
    body = operations.make("scale", [operations.make("cut", [before], (0, (0, 2, None)), shape=(2,))], (3.0,))
    loop = Loop((body,), (0,), (1,), "n", 2, 1)
    tiles = operations.make("tiles", [before], (loop,), shape=())
    [replaced] = with_operands(operations, tiles, [after]).parameters[0].body
    assert replaced.op == "scale" and replaced.operands[0].operands == (after,)


def test_tiles_of_products_with_few_columns_are_small_matrices():
    O, V = ed.matrix("O", "m", "n"), ed.matrix("V", "n", "k")
    rows, (_, columns) = tuning.UNPACKED, tuning.TILED_PRODUCT
    source = ed.plan((O * O) @ V, {"m": 2000, "n": 1000, "k": 20}).source
    assert f", {rows // (1000 * 20)})\n" in source
    assert f", {rows // (1000 * 2 * columns)})\n" not in ed.plan(
        (O * O) @ V, {"m": 2000, "n": 1000, "k": 2 * columns}
    ).source


def test_tiles_are_cut_along_the_rows_in_memory():
    a, q = ed.vector("a", "n"), ed.sum(X * X, 1)
    kernel = ed.exp(-(q[:, None] + q[None, :] - 2 * X @ X.T))
    source = ed.plan([ed.sum((kernel @ a) ** 2), kernel @ (kernel @ a)], {"n": 1000, "d": 5}).source
    assert "for tile_start" in source and "[:, tile_start" not in source
