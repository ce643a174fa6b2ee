"""Helper functions of NumPy programs that factorize matrices, with LAPACK as SciPy has it.

Factors are a matrix, the pivots of its rows (none: they are Cholesky's), and whether the transpose was factorized,
which lies in memory as LAPACK wants it.
"""

FACTOR_HELPERS = {
    "triangular_product": '''
def triangular_product(A, B, lower):
    """A @ B for a triangular A; what is right of few entries is multiplied in less time by all of it."""
    if A.shape[0] != A.shape[1] or B.size < (256 if B.ndim == 1 else 4096):
        return A @ B
    if B.ndim == 1:
        trmv, turned = linalg.blas.strmv if A.dtype == np.float32 else linalg.blas.dtrmv, A.flags.c_contiguous
        return trmv(A.T if turned else A, B, lower=lower != turned, trans=turned)
    trmm = linalg.blas.strmm if A.dtype == np.float32 else linalg.blas.dtrmm
    if A.flags.c_contiguous:
        return trmm(1.0, A.T, B.T, side=1, lower=not lower).T
    return trmm(1.0, A, B.T, side=1, lower=lower, trans_a=1).T
''',
    "solve_triangular": '''
def solve_triangular(A, b, lower):
    """The solution of a system of equations with a triangular matrix, whose other half is not read."""
    trtrs = linalg.lapack.strtrs if A.dtype == np.float32 else linalg.lapack.dtrtrs
    if not b.size:
        return np.array(b)
    if A.flags.c_contiguous and b.ndim == 2 and b.shape[1] >= len(b) and b.flags.c_contiguous and A.diagonal().all():
        trsm = linalg.blas.strsm if A.dtype == np.float32 else linalg.blas.dtrsm  # less time for each of many columns
        return trsm(1.0, A.T, b.T, side=1, lower=not lower).T
    if A.flags.c_contiguous:
        x, failed = trtrs(A.T, b, lower=not lower, trans=1)
    else:
        x, failed = trtrs(A, b, lower=lower)
    if failed:
        raise np.linalg.LinAlgError("Singular matrix")
    return x
''',
    "triangular_inverse": '''
def triangular_inverse(A, lower):
    """The inverse of a triangular matrix."""
    trtri = linalg.lapack.strtri if A.dtype == np.float32 else linalg.lapack.dtrtri
    inverse, failed = trtri(A.T, lower=not lower)
    if failed:
        raise np.linalg.LinAlgError("Singular matrix")
    return inverse.T
''',
    "conditioned": '''
def conditioned(A, most, multiply, solve):
    """A matrix, refused if its condition is so large that digits would be lost that a sum with it has."""
    x = np.cos(np.arange(len(A), dtype=A.dtype) ** 2)
    with np.errstate(all="ignore"):
        try:
            y = solve(A.T, solve(A, x, 0), 1)
            z = solve(A.T, solve(A, y, 0), 1)
        except np.linalg.LinAlgError:
            y, z = x, np.inf
        sizes = [np.linalg.norm(v) for v in (x, multiply(A.T, multiply(A, x)), y, z)]
        if x.size and not sizes[1] * sizes[3] <= most**2 * sizes[0] * sizes[2]:
            raise ArithmeticError("the condition of a matrix is large: digits would be lost here")
    return A
''',
    "permutation_product": '''
def permutation_product(P, B):
    """P @ B for a permutation: the rows of B in another order. What is in which place is seen in one pass over P,
    also along columns, where argmax takes ten times as long."""
    return B[P.dot(np.arange(len(P), dtype=P.dtype)).astype(int)]
''',
    "tridiagonal_product": '''
def tridiagonal_product(A, B):
    """A @ B for a tridiagonal A, as the sum of three products of entries, unless these take more time than all."""
    if len(A) * B.size < (2**16 if B.ndim == 1 else 2**18):
        return A @ B
    result = (A.diagonal() * B.T).T
    result[1:] += (A.diagonal(-1) * B[:-1].T).T
    result[:-1] += (A.diagonal(1) * B[1:].T).T
    return result
''',
    "tridiagonal_solve": '''
def tridiagonal_solve(A, b):
    """The solution of a system of equations with a tridiagonal matrix."""
    return solved_by_diagonals(A.diagonal(-1), A.diagonal(), A.diagonal(1), b)
''',
    "solved_by_diagonals": '''
def solved_by_diagonals(below, diagonal, above, b):
    """The solution of a system of equations with a tridiagonal matrix, of which the diagonals are given."""
    if not b.size:  # LAPACK writes to a first column in any case
        return np.array(b)
    gtsv = linalg.lapack.sgtsv if diagonal.dtype == np.float32 else linalg.lapack.dgtsv
    *_, x, failed = gtsv(below, diagonal, above, b)
    if failed:
        raise np.linalg.LinAlgError("Singular matrix")
    return x
''',
    "band_of": '''
def band_of(A):
    """The diagonals below and above its own that a matrix has entries on."""
    entries, last = A != 0, len(A) - 1
    rows = np.flatnonzero(entries.any(1))
    below, above = rows - entries.argmax(1)[rows], last - entries[:, ::-1].argmax(1)[rows] - rows
    return int(below.max(initial=0)), int(above.max(initial=0))
''',
    "banded_product": '''
def banded_product(A, B):
    """A @ B for a matrix with entries near its diagonal, as a sum over diagonals if these are few."""
    (below, above), n = band_of(A), len(A)
    if 16 * (below + above + 1) > n:
        return A @ B
    result = A.diagonal()[:, None] * B
    for k in range(1, above + 1):
        result[:-k] += A.diagonal(k)[:, None] * B[k:]
    for k in range(1, below + 1):
        result[k:] += A.diagonal(-k)[:, None] * B[:-k]
    return result
''',
    "banded_solve": '''
def banded_solve(A, b):
    """The solution of a system of equations with a matrix whose entries are near its diagonal."""
    below, above = band_of(A)
    if 4 * (below + above + 1) > len(A):
        return np.linalg.solve(A, b)
    diagonals = in_rows(A, below, above)
    return linalg.solve_banded((below, above), diagonals, b, check_finite=False)
''',
    "in_rows": '''
def in_rows(A, below, above):
    """The diagonals of a matrix from one above its own to one below it, one to a row, as LAPACK wants them."""
    n = len(A)
    diagonals = np.zeros((below + above + 1, n), A.dtype)
    for k in range(-below, above + 1):
        diagonals[above - k, max(k, 0) : n + min(k, 0)] = A.diagonal(k)
    return diagonals
''',
    "band_pivots": '''
def band_pivots(A, width=None):
    """The pivots of a matrix whose entries are near its diagonal, the product of which is its determinant: those of
    rows that change places have the other sign."""
    below, above = (min(width, len(A) - 1),) * 2 if width and len(A) else band_of(A)
    gbtrf = linalg.lapack.sgbtrf if A.dtype == np.float32 else linalg.lapack.dgbtrf
    factors, places, _ = gbtrf(in_rows(A, below, above + below), below, above)
    pivots = factors[above + below]
    return np.where(places == np.arange(len(A)), pivots, -pivots)
''',
    "pivots_by_diagonals": '''
def pivots_by_diagonals(below, diagonal, above):
    """The same of a tridiagonal matrix of which the diagonals are given."""
    if len(diagonal) < 2:
        return np.array(diagonal)
    gttrf = linalg.lapack.sgttrf if diagonal.dtype == np.float32 else linalg.lapack.dgttrf
    _, pivots, _, _, places, _ = gttrf(below, diagonal, above)
    return np.where(places == np.arange(1, len(diagonal) + 1), pivots, -pivots)
''',
    "factorize": '''
def factorize(A, symmetric=False):
    """Cholesky's factors of a symmetric matrix that is positive definite, or else those of Gauss."""
    kind, turned = "s" if A.dtype == np.float32 else "d", bool(A.flags.c_contiguous)
    if symmetric and (len(A) < 64 or (A.diagonal() > 0).all()):  # else it fails for certain
        matrix, failed = getattr(linalg.lapack, kind + "potrf")(A.T if turned else A, lower=1, clean=len(A) < 64)
        if not failed:
            return matrix, None, False
    return *getattr(linalg.lapack, kind + "getrf")(A.T if turned else A)[:2], turned
''',
    "solve_factored": '''
def solve_factored(factors, b, transposed=False):
    """The solution of a system of equations, by the factors of its matrix."""
    matrix, pivots, turned = factors
    kind = "s" if matrix.dtype == np.float32 else "d"
    if not b.size:
        return np.array(b)
    if pivots is None and b.ndim == 2 and b.shape[1] >= len(b):
        trsm = getattr(linalg.blas, kind + "trsm")  # from the right it takes less time for each of many columns
        return trsm(1.0, matrix, trsm(1.0, matrix, np.ascontiguousarray(b).T, 1, 1, 1), 1, 1, overwrite_b=1).T
    if pivots is None:
        return getattr(linalg.lapack, kind + "potrs")(matrix, b, lower=1)[0]
    if not matrix.diagonal().all():
        raise np.linalg.LinAlgError("Singular matrix")
    return getattr(linalg.lapack, kind + "getrs")(matrix, pivots, b, trans=int(turned != transposed))[0]
''',
    "solve_many": '''
def solve_many(A, b):
    """The solution for many right sides: by the inverse of a matrix that is far from singular, in less time."""
    factors = factorize(A)
    gecon = linalg.lapack.sgecon if A.dtype == np.float32 else linalg.lapack.dgecon
    condition = 1 / max(gecon(factors[0], np.abs(A).sum(int(factors[2])).max())[0], np.finfo(A.dtype).tiny)
    return inv_factored(factors) @ b if condition < np.finfo(A.dtype).eps ** -0.25 else solve_factored(factors, b)
''',
    "conjugate_inverse": '''
def conjugate_inverse(factors, X):
    """X.T @ inv(A) @ X by the factors of a symmetric matrix: by Cholesky's it takes half the work."""
    matrix, pivots, turned = factors
    kind = "s" if matrix.dtype == np.float32 else "d"
    if pivots is None and X.size:
        Z = getattr(linalg.lapack, kind + "trtrs")(matrix, X, lower=1)[0]
        return Z.T @ Z
    if not matrix.diagonal().all():
        raise np.linalg.LinAlgError("Singular matrix")
    return X.T @ getattr(linalg.lapack, kind + "getrs")(matrix, pivots, X, trans=int(turned))[0]
''',
    "conjugate_diagonal": '''
def conjugate_diagonal(factors, X):
    """The diagonal of X.T @ inv(A) @ X by the factors of a symmetric matrix: by Cholesky's sums of squares."""
    matrix, pivots, turned = factors
    kind = "s" if matrix.dtype == np.float32 else "d"
    if pivots is None and X.size:
        Z = getattr(linalg.blas, kind + "trsm")(1.0, matrix, X.T, 1, 1, 1).T
        return np.einsum("ij,ij->j", Z, Z)
    if not matrix.diagonal().all():
        raise np.linalg.LinAlgError("Singular matrix")
    return np.einsum("ij,ij->j", X, getattr(linalg.lapack, kind + "getrs")(matrix, pivots, X, trans=int(turned))[0])
''',
    "inv_factored": '''
def inv_factored(factors):
    """The inverse of a matrix, by its factors."""
    matrix, pivots, turned = factors
    kind = "s" if matrix.dtype == np.float32 else "d"
    if pivots is None and len(matrix) < 64:  # above its diagonal it is zero
        root = getattr(linalg.lapack, kind + "trtri")(matrix, lower=1)[0]
        return root.T.dot(root)
    if pivots is None:
        inverse = getattr(linalg.lapack, kind + "potri")(matrix, lower=1)[0].T  # its upper half
        below = np.tri(min(len(inverse), 128), k=-1, dtype=bool)
        for start in range(0, len(inverse), 128):
            stop = start + 128
            inverse[stop:, start:stop] = inverse[start:stop, stop:].T
            block = inverse[start:stop, start:stop]
            np.copyto(block, block.T, where=below[: len(block), : len(block)])
        return inverse
    if not matrix.diagonal().all():
        raise np.linalg.LinAlgError("Singular matrix")
    inverse = getattr(linalg.lapack, kind + "getri")(matrix, pivots, lwork=64 * len(matrix))[0]
    return inverse.T if turned else inverse
''',
    "inverse_diagonal_factored": '''
def inverse_diagonal_factored(factors):
    """The diagonal of an inverse, by the factors of its matrix: by Cholesky's sums of squares."""
    matrix, pivots, _ = factors
    kind = "s" if matrix.dtype == np.float32 else "d"
    if pivots is None:
        root = np.tril(getattr(linalg.lapack, kind + "trtri")(matrix, lower=1)[0])
        return np.einsum("ij,ij->j", root, root)
    if not matrix.diagonal().all():
        raise np.linalg.LinAlgError("Singular matrix")
    return getattr(linalg.lapack, kind + "getri")(matrix, pivots, lwork=64 * len(matrix))[0].diagonal()
''',
    "det_factored": '''
def det_factored(factors):
    """A determinant, by the factors of its matrix."""
    matrix, pivots, _ = factors
    swaps = 0 if pivots is None else np.count_nonzero(pivots != np.arange(len(pivots)))
    return matrix.diagonal().prod() ** (2 if pivots is None else 1) * (-1.0) ** swaps
''',
    "logabsdet_factored": '''
def logabsdet_factored(factors):
    """The logarithm of the absolute value of a determinant, by the factors of its matrix."""
    return (2 if factors[1] is None else 1) * np.log(np.abs(factors[0].diagonal())).sum()
''',
    "signdet_factored": '''
def signdet_factored(factors):
    """The sign of a determinant, by the factors of its matrix."""
    matrix, pivots, _ = factors
    swaps = 0 if pivots is None else np.count_nonzero(pivots != np.arange(len(pivots)))
    return np.sign(matrix.diagonal()).prod() * (-1.0) ** swaps
''',
    "logdet_factored": '''
def logdet_factored(factors):
    """The logarithm of a determinant, which has to be positive, by the factors of its matrix."""
    matrix, pivots, _ = factors
    entries = matrix.diagonal()
    if pivots is None:
        return 2 * np.log(entries).sum()
    odd = (np.count_nonzero(pivots != np.arange(len(pivots))) + np.count_nonzero(entries < 0)) % 2
    return np.nan if odd or not entries.all() else np.log(np.abs(entries)).sum()
''',
}
