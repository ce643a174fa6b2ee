"""PyTorch: programs work under autograd, torch.func, torch.compile and on any device."""

from eindiff.program.backends.backend import Backend
from eindiff.program.backends.helpers import helpers_of

_SAME = (
    "sqrt where einsum outer eye diag trace swapaxes broadcast_to full ones zeros arange linalg.inv linalg.det "
    "linalg.solve linalg.slogdet inf nan"
)

_HELPERS = {name: text.replace("arange(n)", "arange(n, device=x.device)") for name, text in helpers_of("torch").items()}

_GUARD = '''
def {name}(A):
    """{what}, NaN if an entry is not finite."""
    bad = 0 * A.sum((-2, -1), keepdim=True)
    A = torch.where(torch.isfinite(bad), A, 0.0)
{body}
'''
_GUARDED = {
    name: _GUARD.format(name=name, what=what, body=body)
    for name, what, body in (
        (
            "eigh", "Eigenvalues and eigenvectors of a symmetric matrix",
            "    values, vectors = torch.linalg.eigh(A)\n    return values + bad[..., 0], vectors + bad",
        ),
        ("eigvalsh", "Eigenvalues of a symmetric matrix", "    return torch.linalg.eigvalsh(A) + bad[..., 0]"),
        (
            "svd", "Left singular vectors, singular values, right singular vectors as rows",
            "    left, values, right = torch.linalg.svd(A, full_matrices=False)\n"
            "    return left + bad, values + bad[..., 0], right + bad",
        ),
        ("svdvals", "Singular values", "    return torch.linalg.svdvals(A) + bad[..., 0]"),
        ("pinv", "The pseudo-inverse", "    return torch.linalg.pinv(A) + bad"),
    )
}  # fmt: skip

BACKEND = Backend(
    "torch",
    imports={"torch.": "import torch"},
    types="torch.",
    created=", dtype=torch.{dtype}",
    placed=", device={like}.device",
    copied="{0}.clone()",
    rules=[
        (r"np\.ascontiguousarray\((.*)\)", r"(\1)"),
        (r"np\.broadcast_to\((\{0\}), (.*)\)\.copy\(\)", r"torch.broadcast_to(\1, shape(\2)).clone()"),
        (r"np\.broadcast_to\((\{0\}), (.*)\)", r"torch.broadcast_to(\1, shape(\2))"),
        (r"np\.where\(\{0\} == \{1\}, 1\.0, 0\.0\)", r"({0} == {1}).to(DTYPE)"),
        (r"\{0\}\.transpose\((.*)\)", r"{0}.permute(\1)"),
        (r"np\.sum\(\{0\}, axis=(.*)\)", r"torch.sum({0}, dim=\1)"),
        (r"np\.sum\(\{0\}\)", r"torch.sum({0})"),
        (r"np\.max\(\{0\}, axis=(.*)\)", r"torch.amax({0}, dim=\1)"),
        (r"np\.max\(\{0\}\)", r"torch.amax({0})"),
        (r"np\.prod\(\{0\}, axis=(.*)\)", r"torch.prod({0}, dim=\1)"),
        (r"np\.prod\(\{0\}\)", r"torch.prod({0})"),
        (r"np\.vdot\(\{0\}, \{1\}\)", r"inner({0}, {1})"),
        (r"np\.concatenate\(\[(.*)\], axis=(\d+)\)", r"torch.cat([\1], dim=\2)"),
        (r"np\.concatenate\(\[(.*)\]\)", r"torch.cat([\1])"),
        (r"np\.einsum\((.*), optimize=True\)", r"torch.einsum(\1)"),
        (r"np\.flip\(\{0\}, (\d+)\)", r"torch.flip({0}, (\1,))"),
        (r"np\.tri\((.*?), (dtype=.*)\)", r"torch.ones((\1, \1), \2).tril()"),
        (r"np\.full\((.*), \{0\}, (dtype=.*)\)", r"filled(\1, {0}, \2)"),
        (r"np\.array\((.*), (dtype=.*)\)", r"torch.tensor(\1, \2)"),
        (r"linalg\.solve_triangular\(\{0\}, \{1\}, lower=(.*)\)", r"solve_triangular({0}, {1}, \1)"),
        (r"np\.linalg\.svd\(\{0\}, compute_uv=False\)", r"svdvals({0})"),
        (r"np\.linalg\.svd\(\{0\}, full_matrices=False\)", r"svd({0})"),
        (r"np\.linalg\.pinv\(\{0\}\)", r"pinv({0})"),
        (r"np\.linalg\.cholesky\(\{0\}\)", r"cholesky({0})"),
    ],
    names={f"np.{name}": f"torch.{name}" for name in _SAME.split()} | {"linalg.expm": "torch.matrix_exp"},
    slices_backward=False,
    helpers={
        **_HELPERS,
        "put": '''
def put(shape, index, value, dtype, device=None, base=0):
    """Zeros, or a base, with a value added at some places."""
    sizes = shape if isinstance(shape, tuple) else (shape,)
    left = sum(isinstance(i, slice) for i in index)
    places = []
    for n, i in zip(sizes, index):
        if isinstance(i, slice):
            left -= 1
            i = torch.arange(n, device=device)[i].reshape(-1, *[1] * left)
        places.append(torch.as_tensor(i, device=device))
    places = torch.broadcast_tensors(*places)
    value = torch.broadcast_to(torch.as_tensor(value, dtype=dtype, device=device), places[0].shape)
    whole = torch.zeros(sizes, dtype=dtype, device=device) + base
    return whole.index_put(places, value, accumulate=True)
''',
        "solve_triangular": '''
def solve_triangular(A, b, lower):
    """The solution of a triangular system for a vector or a matrix."""
    if b.ndim == 1:
        return torch.linalg.solve_triangular(A, b[:, None], upper=not lower)[:, 0]
    return torch.linalg.solve_triangular(A, b, upper=not lower)
''',
        **_GUARDED,
        "cholesky": '''
def cholesky(A):
    """The lower Cholesky factor, NaN if A is not positive definite."""
    factor, failed = torch.linalg.cholesky_ex(A)
    return torch.where((failed == 0)[..., None, None], factor, torch.nan)
''',
        "inner": '''
def inner(x, y):
    """The sum of the products of entries."""
    return torch.sum(x * y)
''',
        "shape": '''
def shape(sizes):
    """A shape as a tuple."""
    return sizes if isinstance(sizes, tuple) else (sizes,)
''',
        "filled": '''
def filled(sizes, value, dtype, device=None):
    """A tensor with one value everywhere."""
    sizes = sizes if isinstance(sizes, tuple) else (sizes,)
    return torch.broadcast_to(torch.as_tensor(value, dtype=dtype, device=device), sizes).clone()
''',
        "maximum": '''
def maximum(x, y):
    """The larger one, entry by entry; one of them may be a number."""
    like = x if isinstance(x, torch.Tensor) else y
    x, y = (torch.as_tensor(z, dtype=like.dtype, device=like.device) for z in (x, y))
    return torch.maximum(x, y)
''',
        "softplus": '''
def softplus(x):
    """log(1 + exp(x)), without overflow."""
    return torch.logaddexp(x, torch.zeros_like(x))
''',
        "logsumexp": '''
def logsumexp(x, axis=-1):
    """log(sum(exp(x))) along an axis, without overflow."""
    return torch.logsumexp(x, axis)
''',
    },
)
