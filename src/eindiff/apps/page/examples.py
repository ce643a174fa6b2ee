"""Examples to start from, and the reference of the language."""

from __future__ import annotations

from eindiff.apps.page.models import Example, ExampleGroup, FunctionData
from eindiff.text.reference import reference


def _group(title: str, *rows: tuple) -> ExampleGroup:
    """Rows are title, expression, declarations, variables, order."""
    examples = [
        Example(title=name, expression=text, declarations=declarations, wrt=wrt.split(), order=order)
        for name, text, declarations, wrt, order in rows
    ]
    return ExampleGroup(title=title, examples=examples)


GROUPS = [
    _group(
        "First steps",
        ("Quadratic form", "x'*A*x", "", "x", 1),
        ("Least squares", "norm2(A*x - b)^2", "A(m,n); x(n); b(m)", "x", 1),
        ("Log-determinant", "log(det(X))", "", "X", 1),
        ("Trace of a product", "tr(A*X'*B*X*C)", "", "X", 1),
        ("Entry by entry", "sum(exp(x).*sin(y))", "", "x", 1),
    ),
    _group(
        "From the paper: Hessians",
        ("Logistic regression", "sum(log(exp(-y.*(X*w)) + vector(1)))", "X(m,n); w(n); y(m)", "w", 2),
        ("Matrix factorization", "norm2(T - U*V')^2", "T(m,n); U(m,k); V(n,k)", "U", 2),
        ("Factorization by both factors", "norm2(T - U*V')^2", "T(m,n); U(m,k); V(n,k)", "U V", 2),
        (
            "A net with two layers",
            "logsumexp(W*relu(V*x)) - y'*(W*relu(V*x))",
            "W(k,h); V(h,n); x(n); y(k)",
            "V",
            2,
        ),
        (
            "A net with three layers",
            "Z = relu(relu(relu(X*A)*B)*C); sum(logsumexp(Z, 1)) - tr(Y'*Z)",
            "X(m,n); A(n,n); B(n,n); C(n,n); Y(m,n)",
            "A",
            2,
        ),
    ),
    _group(
        "Machine learning",
        ("Ridge regression", "norm2(X*w - y)^2 + c*norm2(w)^2", "X(m,n); w(n); y(m); c", "w", 2),
        ("Support vector machine", "sum(relu(vector(1) - y.*(X*w))) + c*norm2(w)^2", "X(m,n); w(n); y(m)", "w", 1),
        ("Softmax regression", "sum(logsumexp(X*W, 1)) - tr(Y'*X*W)", "X(m,n); W(n,k); Y(m,k)", "W", 1),
        ("Poisson regression", "sum(exp(X*w)) - y'*(X*w)", "X(m,n); w(n); y(m)", "w", 2),
        ("Masked factorization", "norm2(M.*(T - U*V'))^2", "M(m,n); T(m,n); U(m,k); V(n,k)", "U", 2),
        ("Autoencoder", "norm2(X - tanh(X*V)*V')^2", "X(m,n); V(n,k)", "V", 1),
        ("Attention score", "sum(softmax(Q*K'/sqrt(d), 1)*V)", "Q(m,k); K(n,k); V(n,p); d", "V", 1),
    ),
    _group(
        "Statistics",
        (
            "Normal log-likelihood",
            "0.5*logdet(S) + 0.5*(x - t)'*inv(S)*(x - t)",
            "S(n,n) psd; x(n); t(n)",
            "S",
            1,
        ),
        ("Mahalanobis distance", "sqrt((x - y)'*inv(S)*(x - y))", "S(n,n) psd; x(n); y(n)", "x", 1),
        ("Portfolio", "x'*S*x - c*r'*x", "S(n,n) symmetric; x(n); r(n); c", "x", 2),
        ("Mixed effects", "norm2(y - X*b - Z*u)^2 + c*norm2(u)^2", "X(m,n); Z(m,k); b(n); u(k); y(m); c", "b u", 2),
        ("Gaussian process", "y'*inv(K + c*eye)*y + logdet(K + c*eye)", "K(n,n) psd; y(n); c", "c", 1),
    ),
    _group(
        "The Matrix Cookbook",
        ("Inverse", "a'*inv(X)*b", "a(n); X(n,n); b(n)", "X", 1),
        ("Determinant", "det(A*X*B)", "A(n,n); X(n,n); B(n,n)", "X", 1),
        ("Frobenius norm", "norm2(A*X*B - C)^2", "A(m,k); X(k,p); B(p,n); C(m,n)", "X", 2),
        ("Matrix power", "tr(X^3)", "X(n,n)", "X", 1),
        ("Quadratic, second order", "tr(X'*B*X*C)", "X(m,n); B(m,m); C(n,n)", "X", 2),
        ("Pseudo-determinant ratio", "det(X'*X)/tr(X)", "X(n,n)", "X", 1),
        ("Matrix exponential", "tr(expm(A*X))", "A(n,n); X(n,n)", "X", 1),
    ),
    _group(
        "Tensors",
        ("Trilinear form", 'einsum("ijk,i,j,k->", T, x, y, z)', "T(m,n,k); x(m); y(n); z(k)", "x", 1),
        (
            "Tensor factorization",
            'norm2(T - einsum("ir,jr,kr->ijk", A, B, C))^2',
            "T(m,n,k); A(m,p); B(n,p); C(k,p)",
            "A",
            2,
        ),
        ("Third derivative", "sum(log(exp(X*w) + vector(1)))", "X(m,n); w(n)", "w", 3),
        ("Kronecker product", "sum(exp(kron(x, y)))", "x(m); y(n)", "x", 1),
    ),
]


def functions() -> list[FunctionData]:
    """The reference of the language."""
    return [
        FunctionData(
            name=entry.name, usage=entry.usage, group=entry.group, meaning=entry.meaning, example=entry.example,
            aliases=list(entry.aliases), is_function=entry.is_function, is_shown=entry.is_shown,
        )
        for entry in reference().values()
    ]  # fmt: skip
