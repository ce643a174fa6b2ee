"""What is printed has no name that only the code knows: functions of the language alone, in all notations."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from zlib import crc32

import numpy as np
import pytest

import eindiff as ed
from eindiff.apps.page.examples import GROUPS
from eindiff.calculus.derive import find_variable
from eindiff.core.nodes import Expr, Variable
from eindiff.program.check import random_point
from eindiff.text.read.table import TABLE
from eindiff.text.write.to_text import NOTATIONS, STYLES
from fuzz.kinds import KINDS
from fuzz.programs import Unfit
from make_cookbook_page import read_sections

# All functions of the language. Who adds one says here that people know it, or can look it up.
_WORDS = """
    abs adj arange arccos arccosh arcsin arcsinh arctan arctan2 arctanh at_max bars cbrt ceil chol concatenate cos
    cosh cumsum det diag digamma dot eigvals eigvecs einsum erf erfc erfinv exp expm expm1 eye floor gammaln greater
    inner inv isnan kron lambdamax log log1p log_ndtr log_weighted_sum logabsdet logdet logm logsumexp matrix
    matrix_power max maximum mean min minimum norm norm1 norm2 norminf normnuc normspec ones outer pinv polygamma power
    prod prod_except reciprocal relu reshape rint sigmoid sign signdet sin sinh size softmax softplus solve sqrt sqrtm
    square stack step stop_gradient sum sumsq svdleft svdright svdvals tan tanh tr transpose tril triu trunc vec vector
    weighted_softmax where zeros"""
PUBLIC = frozenset(_WORDS.split())
INTERNAL = re.compile(
    r"transpose|indexmap|winner|at_least|size\(|batch|inverse_or_zero|without|simple|argmax|lower|gaps|nonzero|onehot|stopped"
    r"|power_derivative|Given|\\operatorname\{(?!at_max)\w*_"
)


def known(name: str) -> bool:
    """Whether a function is one of the language: divided differences have the name of their function."""
    return name in PUBLIC or (name.startswith("divided_") and name.removeprefix("divided_") in PUBLIC)


def test_the_list_is_that_of_the_language():
    assert {name for name in TABLE if not known(name)} == set()
    assert TABLE.keys() >= PUBLIC


def refuse_internal_names(expr: Expr) -> None:
    for notation, style in product(NOTATIONS, STYLES):
        text = ed.to_text(expr, notation, style)
        if style == "plain":
            called = set(re.findall(r"([^\W\d]\w*)\(", text)) - {"einsum"}
            assert all(map(known, called)), text
        assert not INTERNAL.search(text.replace(r"\arg\max", "")), text


def derivatives() -> Iterator[tuple[str, Expr, str, str]]:
    """The rows of the cookbook and the examples of the page: the text, the function, its variables, declarations."""
    for section in read_sections():
        for text, declarations, by, _ in section.rows:
            yield text, ed.parse(text, declarations), by.replace(",", " "), declarations
    for group in GROUPS:
        for example in group.examples:
            names = " ".join(list(example.wrt) * (1 if len(example.wrt) > 1 else example.order))
            yield example.expression, ed.parse(example.expression, example.declarations), names, example.declarations


def test_rows_of_the_cookbook_and_examples_of_the_page():
    count = 0
    for _, function, by, _ in derivatives():
        refuse_internal_names(ed.derivative(function, *(find_variable(function, name) for name in by.split())))
        count += 1
    assert count > 430


MORE = [
    ("eigvecs(S)", "S(n,n) symmetric", "S"),
    ("sum(svdleft(X) + 1)", "X(n,n)", "X"),
    ("sum(eigvals(S).^2.5)", "S(n,n) psd", "S S"),
    ("sum(log(s[g])) + norm2((u[g] - y)./s[g])^2", "s(G); u(G); y(m); g(m) into G", "u s"),
    ("sum(u[h].^3)", "u(G); h(m,k) into G", "u u"),
    ("sum(x[arange(n - 2) + arange(3)].^4)", "x(n)", "x x"),
    ("sum(maximum(x, y)) + max(X)", "x(n); y(n); X(n,n)", "x"),
    ("sum(x.^y)", "x(n); y(n)", "x y"),
    ("sum(where(x > y, x.^2, sin(y)))", "x(n); y(n)", "x x"),
    ("sum(A[rows, cols].^2)", "A(m,n); rows(p) into m; cols(p) into n", "A A"),
    ("tr(expm(A)*B)", "A(n,n); B(n,n)", "A A"),
    ("prod(x)", "x(n)", "x x x"),
    ("cumsum(x)'*cumsum(y)", "x(n); y(n)", "x y"),
]


@pytest.mark.parametrize(("text", "declarations", "by"), MORE)
def test_functions_whose_derivatives_bring_others(text, declarations, by):
    function = ed.parse(text, declarations)
    path = [find_variable(function, name) for name in by.split()]
    for order in range(1, len(path) + 1):
        found = ed.derivative(function, *path[:order])
        refuse_internal_names(found)
        sizes = {"n": 3, "m": 4, "k": 2, "p": 5, "G": 3}
        read_back(found, {v.name: v for v in ed.variables(function)}, random_point([function], sizes), sizes)


@pytest.mark.parametrize("kind", ["einsums", "maps", "matrices", "reductions", "spectral", "named", "properties"])
def test_random_hessians_and_third_derivatives(kind):
    """Twenty random functions of each kind, orders 1 to 3: no internal name, and what is printed has the same value."""
    for number in range(20):
        try:
            case = KINDS[kind](np.random.default_rng([5, number, crc32(kind.encode())]))
        except Unfit:
            continue
        found = case.expr
        variables = {name: ed.tensor(name, v.shape, *v.properties) for name, v in case.program.variables.items()}
        for by in case._variables()[:3]:
            found = ed.derivative(found, by)
            if found.ndim > 6 or len(ed.to_text(found)) > 2000:
                break
            refuse_internal_names(found)
            read_back(found, variables, case.program.arrays, case.program.sizes)


def read_back(found: Expr, variables: dict[str, Variable], arrays: dict, sizes: dict[str, int]) -> None:
    texts = {notation: ed.to_text(found, notation) for notation in NOTATIONS}
    again = [ed.parse(text, variables, "index" if n == "index" else "matrix") for n, text in texts.items()]
    expected, *values = ed.evaluate([found, *again], arrays, sizes)
    for value, text in zip(values, texts.values(), strict=True):
        assert np.shape(value) == np.shape(expected), text
        scale = max(1.0, np.abs(expected).max(initial=0))
        np.testing.assert_allclose(value, expected, rtol=1e-7, atol=1e-9 * scale, err_msg=text)
