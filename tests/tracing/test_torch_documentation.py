"""The examples of PyTorch's documentation, with the import changed."""

from __future__ import annotations

import torch

import eindiff.torch as et
from torch_functions import assert_same


def test_documentation_of_hessian():
    def f(x):
        return x.sin().sum()

    x = torch.randn(5)
    hess = et.hessian(f)(x)  # equivalent to jacfwd(jacrev(f))(x)
    assert torch.allclose(hess, torch.diag(-x.sin()))


def test_documentation_of_jacrev():
    x = torch.randn(5)
    jacobian = et.jacrev(torch.sin)(x)
    assert torch.allclose(jacobian, torch.diag(torch.cos(x)))

    def f(x):
        return x.sin()

    def g(x):
        result = f(x)
        return result, result

    jacobian_f, f_x = et.jacrev(g, has_aux=True)(x)
    assert torch.allclose(f_x, f(x))
    assert torch.allclose(jacobian_f, torch.diag(torch.cos(x)))

    def total(x):
        return x.sin().sum()

    hessian = et.jacrev(et.jacrev(total))(x)
    assert torch.allclose(hessian, torch.diag(-x.sin()))

    def product(x, y):
        return x + y**2

    x, y = torch.randn(5), torch.randn(5)
    jacobian = et.jacrev(product, argnums=1)(x, y)
    assert torch.allclose(jacobian, torch.diag(2 * y))
    jacobian = et.jacrev(product, argnums=(0, 1))(x, y)
    assert torch.allclose(jacobian[0], torch.diag(torch.ones(5)))
    assert torch.allclose(jacobian[1], torch.diag(2 * y))


def test_documentation_of_jacfwd():
    x = torch.randn(5)
    jacobian = et.jacfwd(torch.sin)(x)
    assert torch.allclose(jacobian, torch.diag(torch.cos(x)))
    hessian = et.jacfwd(et.jacrev(lambda x: x.sin().sum()))(x)
    assert torch.allclose(hessian, torch.diag(-x.sin()))
    batch = torch.randn(64, 5)
    jacobian = torch.func.vmap(et.jacfwd(torch.sin))(batch)
    assert jacobian.shape == (64, 5, 5)


def test_documentation_of_grad():
    x = torch.randn([])
    assert torch.allclose(et.grad(lambda x: torch.sin(x))(x), x.cos())
    assert torch.allclose(et.grad(et.grad(lambda x: torch.sin(x)))(x), -x.sin())
    gradients, (value, aux) = et.grad_and_value(lambda x: (x.sin(), {"y": x * 2, "n": 3}), has_aux=True)(x)
    assert torch.allclose(gradients, x.cos())
    assert torch.allclose(value, x.sin())
    assert torch.allclose(aux["y"], x * 2)
    assert aux["n"] == 3


def test_documentation_of_functional_jacobian():
    def exp_reducer(x):
        return x.exp().sum(dim=1)

    inputs = torch.rand(2, 2)
    expected = torch.autograd.functional.jacobian(exp_reducer, inputs)
    assert_same(et.functional.jacobian(exp_reducer, inputs), expected, 1e-6)

    def exp_adder(x, y):
        return 2 * x.exp() + 3 * y

    inputs = (torch.rand(2), torch.rand(2))
    expected = torch.autograd.functional.jacobian(exp_adder, inputs)
    assert_same(et.functional.jacobian(exp_adder, inputs), expected, 1e-6)


def test_documentation_of_functional_hessian():
    def pow_reducer(x):
        return x.pow(3).sum()

    inputs = torch.rand(2, 2)
    assert_same(
        et.functional.hessian(pow_reducer, inputs), torch.autograd.functional.hessian(pow_reducer, inputs), 1e-6
    )

    def pow_adder_reducer(x, y):
        return (2 * x.pow(2) + 3 * y.pow(2)).sum()

    inputs = (torch.rand(2), torch.rand(2))
    expected = torch.autograd.functional.hessian(pow_adder_reducer, inputs)
    assert_same(et.functional.hessian(pow_adder_reducer, inputs), expected, 1e-6)
    one = torch.rand(3, requires_grad=True)
    expected = torch.autograd.functional.hessian(lambda v: v.pow(3).sum(0, keepdim=True), one)
    assert_same(et.functional.hessian(lambda v: v.pow(3).sum(0, keepdim=True), one), expected, 1e-6)
