"""The language as people look it up: each function and each way of writing, with its meaning and an example that runs.

Whoever adds a function adds its line here: a test fails for one without.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from eindiff.text.read.syntax import ALIASES
from eindiff.text.read.table import TABLE

# name | meaning | example, under the name of a group
_FUNCTION_LINES = """
Entry by entry
abs | The absolute value of each entry; |x| says the same. | sum(abs(x))
exp | The exponential of each entry; expm is that of a matrix. | sum(exp(A*x))
expm1 | exp(x) - 1, accurate near 0. | sum(expm1(x))
log | The natural logarithm of each entry; ln says the same. | sum(log(x))
log1p | log(1 + x), accurate near 0. | sum(log1p(exp(x)))
sqrt | The square root of each entry. | sqrt(x'*A*x)
cbrt | The cube root of each entry. | sum(cbrt(x))
square | The square of each entry: x.^2. | sum(square(A*x - b))
reciprocal | 1/x, entry by entry. | sum(reciprocal(x))
power | Each entry of x to the power of that of y: x.^y. | sum(power(x, 3))
sign | -1, 0 or 1, as each entry is negative, 0 or positive. | x'*sign(x)
floor | The largest whole number below each entry; its derivative is 0. | sum(x.*floor(x))
ceil | The smallest whole number above each entry; its derivative is 0. | sum(x.*ceil(x))
trunc | Each entry without what is behind the point; its derivative is 0. | sum(x.*trunc(x))
rint | Each entry rounded to a whole number; its derivative is 0. | sum(x.*rint(x))

Trigonometric and hyperbolic
sin | The sine of each entry. | sum(sin(x))
cos | The cosine of each entry. | sum(cos(x))
tan | The tangent of each entry. | sum(tan(x))
arcsin | The inverse of the sine, entry by entry. | sum(arcsin(x))
arccos | The inverse of the cosine, entry by entry. | sum(arccos(x))
arctan | The inverse of the tangent, entry by entry. | sum(arctan(x))
arctan2 | The angle of the point with abscissa y and ordinate x, entry by entry. | sum(arctan2(x, y))
sinh | The hyperbolic sine of each entry. | sum(sinh(x))
cosh | The hyperbolic cosine of each entry. | sum(cosh(x))
tanh | The hyperbolic tangent of each entry. | v'*tanh(W*x)
arcsinh | The inverse of sinh, entry by entry. | sum(arcsinh(x))
arccosh | The inverse of cosh, entry by entry. | sum(arccosh(x))
arctanh | The inverse of tanh, entry by entry. | sum(arctanh(x))

Losses and activations
relu | The larger of each entry and 0. | v'*relu(W*x)
sigmoid | 1/(1 + exp(-x)), entry by entry; σ(x) says the same. | sum(sigmoid(X*w))
softplus | log(1 + exp(x)), entry by entry: a smooth relu. | sum(softplus(-y.*(X*w)))
softmax | exp(x)/sum(exp(x)), of a vector or along an axis. | y'*log(softmax(W*x))
logsumexp | log(sum(exp(x))), of all entries or along axes: a smooth maximum. | logsumexp(W*x) - y'*(W*x)
log_weighted_sum | log(sum(w .* exp(x))): logsumexp with weights. | log_weighted_sum(x, w)
weighted_softmax | w.*exp(x)/sum(w.*exp(x)): softmax with weights. | y'*weighted_softmax(x, w)
stop_gradient | x, whose derivative is 0. | x'*stop_gradient(x)
step | 1 where an entry is positive, else 0. | step(x)'*y
maximum | The larger of two, entry by entry; max(0, x) says the same. | sum(maximum(0, 1 - y.*(X*w)))
minimum | The smaller of two, entry by entry. | sum(minimum(x, y))
where | x where the condition is not 0, else y, entry by entry. | sum(where(x > 0, x, y))
greater | 1 where x > y, else 0, entry by entry; x > y says the same. | greater(x, y)'*x
isnan | 1 where an entry is not a number, else 0. | sum(where(isnan(x), y, x))

Special functions
erf | The error function of each entry. | sum(erf(x))
erfc | 1 - erf(x), accurate for large x. | sum(erfc(x))
erfinv | The inverse of erf, entry by entry. | sum(erfinv(x))
gammaln | The logarithm of the gamma function, entry by entry. | sum(gammaln(x + 1))
digamma | The derivative of gammaln, entry by entry. | sum(digamma(x))
polygamma | The derivative of digamma of order x at y. | sum(polygamma(2, x))
log_ndtr | The logarithm of the normal distribution function, entry by entry. | sum(log_ndtr(X*w))

Sums and norms
sum | The sum of all entries, or along axes, which count from 0. | sum(A*x)
mean | The mean of all entries, or along axes. | mean(A*x)
prod | The product of all entries, or along axes. | prod(x)
prod_except | The product of all other entries, for each entry; with 2, for each pair. | sum(prod_except(x))
max | The largest entry, of all or along axes. | max(A*x)
min | The smallest entry, of all or along axes. | min(A*x)
cumsum | The sums of the first entries along an axis. | y'*cumsum(x)
norm | The Euclidean norm, or another one: norm(x, 1), norm(x, inf), norm(A, 2). | norm(A*x - b)^2
norm1 | The sum of the absolute values of all entries, or along axes. | norm2(A*x - b)^2 + λ*norm1(x)
norm2 | The root of the sum of squares of all entries, or along axes; of a matrix the Frobenius norm. | norm2(A*x - b)^2
norminf | The largest absolute value of all entries. | norminf(A*x - b)
sumsq | The sum of the squares of all entries. | sumsq(A*x - b)
inner | The inner product: the sum of the products of entries, of two of one shape. | inner(A, X)
dot | The inner product of vectors, else the product of matrices, as in NumPy. | dot(x, y)
at_max | 1 at the largest entry, 0 elsewhere; equal ones share it. | y'*at_max(x)

Matrices
tr | The trace: the sum of the diagonal entries. | tr(A*X)
det | The determinant. | det(A*X)
logdet | The logarithm of the determinant of a matrix with positive determinant. | logdet(X)
logabsdet | The logarithm of the absolute value of the determinant. | logabsdet(X)
signdet | The sign of the determinant. | signdet(X)*tr(X)
inv | The inverse of a square matrix; A^(-1) says the same. | x'*inv(A)*x
pinv | The pseudo-inverse: that of least squares. | y'*pinv(A)*y
solve | inv(A)*b, for a vector or a matrix b. | y'*solve(A, b)
adj | The adjugate: det(A)*inv(A), which every square matrix has. | tr(adj(X))
chol | The lower triangle L with L*L' = A, of a positive definite matrix. | sum(chol(A))
diag | A diagonal matrix with the entries of a vector, or the diagonal of a matrix. | x'*diag(y)*x
matrix_power | A multiplied by itself k times; A^k says the same. | tr(matrix_power(A, 3))
expm | The exponential of a square matrix; expm(A, E) is its derivative in the direction E. | tr(expm(A))
logm | The logarithm of a square matrix. | tr(A*logm(A))
sqrtm | The square root of a square matrix. | tr(sqrtm(A))
eigvals | The eigenvalues of a symmetric matrix, from small to large. | sum(exp(eigvals(S)))
eigvecs | The eigenvectors of a symmetric matrix, as columns. | sum(eigvecs(S))
lambdamax | The largest eigenvalue of a symmetric matrix. | lambdamax(S)
svdvals | The singular values, from large to small. | sum(svdvals(A))
svdleft | The left singular vectors, as columns. | sum(svdleft(A))
svdright | The right singular vectors, as columns. | sum(svdright(A))
normnuc | The nuclear norm: the sum of the singular values. | normnuc(A)
normspec | The spectral norm: the largest singular value. | normspec(A)

Shapes
transpose | The transpose; A' says the same. With numbers, the axes in that order. | transpose(A)*x
reshape | The entries, row by row, in another shape. | sum(exp(reshape(A, -1)))
vec | The columns of a matrix, one below the other. | norm2(vec(A))^2
kron | The Kronecker product; A ⊗ B says the same. | sum(exp(kron(x, y)))
outer | The outer product: x*y' for vectors. | tr(A*outer(x, y))
concatenate | One below the other, or along the axis that is given. | norm2(concatenate(x, y))^2
stack | Along a new axis, the first or the one that is given. | norm2(stack(x, y))^2
einsum | Products and sums of tensors, a letter an axis: summed if not behind ->. | einsum("ij,j,i->", A, x, y)
tril | The lower triangle of a matrix, with the diagonal; zeros above. | norm2(tril(A))^2
triu | The upper triangle of a matrix, with the diagonal; zeros below. | norm2(triu(A))^2
arange | Places that are counted through, in an index. | sum(x[2*arange(3) + 1])

Constants
vector | A vector whose entries are all the same, as long as its use asks for. | sum(log(exp(x) + vector(1)))
matrix | A matrix whose entries are all the same, as large as its use asks for. | tr(X'*(X + matrix(1)))
ones | Ones of the given sizes. | ones(n)'*(A*x)
zeros | Zeros of the given sizes. | norm2(x - zeros(n))^2
eye | The identity; its size is found from its use, if it is not given. | logdet(K + c*eye)
size | How many entries there are, in all or along an axis. | sum(x)/size(x)

In derivatives
bars | What |x| says: the absolute value, or the determinant of a matrix. | sum(|x|)
"""

_WRITING = """
Writing
x'*A*y | Products as in linear algebra; ' transposes, and so do ᵀ, ^T and .T. | x'*A*y
x.*y | Entry by entry: .* ./ .^ multiply, divide, take powers. | sum(x.*y./z)
A^2 | Powers: of scalars and of square matrices; .^ is entry by entry, A^(-1) the inverse. | tr(A^2)
2x | A number before a name or a bracket multiplies it. | 2x'*A*x
A*x + b | Scalars are added to each entry; so is a vector to what is as long. | norm2(A*x + b)
||x|| | Norms: ||x||_1, ||X||_F, ||X||_*; |x| is the absolute value. | ||A*x - b||^2 + λ*||x||_1
x[i] | Entries, rows and slices count from 0; x[:-1] leaves the last out. | sum((x[1:] - x[:-1]).^2)
u[g] | Entries at the places that an array of indices has: g(m) into n. | norm2(y - u[g])^2
sum_over(i, ...) | A sum over an index, which counts from 1. | sum_over(i, (y[i] - w'*X[i])^2)
x > 0 | 1 where it holds, else 0; also < >= <=. | sum((x > 0).*y)
1/n | What counts is the size of what is summed over: n here is the length of y. | 1/n*norm2(X*w - y)^2
x·y | The dot is the inner product of vectors; it scales, and multiplies matrices, as * does. | x·y + x·(A·y)
λ, lambda | Greek letters and their words are one name. | norm2(A*x - b)^2 + lambda*norm1(x)
I | The identity, where a matrix is added to or multiplied. | logdet(K + σ*I)
z = ...; | Names for parts: statements end with ; and the last is the function. | z = A*x - b; z'*z
x^TAx, X'X | In formulas letters stand side by side; words and declared names are kept. | x^TAx - 2b^Tx
\\frac{1}{2}\\|Ax-b\\|^2 | LaTeX as papers have it. | \\frac{1}{2}\\|Ax-b\\|_2^2 + \\lambda \\|x\\|_1
np.exp(x) @ y | NumPy, JAX and PyTorch as in programs, where * is entry by entry. | np.sum(np.exp(-y * (X @ w)))
"""


@dataclass(frozen=True, slots=True)
class Entry:
    """What one looks up: a function or a way of writing, in what group it belongs, and an example that runs.

    `usage` is how it is written with its arguments; `aliases` are other words for it. `is_function` tells functions
    from ways of writing, `is_shown` those that people write from those that only results have.
    """

    name: str
    usage: str
    group: str
    meaning: str
    example: str
    aliases: tuple[str, ...] = ()
    is_function: bool = True

    @property
    def is_shown(self) -> bool:
        """Whether people write it; else it stands in results only."""
        return self.group != "In derivatives"


@cache
def reference() -> dict[str, Entry]:
    """The entries by their names: ways of writing first, then the functions, group by group.

    >>> reference()["norm2"].example
    'norm2(A*x - b)^2'
    """
    found = {
        name: Entry(name, name, group, meaning, example, is_function=False)
        for name, group, meaning, example in _rows(_WRITING)
    }
    for name, group, meaning, example in _rows(_FUNCTION_LINES):
        usage = _calls(name, TABLE[name].usage) if name in TABLE else name
        aliases = tuple(sorted(word for word, own in ALIASES.items() if own == name))
        found[name] = Entry(name, usage, group, meaning, example, aliases)
    for name, row in TABLE.items():
        if name.startswith("divided_"):
            base = name.removeprefix("divided_")
            meaning = f"The divided difference of {base}: ({base}(x) - {base}(y))/(x - y), and the derivative if x = y."
            found[name] = Entry(name, row.usage, "In derivatives", meaning, f"sum({name}(x, y))")
    return found


def _calls(name: str, usage: str) -> str:
    """The ways to call a function, without the words between them."""
    return ", ".join(dict.fromkeys(re.findall(rf"{name}\([^)]*\)|{name}(?=, )", usage))) or usage


def _rows(text: str) -> list[tuple[str, str, str, str]]:
    """Name, group, meaning and example of each line."""
    rows, group = [], ""
    for line in filter(None, text.splitlines()):
        found = re.fullmatch(r"(.+?) \| (.+) \| (.+)", line)
        if found is None:
            group = line
        else:
            rows.append((found[1], group, found[2], found[3]))
    return rows
