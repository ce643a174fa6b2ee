"""Programs of PyTorch are recorded when they are called often, unless somebody watches."""

from types import SimpleNamespace

import pytest
import torch

from eindiff.program.recorded import CALLS, KINDS, Recorded, stays_on_device

CPU = torch.device("cpu")


@pytest.fixture
def made(monkeypatch):
    """A function that is recorded as on a GPU, and the calls of what was recorded."""
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: SimpleNamespace(cuda_stream=0))
    replays: list[tuple] = []

    def record(function, tensors, sizes):
        return lambda *given: replays.append(given) or function(*given, **sizes)

    return Recorded(lambda x, n=0: torch.sin(x).sum() + n, record, "cpu"), replays


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


def test_what_watches_sees_the_operations(made):
    run, replays = made
    x = torch.ones(3)
    for _ in range(CALLS + 2):
        y = x.clone().requires_grad_()
        torch.autograd.grad(run(y), y)
        torch.func.grad(run)(x)
        torch.func.vmap(run)(x[:, None])
        stays_on_device(lambda: run(x), CPU)
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
    assert stays_on_device(lambda: call(torch.eye(2)), CPU) == stays
