"""PyTorch: programs work under autograd, torch.func, torch.compile and on any device."""

from eindiff.program.backends import words
from eindiff.program.backends.backend import Backend, Spelling, slots
from eindiff.program.backends.helpers import helpers_of
from eindiff.program.operations import Operation, is_large_table

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



def _made(x: Operation, s: Spelling) -> str:
    """A large table is not copied at each call."""
    return "as_tensor" if is_large_table(x) and not s.reading else "tensor"


BACKEND = Backend(
    "torch",
    "torch.",
    imports={"torch.": "import torch"},
    words={
        **words.words_of("torch."),
        "constant": lambda x, s: f"torch.tensor({words.numbers(x, s)}{s.created})",
        "table": lambda x, s: f"torch.{_made(x, s)}({words.places(x, s)}{s.integers}){words.reshaped(x)}",
        "triangle": lambda x, s: "torch.ones(({0}, {0}){1}).tril()".format(s.size(x.parameters[0]), s.created),
        "permute": lambda x, s: f"{{0}}.permute({', '.join(map(str, x.parameters))})",
        "flip": lambda x, s: f"torch.flip({{0}}, ({x.parameters[0]},))",
        "broadcast": lambda x, s: f"torch.broadcast_to({{0}}, shape({s.shape(x.shape)}))",
        "array": lambda x, s: f"torch.tensor({{0}}{s.created})",
        "full": lambda x, s: f"filled({s.shape(x.shape)}, {{0}}{s.created})",
        "repeat": lambda x, s: f"torch.broadcast_to({{0}}, shape({s.shape(x.shape)})).clone()",
        "contiguous": "({0})",
        "positive": "({0} > 0.0)",
        "mask": lambda x, s: f"{{0}}.to({s.dtype})",
        "integers": "{0}.long()",
        "concatenate": lambda x, s: f"torch.cat([{slots(x)}]{words.along(x.parameters[0] or None, 'dim')})",
        "inner": "inner({0}, {1})",
        "einsum": lambda x, s: words.inner_or_einsum(x, s, f'torch.einsum("{x.parameters[0]}", {slots(x)})'),
        "solve": lambda x, s: words.solve(x, "torch.linalg.solve({0}, {1})"),
    },
    functions={
        **words.HELPED,
        "sqrt": "torch.sqrt({0})",
        "equal": "({0} == {1}).to(DTYPE)",
        "where_greater": "torch.where({0} > {1}, {2}, {3})",
        "where_at_least": "torch.where({0} >= {1}, {2}, {3})",
        "chosen": "torch.ops.aten.threshold_backward({0}, {1}, 0.0)",  # where the second is positive, else 0
        "max": words.reduction("torch.amax", "dim"),
        "prod": words.reduction("torch.prod", "dim"),
        "svd": "svd({0})",
        "softmax": words.reduction("torch.softmax", "dim"),
    },
    placed=", device={like}.device",
    copied="{0}.clone()",
    slices_backward=False,
    conditions=True,
    fast_power=3,
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
