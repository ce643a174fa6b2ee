"""What names are read as: expressions as people type them, with the kinds that a person means.

A line is a text and, behind the bar, its names by their kinds: scalars, vectors, matrices. `!` begins what the message
says where the text is refused.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import eindiff as ed
from eindiff.text.read.source import ParseError

OWN = r"""
norm2(X*w-y)^2 + lambda*norm1(w) | s: lambda; v: w y; m: X
norm2(X*w-y)^2 + λ*norm1(w) | s: λ; v: w y; m: X
norm2(A*x-b)^2 | v: x b; m: A
1/n*norm2(X*w-y)^2 + reg*norm2(w)^2 | s: reg; v: w y; m: X
C*sum(max(0, 1 - y.*(X*w))) + 0.5*norm2(w)^2 | s: C; v: y w; m: X
sum(x)/N | v: x
sum(log(1 + exp(-y.*(X*w))))/m | v: y w; m: X
relu(W*x+b) | v: x b; m: W
W2*relu(W1*x + b1) + b2 | v: x b1 b2; m: W1 W2
softmax(W*x + b) | v: x b; m: W
x'*Q*x + c'*x | v: x c; m: Q
0.5*x'*Q*x - b'*x | v: x b; m: Q
X*beta | v: beta; m: X
X*β | v: β; m: X
norm2(y - X*beta)^2 | v: y beta; m: X
norm2(y - X*theta)^2/(2*n) | v: y theta; m: X
(x-μ)'*inv(Σ)*(x-μ) | v: x μ; m: Σ
(x-mu)'*inv(Sigma)*(x-mu) | v: x mu; m: Sigma
-0.5*logdet(Sigma) - 0.5*(x-mu)'*inv(Sigma)*(x-mu) | v: x mu; m: Sigma
x'*(A + lambda*I)*x | s: lambda; v: x; m: A; i: I
inv(X'*X + lambda*I)*X'*y | s: lambda; v: y; m: X; i: I
J'*J + mu*I | s: mu; m: J; i: I
A - rho*I + B | s: rho; m: A B; i: I
w - lr*g | s: lr; v: w g
x - t*g | s: t; v: x g
x - alpha*g | s: alpha; v: x g
x - step*grad | s: step; v: x grad
theta - eta*grad | s: eta; v: theta grad
beta1*m + (1-beta1)*g | s: beta1; v: m g
beta2*v + (1-beta2)*g.^2 | s: beta2; v: v g
w - lr*m./(sqrt(v) + eps) | s: lr eps; v: w m v
w - lr*m/(sqrt(v) + eps) | s: lr eps; v: w m v
(x - mu)/sigma | s: sigma; v: x mu
(x - mean(x))/norm2(x) | v: x
exp(-norm2(x-y)^2/(2*sigma^2)) | s: sigma; v: x y
exp(-gamma*norm2(x-z)^2) | s: gamma; v: x z
tanh(gamma*x'*y + c) | s: gamma c; v: x y
log(1+exp(-y*(w'*x))) | s: y; v: w x
sigmoid(w'*x + b) | s: b; v: w x
-y*log(p) - (1-y)*log(1-p) | s: y p
-y'*log(p) - (1-y)'*log(1-p) | v: y p
-sum(y.*log(p)) | v: y p
sum(p.*log(p./q)) | v: p q
logsumexp(z) - y'*z | v: z y
tr(X'*A*X) | m: X A
norm2(Y - U*V')^2 + mu*(norm2(U)^2 + norm2(V)^2) | s: mu; m: Y U V
norm2(X - W*H)^2 | m: X W H
norm2(X*W - Y)^2 + lambda*norm2(W)^2 | s: lambda; m: X W Y
tr(S*Theta) - logdet(Theta) + rho*norm1(Theta) | s: rho; m: S Theta
norm1(x) + rho/2*norm2(x - z + u)^2 | s: rho; v: x z u
y'*(A*x-b) + rho/2*norm2(A*x-b)^2 | s: rho; v: y x b; m: A
t*c'*x - sum(log(b - A*x)) | s: t; v: c x b; m: A
Q*x + c + A'*lambda | v: x c lambda; m: Q A
Q*x + c + A'*nu | v: x c nu; m: Q A
x'*Q*x + u'*R*u | v: x u; m: Q R
A*x + B*u | v: x u; m: A B
x + dt*(A*x + B*u) | s: dt; v: x u; m: A B
A*x + B*u + w | v: x u w; m: A B
0.5*m*v^2 | s: m v
m/2*norm2(v)^2 | s: m; v: v
m*c^2 | s: m c
G*m1*m2/r^2 | s: G m1 m2 r
k*x^2/2 | s: k x
x0*exp(-k*t) | s: x0 k t
N*exp(-lambda*t) | s: N lambda t
pi*r^2*h | s: r h
v0*t + g*t^2/2 | s: v0 t g
sqrt(x^2 + y^2) | s: x y
x^2 + 3*x + 1 | s: x
a*x^2 + b*x + c | s: a x b c
k*x | s: k; v: x
a*x + b*y | s: a b; v: x y
x + c | v: x c
A*b | v: b; m: A
A*(b-c) | v: b c; m: A
A*exp(x) | v: x; m: A
exp(x) | v: x
a^b | s: a b
sum(x.^p) | s: p; v: x
sum(x.^2.*y) | v: x y
sum((X*w-y)^2) | v: w y; m: X
norm2(X*w - t)^2 | v: w t; m: X
y - (w'*x + b) | s: y b; v: w x
-n/2*log(2*pi*sigma^2) - norm2(y-mu)^2/(2*sigma^2) | s: sigma; v: y mu
x'*A*x/(x'*x) | v: x; m: A
alpha*x'*A*y + beta*y'*y | s: alpha beta; v: x y; m: A
norm2(y - K*alpha)^2 + lambda*alpha'*K*alpha | s: lambda; v: y alpha; m: K
c*w'*Sigma*w - mu'*w | s: c; v: w mu; m: Sigma
w'*Sigma*w - gamma*mu'*w | s: gamma; v: w mu; m: Sigma
sum(beta.*x) | v: beta x
A*sum(x) | v: x; m: A
inner(X, Y) + tau*normnuc(X) | s: tau; m: X Y
x'*y/(norm2(x)*norm2(y)) | v: x y
sum(exp(x))/n | v: x
log(sum(exp(x)))*tol | s: tol; v: x
lam*norm1(D*x) + norm2(x-y)^2/2 | s: lam; v: x y; m: D
norm2(A*x-y)^2 + kappa*norm2(L*x)^2 | s: kappa; v: x y; m: A L
x_k + alpha*p_k | s: alpha; v: x_k p_k
A*x_k + B*u_k | v: x_k u_k; m: A B
lambda_1*norm1(w) + lambda_2*norm2(w)^2 | s: lambda_1 lambda_2; v: w
t = X*w - y; t'*t + nu*norm1(w) | s: nu; v: w y; m: X
2x + 3y | v: x y
x^T*A*x | v: x; m: A
x.T @ A @ x | v: x; m: A
x⊤*A*x + b⊤*x | v: x b; m: A
‖A*x − b‖² + λ‖x‖₁ | s: λ; v: x b; m: A
||y - X*w||_2^2 + alpha*||w||_1 | s: alpha; v: y w; m: X
|x - y| | v: x y
log|S| + tr(inv(S)*C) | m: S C
f(x) = x'*A*x + b'*x + c | s: c; v: x b; m: A
L(w) = sum(log(1 + exp(-y.*(X*w)))) | v: y w; m: X
argmin_w ||X*w - y||^2 | v: w y; m: X
x*y | ! write x'*y (inner), x*y' (outer) or x.*y (by entry); or declare x and y as scalars
X*W + b | ! what is b, added to a matrix? declare b a scalar or a matrix
lambda*I | s: lambda; i: I
"""

# From documentation, books and questions: scikit-learn's user guide and API (linear models, SVM, Gaussian processes,
# NMF), jaxopt's objectives, CVXPY's examples, Adam in the documentation of TensorFlow Federated and MXNet, PyTorch's
# losses, MOSEK's case studies, math.stackexchange on least squares and traces, the Matrix Cookbook, Boyd and
# Vandenberghe, Bishop, Hastie et al., Nocedal and Wright, Wikipedia on filters, Rosenbrock's function and kinetics.
PUBLIC = r"""
1 / (2 * n_samples) * ||y - Xw||^2_2 + alpha * ||w||_1 | s: alpha; v: y w; m: X
1/(2*n)*||y - Xw||^2_2 + alpha*l1_ratio*||w||_1 + 0.5*alpha*(1 - l1_ratio)*||w||^2_2 | s: alpha l1_ratio; v: y w; m: X
||y - Xw||^2_2 + alpha * ||w||^2_2 | s: alpha; v: y w; m: X
min ||Ax - b||^2 + lambda ||x||_1 | s: lambda; v: x b; m: A
0.5 * ||X - WH||_F^2 + alpha * norm1(W) | s: alpha; m: X W H
np.sum((X @ w - y)**2) / n | v: w y; m: X
np.linalg.norm(np.dot(X, w) - y, 2)**2/(2.0*m) + gamma * np.linalg.norm(w, 1) | s: m gamma; v: w y; m: X
np.linalg.norm(A @ x - b)**2 + lam * np.linalg.norm(x, 1) | s: lam; v: x b; m: A
beta_1 * acc + (1 - beta_1) * g | s: beta_1; v: acc g
beta_2 * s + (1 - beta_2) * g**2 | s: beta_2; v: s g
lr * sqrt(1 - beta_2**t) / (1 - beta_1**t) | s: lr beta_2 beta_1 t
beta1*m + (1-beta1)*grad | s: beta1; v: m grad
beta2*v + (1-beta2)*(grad**2) | s: beta2; v: v grad
w - learning_rate * m / (sqrt(v) + epsilon) | s: learning_rate epsilon; v: w m v
torch.mean((y_pred - y)**2) | v: y_pred y
-np.mean(y*np.log(p) + (1-y)*np.log(1-p)) | v: y p
np.log(1 + np.exp(-y * (X @ w))).mean() | v: y w; m: X
np.maximum(0, 1 - y * (X @ w)).mean() + 0.5 * lam * w @ w | s: lam; v: y w; m: X
jnp.dot(w, x) + b | s: b; v: w x
x.T @ np.linalg.inv(S) @ x | v: x; m: S
np.trace(A.T @ B) | m: A B
X.T @ (X @ w - y) / n | v: w y; m: X
0.5*x'*P*x + q'*x | v: x q; m: P
c'*x + nu'*(A*x - b) | v: c x nu b; m: A
log(det(X)) | m: X
-logdet(X) + tr(C*X) | m: X C
a'*X*b | v: a b; m: X
a'*X'*X*b | v: a b; m: X
(A*x+b)'*C*(D*x+e) | v: x b e; m: A C D
(x-s)'*W*(x-s) | v: x s; m: W
(x - A*s)'*W*(x - A*s) | v: x s; m: A W
tr(A*X*B) | m: A X B
tr(A*X*B*X'*C) | m: A X B C
tr(inv(X)*A) | m: X A
norm2(A*x - b)^2 + delta*norm2(x)^2 | s: delta; v: x b; m: A
sum(log(1 + exp(-b.*(A*x)))) | v: b x; m: A
w'*S_B*w/(w'*S_W*w) | v: w; m: S_B S_W
y'*inv(K + sigma^2*I)*y + logdet(K + sigma^2*I) | s: sigma; v: y; m: K; i: I
k'*inv(K + sigma^2*I)*y | s: sigma; v: k y; m: K; i: I
alpha'*K*alpha - 2*y'*alpha | v: alpha y; m: K
sum(a) - 0.5*(a.*y)'*K*(a.*y) | v: a y; m: K
F*P*F' + Q | m: F P Q
P*H'*inv(H*P*H' + R) | m: P H R
x + K*(z - H*x) | v: x z; m: K H
A'*P*A - P + Q | m: A P Q
(1-x)^2 + 100*(y-x^2)^2 | s: x y
a*(y - x^2)^2 + (1-x)^2 | s: a y x
x'*A*x - lambda*(x'*x - 1) | s: lambda; v: x; m: A
w'*x + b - y | s: b y; v: w x
r'*w - gamma/2*w'*Sigma*w | s: gamma; v: r w; m: Sigma
norm2(D*x)^2 + beta*norm2(x - y)^2 | s: beta; v: x y; m: D
Vmax*S/(Km + S) | s: Vmax S Km
c'*x - mu*sum(log(x)) | s: mu; v: c x
x - inv(H)*g | v: x g; m: H
x + alpha*p | s: alpha; v: x p
f(x) = 1/2*x^T*A*x - b^T*x | v: x b; m: A
(y - X*beta)'*(y - X*beta) | v: y beta; m: X
(b - A*x)'*(b - A*x) + lambda*x'*x | s: lambda; v: b x; m: A
"""


def rows(table: str) -> list[tuple[str, str]]:
    found = [line.rsplit(" | ", 1) for line in table.strip().split("\n")]
    return [(text, expected) for text, expected in found]


FURTHER = (Path(__file__).parent.parent / "helpers" / "readings.txt").read_text(encoding="utf-8")
FURTHER = "\n".join(line for line in FURTHER.splitlines() if not line.startswith("#"))
ROWS = rows(OWN) + rows(PUBLIC) + rows(FURTHER)


def test_there_are_enough():
    assert len(ROWS) >= 350
    assert 3 * len(rows(PUBLIC)) >= 150


def kinds(reading: ed.Reading) -> dict[str, str]:
    return {name.name: "i" if name.is_identity else "svm"[len(name.shape)] for name in reading.names}


@pytest.mark.parametrize(("text", "expected"), ROWS)
def test_names_are_what_a_person_means(text, expected):
    if expected.startswith("!"):
        with pytest.raises(ParseError) as caught:
            ed.reading(text)
        assert expected[2:] in str(caught.value)
        assert "?×?" not in str(caught.value)
        return
    wanted = {}
    for part in expected.split("; "):
        kind, names = part.split(": ")
        wanted |= dict.fromkeys(names.split(), kind)
    assert kinds(ed.reading(text)) == wanted


# What does not change a reading


def renamed(text: str, names: dict[str, str]) -> str:
    return re.sub(r"[^\W\d]\w*", lambda found: names.get(found[0], found[0]), text)


@pytest.mark.parametrize("text", [text for text, expected in ROWS if not expected.startswith("!")])
def test_declaring_what_was_read_changes_nothing(text):
    found = ed.reading(text)
    again = ed.reading(text, found.declarations)
    assert again.expression is found.expression
    assert kinds(again) == kinds(found)


@pytest.mark.parametrize("seed", range(3))
def test_declaring_some_of_what_was_read_changes_nothing(seed):
    rng = np.random.default_rng(seed)
    for text, expected in ROWS:
        if expected.startswith("!"):
            continue
        found = ed.reading(text)
        some = [part for part in found.declarations.split("; ") if rng.random() < 0.5]
        assert kinds(ed.reading(text, "; ".join(some))) == kinds(found), (text, some)


def terms_of(text: str) -> list[str]:
    """The terms of a sum with their signs."""
    found, depth = [""], 0
    for before, c in zip(" " + text, text, strict=False):
        depth += (c in "([{") - (c in ")]}")
        begins = depth == 0 and c in "+-" and before == " " and found[-1].strip()
        found = [*found, c] if begins else [*found[:-1], found[-1] + c]
    return found


def test_readings_do_not_depend_on_the_order_of_terms():
    rng = np.random.default_rng(1)
    for text, expected in ROWS:
        if expected.startswith("!") or any(mark in text for mark in "=;|‖[\\") or text.startswith(("min", "argmin")):
            continue
        terms = terms_of(text)
        for _ in range(2 if len(terms) > 1 else 0):
            rng.shuffle(terms)
            other = " ".join(term.strip() if term.strip()[0] in "+-" else "+ " + term.strip() for term in terms)
            assert kinds(ed.reading(other.removeprefix("+ "))) == kinds(ed.reading(text)), (text, other)


def test_lambda_is_one_name_in_both_spellings():
    assert len(ed.reading("lambda*x + λ*y").names) == 3
    declared = ed.parse("norm2(x) + λ*norm1(x)", "lambda; x(n)")
    assert [v.name for v in ed.variables(declared)] == ["lambda", "x"]
    for word, letter in (("lambda", "λ"), ("Sigma", "Σ"), ("mu", "μ"), ("theta_1", "θ_1"), ("beta1", "β1")):
        for text, expected in ROWS:
            if word in text and "\\" not in text and not expected.startswith("!"):
                spelled = renamed(text, {word: letter})
                assert list(kinds(ed.reading(spelled)).values()) == list(kinds(ed.reading(text)).values())


TERMS = [
    "norm2(A*x - b)^2", "lambda*norm1(x)", "c'*x", "x'*Q*x/2", "C*sum(max(0, 1 - b.*(A*x)))", "t*sum(log(x))",
    "(x - mu)'*inv(S)*(x - mu)", "rho/2*norm2(x - z)^2", "sum(exp(A*x))/n", "gamma*tr(Q)", "logdet(S + eps*I)",
    "-nu'*(A*x - b)", "k*norm2(z)",
]  # fmt: skip


@pytest.mark.parametrize("seed", range(25))
def test_readings_do_not_depend_on_the_order_of_terms_or_names_of_sizes(seed):
    rng = np.random.default_rng(seed)
    terms = [str(term) for term in rng.choice(TERMS, size=3, replace=False)]
    first = ed.reading(" + ".join(terms))
    for _ in range(3):
        rng.shuffle(terms)
        assert kinds(ed.reading(" + ".join(terms))) == kinds(first)
    declared = first.declarations
    other = renamed(declared, {"m": "rows", "p": "columns", "q": "more"})
    assert kinds(ed.reading(" + ".join(terms), other)) == kinds(first)


def test_names_of_sizes_are_numbers():
    assert ed.parse("sum(x)/n", "x(n)") is ed.parse("mean(x)", "x(n)")
    assert ed.parse("ones(n)'*x/n") is ed.parse("mean(x)", "x(n)")
    assert [name.name for name in ed.reading("norm2(X*w - y)^2/(2*m)", "X(m,n)").names] == ["X", "w", "y"]


def test_two_readings_are_offered():
    with pytest.raises(ParseError, match="declare x and y as scalars"):
        ed.parse("x*y")
    assert ed.parse("x*y", "x; y").shape == ()


def test_what_is_added_to_a_matrix_is_asked_for():
    assert ed.parse("X*W + b", "b").shape == ed.parse("X*W").shape
    assert ed.parse("X*W + ones(m)*b'").shape == ("m", "p")


def test_the_reading_says_what_each_name_is():
    found = ed.reading("norm2(X*w - y)^2 + lambda*norm1(w)")
    assert str(found) == "X m×n matrix, w vector of length n, y vector of length m, lambda scalar"
    assert found.declarations == "X(m,n); w(n); y(m); lambda"
    assert [name.how for name in ed.reading("A*x - b", "x(3)").names] == ["name", "declared", "use"]
    assert str(ed.reading("x'*(A + mu*I)*x")).endswith("mu scalar, I identity of size n")
