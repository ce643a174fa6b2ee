"""Programs of PyTorch are recorded when they are called often, unless somebody watches."""

from types import SimpleNamespace

import pytest
import torch
from torch.utils._pytree import tree_leaves

import eindiff as ed
from eindiff.program.recorded import (
    CALLS,
    KINDS,
    Recorded,
    Replay,
    Unfinished,
    last_operations,
    stays_on_device,
    watched,
)

CPU = torch.device("cpu")


@pytest.fixture
def made(monkeypatch):
    """A function that is recorded as on a GPU, and the calls of what was recorded."""
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: SimpleNamespace(cuda_stream=0))
    replays: list[list[int]] = []

    def record(function, tensors, sizes, staying):
        own = {k: x.clone() for k, x in enumerate(tensors) if k not in staying}
        read = [own.get(k, x.detach()) for k, x in enumerate(tensors)]
        graph = SimpleNamespace(replay=lambda: replays.append(list(own)))
        return Replay(graph, SimpleNamespace(results=lambda: function(*read, **sizes)), tensors, own)

    return Recorded(lambda *x, n=0: torch.sin(sum(x)).sum() + n, record, "cpu"), replays


def test_it_is_recorded_after_some_calls(made):
    run, replays = made
    x = torch.ones(3)
    for _ in range(CALLS):
        run(x)
    assert not replays
    assert run(2 * x) == torch.sin(2 * x).sum() and len(replays) == 1
    run(torch.ones(4))
    run(x, n=1)
    assert len(replays) == 1


def test_tensors_are_read_where_they_stay(made):
    """Others are copied; one that moves later is copied from then on."""
    run, replays = made
    still, once = torch.ones(3), torch.ones(3)
    for k in range(CALLS + 1):
        run(still, once, torch.full((3,), k / 8))
    assert replays == [[2]]
    still.add_(1)
    assert run(still, once, 2 * once) == torch.sin(still + 3).sum() and replays[-1] == [2]
    once = torch.full((3,), 7.0)
    for value in (0.5, 0.75):
        again = torch.full((3,), value)
        assert run(still, again, once) == torch.sin(still + value + 7).sum() and replays[-1] == [1, 2]


def test_what_watches_sees_the_operations(made):
    run, replays = made
    x = torch.ones(3)
    for _ in range(CALLS + 2):
        y = x.clone().requires_grad_()
        torch.autograd.grad(run(y), y)
        torch.func.grad(run)(x)
        torch.func.vmap(run)(x[:, None])
        watched(lambda: run(x))
    assert not replays


def test_what_cannot_be_recorded_is_left_alone(made):
    run, _ = made
    tries: list[tuple] = []
    run._record = lambda *given: tries.append(given)
    for n in range(1, 3):
        for _ in range(2 * CALLS):
            assert run(torch.ones(n)) == torch.sin(torch.ones(n)).sum()
    assert len(tries) == 1


def test_few_kinds_are_remembered(made):
    run, _ = made
    for n in range(3 * KINDS):
        run(torch.ones(n))
    assert len(run._found) <= KINDS


@pytest.mark.parametrize(
    ("call", "stays"),
    [
        (lambda x: torch.einsum("ij,jk->ik", x, x).relu().sum(), True),
        (lambda x: torch.zeros(2, 2).index_put((torch.arange(2), torch.arange(2)), x[0], accumulate=True), True),
        (lambda x: x[x > 0], False),
        (lambda x: x * float(x.sum()), False),
        (lambda x: torch.linalg.solve(x, x), False),
        (lambda x: torch.linalg.cholesky_ex(x).L, False),
        (lambda x: x.to("meta"), False),
    ],
)
def test_what_leaves_the_device_is_known(call, stays):
    assert stays_on_device(watched(lambda: call(torch.eye(2)))[0], CPU) == stays


@pytest.mark.parametrize(
    ("call", "beside"),
    [
        (lambda x, y: (x @ y).T[1:], 1),
        (lambda x, y: (torch.einsum("ij,kj->kij", x, y).permute(2, 0, 1), {"sum": x.sum(0)}), 2),
        (lambda x, y: (x @ y, (x @ y)[0]), 2),
        (lambda x, y: ((z := x @ y), z[0], z * 2), 1),  # the first is read by the last
        (lambda x, y: torch.zeros(3, 3).add_(x), 0),  # changed after it was made
        (lambda x, y: torch.linalg.eigh(x + x.T), 0),  # two results of one operation
        (lambda x, y: (x, y[0]), 0),
        (lambda x, y: torch.zeros(0, 3) @ x, 1),
    ],
)
def test_results_are_new_arrays_made_by_the_last_operations(call, beside):
    x, y = torch.rand(2, 3, 3)
    last = last_operations(*watched(lambda: call(x, y)))
    unfinished = Unfinished(lambda: call(x, y), last)
    assert len(last) == beside
    for _ in range(2):
        given = [x, y]
        x.mul_(2), y.add_(1)
        for found, expected in zip(tree_leaves(unfinished.results()), tree_leaves(call(x, y)), strict=True):
            if beside == len(tree_leaves(call(x, y))):  # others are those of the recording, which is not run here
                assert torch.equal(found, expected)
            assert found.shape == expected.shape and found.stride() == expected.stride()
            assert all(found.untyped_storage()._cdata != z.untyped_storage()._cdata for z in given)


def test_a_net_takes_few_operations():
    """What a condition leaves is one operation, and so is a softmax: each is started by itself on a GPU."""
    X, Y, V, W = ed.matrix("X", "b", "n"), ed.matrix("Y", "b", "n"), ed.matrix("V", "n", "n"), ed.matrix("W", "n", "n")
    logits = ed.relu(X @ W) @ V
    gradient = ed.compile(ed.gradient(ed.sum(ed.logsumexp(logits, 1)) - ed.sum(Y * logits), W), backend="torch")
    arrays = dict(zip("XYVW", torch.rand(4, 3, 3, dtype=torch.float64), strict=True))
    gradient(**arrays)
    seen, _ = watched(lambda: gradient(**arrays))
    kernels = [x.function for x in seen if not x.makes & x.reads]  # views start nothing
    assert len(kernels) <= 9  # four products, relu, what it leaves, softmax, difference, sign
