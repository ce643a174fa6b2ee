"""The expressions of LAAB (Sankaran, Alashti, Psarras, Bientinesi 2022) take the operations of the best way."""

from __future__ import annotations

import numpy as np
import pytest

import eindiff as ed

N = 400
DECLARED = "A(n,n); B(n,n); C(n,n); H(n,n); L(n,n) lower; D(n,n) diagonal; T(n,n) tridiagonal; x(n); y(n)"
DECLARED += "; F(n,h); G(n,h); P(h,h); Q(h,h)"
SIZES = {"n": N, "h": N // 2}
PRODUCT, VECTOR, ENTRIES = 2 * N**3, 2 * N**2, N**2

CASES = {  # operations of the best way, and of what is not counted there: sums and multiples of entries
    "a product": ("A*B", PRODUCT, 0),
    "common subexpression": ("A'*B + A'*B", PRODUCT, ENTRIES),
    "common subexpression in a product": ("(A'*B)'*(A'*B)", 2 * PRODUCT, 0),
    "without parentheses": ("(A'*B)'*A'*B", 2 * PRODUCT, 0),
    "chain from the right": ("H'*H*x", 2 * VECTOR, 0),
    "chain from the left": ("y'*H'*H", 2 * VECTOR, 0),
    "mixed chain": ("H'*y*x'*H", 2 * VECTOR + ENTRIES, 0),
    "chain with a common part": ("A'*B*A'*B*y", 4 * VECTOR, 0),
    "triangular": ("L*B", PRODUCT / 2, 0),
    "tridiagonal": ("T*B", 5 * ENTRIES, ENTRIES),
    "diagonal": ("D*B", ENTRIES, 0),
    "distributive, joined": ("A*B + A*C", PRODUCT, ENTRIES),
    "distributive, multiplied out": ("(A - H'*H)*x", 3 * VECTOR, N),
    "an entry of a sum": ("(A + B)[2,2]", 1, 0),
    "an entry of a product": ("(A*B)[2,2]", 2 * N, 0),
    "symmetric product": ("A*A'", PRODUCT, 0),
}


@pytest.mark.parametrize("name", CASES)
def test_operations_are_those_of_the_best_way(name: str) -> None:
    text, best, rest = CASES[name]
    flops = ed.plan(ed.parse(text, DECLARED), SIZES).flops
    assert flops <= best + rest, flops


def test_blocks_are_multiplied_apart() -> None:
    """[[P, 0], [0, Q]] times [F', G'] one above the other is [P F', Q G']."""
    P, Q, F, G = (ed.parse(name, DECLARED) for name in "PQFG")
    whole = ed.concatenate([P @ F.T, Q @ G.T])
    h = SIZES["h"]
    assert ed.plan(whole, SIZES).flops <= 2 * 2 * h * h * N + h * N * 4


def test_what_a_loop_does_not_change_is_computed_once() -> None:
    """The sum of A B + i C over a few i has one product."""
    A, B, C = (ed.parse(name, DECLARED) for name in "ABC")
    total = sum((A @ B + k * C for k in range(3)), start=A @ B)
    assert ed.plan(total, SIZES).flops <= PRODUCT + 6 * ENTRIES


PARTS = {  # parts of products with few entries, and multiples of what the best way takes
    "rows of a triangle": ("(L*B)[:20,:]", 2 * 20 * 20 * N),
    "rows of an upper one": ("(L'*B)[380:,:]", 2 * 20 * 20 * N),
    "columns": ("(B*L)[:,380:]", 2 * 20 * 20 * N),
    "a block": ("(L*B)[:20,:20]", 2 * 20 * 20 * 20),
    "a row": ("(L*B)[7,:]", 2 * 8 * N),
    "rows of a band": ("(T*B)[100:120,:]", 2 * 20 * 22 * N),
    "the last row of a band": ("(T*B)[399,:]", 2 * 3 * N),
    "columns of a band": ("(B*T)[:,:20]", 2 * 20 * 21 * N),
    "entries of a product with a vector": ("(T*x)[3:6]", 2 * 3 * 5),
}


@pytest.mark.parametrize("name", PARTS)
def test_parts_of_products_with_few_entries_read_these_only(name: str) -> None:
    text, best = PARTS[name]
    expr = ed.parse(text, DECLARED)
    assert ed.plan(expr, SIZES).flops <= best
    rng = np.random.default_rng(0)
    B, A, x = rng.normal(size=(N, N)), rng.normal(size=(N, N)), rng.normal(size=N)
    arrays = {"B": B, "L": np.tril(A), "T": np.triu(np.tril(A, 1), -1), "x": x}
    given = {v.name: arrays[v.name] for v in ed.variables(expr)}
    expected = eval(text.replace("'", ".T").replace("*", "@"), arrays)
    np.testing.assert_allclose(ed.compile(expr)(**given), expected, rtol=1e-12, atol=1e-11)
