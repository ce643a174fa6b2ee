"""Whatever the text, `parse` gives an expression or an EindiffError, soon."""

from __future__ import annotations

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import eindiff as ed
from eindiff.text.read.declarations import parse_declarations
from eindiff.text.read.parse import parse
from eindiff.text.read.source import ParseError
from eindiff.text.read.table import TABLE

DECLARED = "A(m,n); B(n,n); S(n,n) symmetric; x(n); y(m); c; T(2,3,4); u(3); D(n,n) diagonal"
NAMES = ["A", "B", "S", "x", "y", "c", "T", "u", "D", "eye", "pi", "a", "X", "w", "t", "n", "α", "None"]
SYMBOLS = [*"+-*/^'()[],;:=.<>\"#{}_ \n\t⊙⊘⊗ᵀ−·", ".*", "./", ".^", "...", "*_(ij,jk,ik)", "**", "@", "1e", "²"]

quick = settings(
    derandomize=True, deadline=None, max_examples=500, database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)  # fmt: skip


def answers(text: str, declarations: object = None) -> None:
    """An expression, or one error of the package that says where."""
    try:
        assert isinstance(parse(text, declarations), ed.Expr)
    except ParseError as error:
        assert error.line >= 1
        assert error.column >= 1
        assert error.problem
        assert "\n" not in error.problem


numbers = st.sampled_from(["0", "1", "2", "3", ".5", "1e-3", "2.5", "-1", "1/2", "1e300", "10"])
leaves = st.one_of(st.sampled_from(NAMES), numbers, st.sampled_from(["[1,2,3]", "[[1,2],[3,4]]", "ones(n)", "eye(n)"]))
sizes = st.sampled_from(["n", "m", "2", "3", "-1", "0", "m*n", "n-1", "axis=0", "axis=-1", "j=n", "[0,1]", '"ij->ji"'])
entries = st.sampled_from([":", "0", "-1", "1:3", "::-1", "1:", ":-1", "::2", "...", "None", "[0,1]", "5", "x", "0:n"])


def grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Larger expressions of smaller ones, mostly such that they mean something."""
    operators = st.sampled_from(["+", "-", "*", ".*", "./", "/", "^", ".^", "⊗", ">", " *_(ij,jk,ik) ", "+ -", "*-"])
    calls = st.builds(
        lambda name, args, more: f"{name}({', '.join([*args, *more])})",
        st.sampled_from(sorted(TABLE)), st.lists(inner, max_size=3), st.lists(sizes, max_size=2),
    )  # fmt: skip
    return st.one_of(
        st.builds("{}{}{}".format, inner, operators, inner),
        st.builds("({}{}{})".format, inner, operators, inner),
        st.builds("{}'".format, inner),
        st.builds("-{}".format, inner),
        calls,
        st.builds(lambda base, index: f"{base}[{','.join(index)}]", inner, st.lists(entries, min_size=1, max_size=3)),
        st.builds(lambda spec, args: f'einsum("{spec}", {", ".join(args)})', SPECS, st.lists(inner, max_size=3)),
        st.builds("t = {}; {}*t".format, inner, inner),
    )


SPECS = st.sampled_from(
    ["ij,jk->ik", "i,i->", "i->ii", "ij->", "ii->i", "i,j->ij", "...i,i->...", "ij", "->ij", "i->", "i1->i"]
)
expressions = st.recursive(leaves, grown, max_leaves=12)


@quick
@given(expressions, st.sampled_from([None, DECLARED]))
@example("f(j=n)", None)
@example('sin("a")', None)
@example("x[]", None)
@example("einsum(x)", None)
@example('sum("a")', None)
@example("sum(x, j=1)", None)
@example("A^(1/0)", None)
@example("0^-1", None)
@example("reshape(x, 0, -1)", None)
@example("x[arange()]", None)
@example("x[arange(3)*arange(2)]", None)
@example("x[[arange(2)]]", None)
@example("x[arange(-1)]", None)
@example("u[g][g]", None)
@example("A[g, :, h]", None)
@example("transpose(x, [1], 0)", None)
@example("10^300*10^300", None)
@example("sum(c, 0)", None)
def test_texts_that_almost_mean_something(text, declarations):
    answers(text, declarations)


@quick
@given(
    st.lists(
        st.one_of(st.sampled_from(NAMES), st.sampled_from(SYMBOLS), st.sampled_from(sorted(TABLE)), numbers),
        max_size=30,
    )
)
def test_any_sequence_of_tokens(tokens):
    answers("".join(tokens), DECLARED)


@quick
@given(st.text(max_size=60))
@example("\ud800")
@example("\x00\x1b[31m")
@example("x\u2028y")
@example("\u202ex + y")
@example("é = 1; é")
@example("١ + ２")
@example("ﬁ*x")
def test_any_unicode(text):
    answers(text)
    answers(f"x + {text}")


DECLARING = [*"Ax()mn,;20[]\n ", "symmetric", "psd", "diagonal", "vector"]


@quick
@given(st.one_of(st.text(max_size=40), st.lists(st.sampled_from(DECLARING), max_size=25).map(" ".join)))
def test_any_declarations(text):
    try:
        assert isinstance(parse_declarations(text), dict)
    except ParseError as error:
        assert error.problem


names = st.one_of(st.text(max_size=3), st.integers())
shapes = st.lists(st.one_of(st.integers(), st.text(max_size=2)), max_size=3)


@quick
@given(
    st.dictionaries(names, st.one_of(st.text(max_size=10), st.integers(), st.floats(), st.none(), shapes), max_size=2)
)
def test_any_dictionary(declarations):
    try:
        parse("x", declarations)
    except ed.EindiffError as error:
        assert str(error)
