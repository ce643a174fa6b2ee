"""Operations as data: each library has a word for each operation, and equal operations are one."""

from __future__ import annotations

import ast
from fractions import Fraction

import numpy as np
import pytest

import eindiff as ed
from backend_libraries import REFUSED
from eindiff.functions.table import TABLE
from eindiff.program.backends import NAMES, backend
from eindiff.program.backends.words import EAGER, EAGER_FUNCTIONS, FUNCTIONS
from eindiff.program.lower.tidying import tidy
from eindiff.program.operations import CHEAP_OPS, OPS, VIEW_OPS, Operations, is_number, reachable
from eindiff.program.write.module import Module

# A new operation, or function, that a library has no word for stops all tests of programs here.
for _name in NAMES:
    _library = backend(_name)
    _known = set(OPS) - set(EAGER) if _library.functional else set(OPS)
    _known |= {"positive", "mask"} if _library.conditions else set()
    assert set(_library.words) == _known, f"{_name}: {sorted(_known ^ set(_library.words))}"
    assert not [name for name in _library.functions if name in TABLE and _name in TABLE[name].source], "a row says it"
    _known = (set(FUNCTIONS) - REFUSED[_name]) | ({"chosen"} if _library.conditions else set())
    _known |= set() if _library.functional else set(EAGER_FUNCTIONS)
    assert set(_library.functions) == _known, f"{_name}: {sorted(_known ^ set(_library.functions))}"


def test_sets_of_operations_name_operations() -> None:
    assert set(OPS) >= VIEW_OPS | CHEAP_OPS | set(EAGER)
    assert len(set(OPS)) == len(OPS)


@pytest.mark.parametrize("name", NAMES)
def test_what_a_word_calls_is_there(name: str) -> None:
    """A name that is called in a word is that of a module that is imported, or of a helper."""
    library = backend(name)
    rows = [row.source[name] for row in TABLE.values() if name in row.source]
    words = [word for word in (*library.words.values(), *library.functions.values(), *rows) if isinstance(word, str)]
    for word in words:
        called = word.partition("(")[0]
        if called.isidentifier():
            assert called in library.helpers, word
        elif called.replace(".", "").isidentifier() and not called.startswith("."):
            assert called.startswith(tuple(library.imports)), word


@pytest.mark.parametrize("name", NAMES)
def test_functions_need_no_parentheses(name: str) -> None:
    """Whatever stands around what a function is written as: it is called, or has parentheses of its own."""
    rows = [row.source[name] for row in TABLE.values() if name in row.source]
    for word in (*rows, *[word for word in backend(name).functions.values() if isinstance(word, str)]):
        [statement] = ast.parse(word.format(*"abcd")).body
        assert isinstance(statement, ast.Expr)
        assert isinstance(statement.value, ast.Call | ast.Subscript) or (word[0], word[-1]) == ("(", ")"), word


def test_equal_operations_are_one() -> None:
    operations = Operations()
    x = operations.make("input", parameters=("x",), shape=("n",))
    assert operations.scale(2, x) is operations.scale(2, x)
    assert operations.transpose(operations.transpose(x)) is x
    assert operations.plus([(1, x), (2, x)]) is operations.plus([(1, x), (2, x)])


@pytest.mark.parametrize(("one", "other"), [(2, 2.0), (0.0, -0.0), (Fraction(1, 3), 1 / 3)])
def test_numbers_that_are_written_otherwise_are_others(one: float, other: float) -> None:
    operations = Operations()
    assert operations.number(one) is not operations.number(other)


def test_sums_are_remembered_once_however_often_they_are_made() -> None:
    """Places of entries are the same sums for each array that is read there: a list of them all took quadratic time."""
    operations = Operations(shares_sums=True)
    terms = [(k + 1, operations.make("input", parameters=(name,), shape=(3,))) for k, name in enumerate("xyz")]
    sums = [operations.plus(terms) for _ in range(5)]
    assert all(x is sums[0] for x in sums)
    assert [list(known) for known in operations.sums.values()] == [[sums[0]]]
    [known] = operations.sums[terms[-1][1]].values()
    assert known == {x: c for c, x in terms}


def test_sums_of_places_are_whole_multiples_of_others() -> None:
    """`3 i + j` and `j + 9` made `i + 3 j + 24` of thirds, which is an array of floats: no places."""
    operations = Operations(shares_sums=True)
    i, j = (operations.make("range", [operations.number(3)], parameters=(k,), shape=(3,)) for k in range(2))
    operations.plus([(3, i), (1, j)]), operations.plus([(1, j), (9, operations.number(1))])
    found = operations.plus([(1, i), (3, j), (24, operations.number(1))])
    assert not any(c.denominator > 1 for x in reachable([found]) if x.op == "scale" for c in x.parameters)


def test_negated_sums_are_of_what_their_terms_have_become() -> None:
    """`-(2 (A @ B.T).T - C)` is `C - 2 B @ A.T`; all below the terms was there twice, as it was before too."""
    operations = Operations()
    a, b, c = (operations.make("input", parameters=(name,), shape=(3, 3)) for name in "abc")
    turned = operations.transpose(operations.matmul(a, operations.transpose(b)))
    total = operations.plus([(2, turned), (-1, c), (Fraction(1, 2), operations.quotient(1, [], [c]))])
    [found] = tidy(operations, [operations.scale(-1, total)])
    better = operations.matmul(b, operations.transpose(a))
    assert {x: coefficient for coefficient, x in operations.terms(found)} == {
        c: 1, better: -2, operations.quotient(1, [], [c]): Fraction(-1, 2)
    }  # fmt: skip
    assert [x for x in reachable([found]) if x.op == "matmul"] == [better]


def test_arithmetic_of_numbers_is_a_number() -> None:
    operations = Operations()
    n = operations.make("size", parameters=("n",))
    x = operations.make("input", parameters=("x",))
    for coefficient in (2, Fraction(1, 3), 1e-5):
        assert is_number(operations.scale(coefficient, n))
    assert is_number(operations.power(operations.plus([(1, n), (1, operations.number(1))]), 2))
    assert not is_number(operations.times([n, x]))


@pytest.mark.parametrize("name", ["jax", "torch", "tensorflow"])
def test_small_multiples_of_sizes_are_arrays(name: str) -> None:
    """Not Python's numbers, however their coefficients are written."""
    function = ed.compile(1e-5 * ed.sum(ed.ones("n")), sizes={"n": 3}, backend=name)
    value = function()
    assert type(value).__module__.partition(".")[0] in (name, "jaxlib")
    np.testing.assert_allclose(np.asarray(value), 3e-5)


def test_arrays_are_forgotten_by_name_not_by_text() -> None:
    """Names of inputs and outputs that occur in other words of the source keep nothing alive."""
    t, a = ed.matrix("t", "n", "n"), ed.matrix("reshape", "n", "n")
    outputs = {"matmul": ed.exp(t @ a) @ ed.sin(a @ t), "out": t @ t @ t}
    source = Module(outputs, "f").program({"n": 300}).source
    namespace: dict = {}
    exec(source, namespace)
    assert "del " in source
    rng = np.random.default_rng(0)
    one, other = rng.normal(size=(2, 4, 4))
    found = namespace["f"](t=other, reshape=one)
    np.testing.assert_allclose(found[0], np.exp(other @ one) @ np.sin(one @ other))
    np.testing.assert_allclose(found[1], other @ other @ other)


def test_a_product_of_a_difference_is_not_negated() -> None:
    """Sums have a canonical sign, which a program takes back where the difference is made."""
    A, B = ed.matrix("A", "n", "n"), ed.matrix("B", "n", "n")
    for expr in ((A - B) @ A, (B - A) @ A, A @ (A - B), (A + B) @ (A - B)):
        assert {x.op for x in ed.plan(expr, {"n": 100})._program.operations} <= {"add", "matmul"}
        arrays = {"A": np.arange(9.0).reshape(3, 3), "B": np.arange(9.0).reshape(3, 3).T ** 2}
        np.testing.assert_allclose(ed.compile(expr)(**arrays), ed.evaluate(expr, arrays), rtol=1e-14)
