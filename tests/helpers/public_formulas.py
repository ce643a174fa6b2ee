# ruff: noqa: E501 (formulas and addresses stay in one piece)
r"""Formulas as they stand in public texts, with their addresses: questions, documentation, lecture notes, code.

Each has the kinds that its author says or means, in the form of `tests/text/test_kinds.py` (s: scalars, v: vectors, m:
matrices, t: of order 3, i: the identity; `!` begins what is said of one that is refused), and NumPy code for its value.
Names of sizes are not in the kinds: they are sizes, and no variables.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import logsumexp

exp, log, sqrt, inv, det, norm, tr = np.exp, np.log, np.sqrt, np.linalg.inv, np.linalg.det, np.linalg.norm, np.trace

QUESTIONS = "https://math.techqa.club/"  # of math.stackexchange.com

Row = tuple[str, str, Callable[..., Any] | None]


def sigmoid(z: Any) -> Any:
    return 1 / (1 + exp(-z))


PUBLIC: dict[str, list[Row]] = {
    QUESTIONS + "how-to-get-gradient-of-linear-equations-3557185": [
        (r"\|Ax-b\|^2", "v: x b; m: A", lambda v: norm(v.A @ v.x - v.b) ** 2),
        (r"(Ax-b)^T(Ax-b)", "v: x b; m: A", lambda v: norm(v.A @ v.x - v.b) ** 2),
        (r"f(x)=||Ax-b||^2", "v: x b; m: A", lambda v: norm(v.A @ v.x - v.b) ** 2),
        (r"2(Ax-b)^TA", "v: x b; m: A", lambda v: 2 * (v.A @ v.x - v.b) @ v.A),
        (r"||Ax-b +Ah||^2 -||Ax-b||^2", "v: x b h; m: A", lambda v: (
            norm(v.A @ v.x - v.b + v.A @ v.h) ** 2 - norm(v.A @ v.x - v.b) ** 2)),
    ],
    QUESTIONS + "derivative-of-an-euclidean-vector-norm-1651448": [
        (r"{||Ax+b||}^2", "v: x b; m: A", lambda v: norm(v.A @ v.x + v.b) ** 2),
        (r"{(Ax+b)}^T(Ax+b)", "v: x b; m: A", lambda v: norm(v.A @ v.x + v.b) ** 2),
    ],
    "https://newbetuts.com/369694-matrix-calculus-in-least-square-method": [
        (r"x^TA^TAx -2b^TAx +b^Tb", "v: x b; m: A", lambda v: norm(v.A @ v.x - v.b) ** 2),
        (r"f(x) = (1/2) \| Ax - b \|^2", "v: x b; m: A", lambda v: 0.5 * norm(v.A @ v.x - v.b) ** 2),
        (r"(x^TA^T-b^T)(Ax-b)", "v: x b; m: A", lambda v: norm(v.A @ v.x - v.b) ** 2),
        (r"\left(B^T + B\right)x", "v: x; m: B", lambda v: (v.B.T + v.B) @ v.x),
    ],
    "https://kiwix.lukehooper.xyz/content/math.stackexchange.com_en_all_2024-10/questions/4046866/partial-derivatives-of-ax-b-2": [
        (r"L(x) = \left\|{Ax - b }\right\|^2", "v: x b; m: A", lambda v: norm(v.A @ v.x - v.b) ** 2),
        (r"\begin{aligned} L(x) &= \left\|{Ax - b }\right\|^2 \end{aligned}", "v: x b; m: A",
         lambda v: norm(v.A @ v.x - v.b) ** 2),
        (r"x^TA^TAx - b^TAx - x^TA^Tb + b^Tb", "v: x b; m: A", lambda v: norm(v.A @ v.x - v.b) ** 2),
    ],
    "https://scikit-learn.org/1.2/modules/generated/sklearn.linear_model.Lasso.html": [
        ("(1 / (2 * n_samples)) * ||y - Xw||^2_2 + alpha * ||w||_1", "s: alpha; v: y w; m: X",
         lambda v: norm(v.y - v.X @ v.w) ** 2 / (2 * len(v.y)) + v.alpha * abs(v.w).sum()),
    ],
    "https://scikit-learn.sourceforge.net/dev/modules/generated/sklearn.linear_model.ElasticNet.html": [
        ("1 / (2 * n_samples) * ||y - Xw||^2_2 + + alpha * l1_ratio * ||w||_1 + 0.5 * alpha * (1 - l1_ratio) * ||w||^2_2",
         "s: alpha l1_ratio; v: y w; m: X", lambda v: (
            norm(v.y - v.X @ v.w) ** 2 / (2 * len(v.y)) + v.alpha * v.l1_ratio * abs(v.w).sum()
            + 0.5 * v.alpha * (1 - v.l1_ratio) * v.w @ v.w)),
        ("a * L1 + b * L2", "s: a b; m: L1 L2", lambda v: v.a * v.L1 + v.b * v.L2),
    ],
    "https://search.r-project.org/CRAN/refmans/gelnet/html/gelnet.lin.obj.html": [
        (r"\frac{1}{2n} \sum_i a_i (z_i - (w^T x_i + b))^2", "s: b; v: a z w; m: x",
         lambda v: np.sum(v.a * (v.z - (v.x @ v.w + v.b)) ** 2) / (2 * len(v.z))),
        (r"R(w) = \lambda_1 \sum_j d_j |w_j| + \frac{\lambda_2}{2} (w-m)^T P (w-m)",
         "s: lambda_1 lambda_2; v: d w m; m: P", lambda v: (
            v.lambda_1 * np.sum(v.d * abs(v.w)) + v.lambda_2 / 2 * (v.w - v.m) @ v.P @ (v.w - v.m))),
    ],
    "https://rdrr.io/cran/gelnet/man/gelnet.lin.obj.html": [
        ("λ_1 ∑_j d_j |w_j|", "s: λ_1; v: d w", None),
    ],
    QUESTIONS + "derive-the-derivative-of-cost-function-of-logistic-regression-4496428": [
        (r"L = -\sum_{n=1}^{N} \log \sigma\left( t_n (w^\top x_n + w_0) \right)", "s: w_0; v: t w; m: x",
         lambda v: -np.sum(log(sigmoid(v.t * (v.x @ v.w + v.w_0))))),
    ],
    "https://stats.stackexchange.com/questions/452162/finding-the-gradient-nabla-of-the-logistic-regression-cost-function": [
        (r"J(w) = -\textbf{y}\cdot ln\textbf{ s} - (\mathbf{1} - \textbf{y}) \cdot ln( \mathbf{1} - \textbf{s})",
         "v: y s", lambda v: -v.y @ log(v.s) - (1 - v.y) @ log(1 - v.s)),
    ],
    "https://www.cvxpy.org/examples/basic/least_squares.html": [
        (r"\sum_{i=1}^m (a_i^Tx - b_i)^2", "v: x b; m: a", lambda v: np.sum((v.a @ v.x - v.b) ** 2)),
        (r"\|Ax - b\|_2^2", "v: x b; m: A", lambda v: norm(v.A @ v.x - v.b) ** 2),
        ("cp.sum_squares(A @ x - b)", "v: x b; m: A", lambda v: norm(v.A @ v.x - v.b) ** 2),
    ],
    "https://github.com/imclab/cvxpy": [
        ("sum_squares(A*x - b)", "v: x b; m: A", lambda v: norm(v.A @ v.x - v.b) ** 2),
    ],
    QUESTIONS + "gradient-of-quadratic-scalar-field-x-mapsto-mbox-tr-xax-4563568": [
        (r"\mbox{tr} (XAX)", "m: X A", lambda v: tr(v.X @ v.A @ v.X)),
    ],
    QUESTIONS + "derivative-of-the-trace-of-the-product-of-a-matrix-and-its-transpose-2807864": [
        (r"\mbox{Trace} (X^TX)", "m: X", lambda v: tr(v.X.T @ v.X)),
        ("Tr((X+H)(X+H)^T)", "m: X H", lambda v: tr((v.X + v.H) @ (v.X + v.H).T)),
    ],
    QUESTIONS + "derivative-of-trace-based-linear-scalar-field-3908360": [
        (r"{\rm Tr}(XA)", "m: X A", lambda v: tr(v.X @ v.A)),
        (r"{\rm Tr}(AX^T)", "m: A X", lambda v: tr(v.A @ v.X.T)),
    ],
    "http://www.talkstats.com/threads/multivariate-gaussian-mle.47141/": [
        (r"\ln p(X|\mu,\Sigma)=-\frac{N D}{2}\ln(2\pi)-\frac{N}{2}\ln|\Sigma|-\frac{1}{2}\sum_{n=1}^N(x_n-\mu)^T\Sigma^{-1}(x_n-\mu)",
         "s: D; v: mu; m: Sigma x", lambda v: (
            -len(v.x) * v.D / 2 * log(2 * np.pi) - len(v.x) / 2 * log(det(v.Sigma))
            - 0.5 * sum((x - v.mu) @ inv(v.Sigma) @ (x - v.mu) for x in v.x))),
    ],
    "https://wiki.hoelee.com/content/stats.stackexchange.com_en_all_2022-05/questions/278477/how-does-one-differentiate-the-log-likelihood-of-a-multivariate-normal-density": [
        (r"\ell = -\log \Big( \det \big[C \Sigma C^T \big] \Big) - (x-A\mu)^T (C \Sigma C^T)^{-1}(x-A\mu)",
         "v: x mu; m: C Sigma A", lambda v: (
            -log(det(v.C @ v.Sigma @ v.C.T))
            - (v.x - v.A @ v.mu) @ inv(v.C @ v.Sigma @ v.C.T) @ (v.x - v.A @ v.mu))),
    ],
    "https://math.stackexchange.com/questions/2118535/deriving-the-maximum-likelihood-estimate-of-gaussian-co-variance-matrix": [
        (r"\sum_{i=1}^n-\frac12\ln((2\pi)^d\det(\Sigma))-(x_i-\mu)^T\Sigma^{-1}(x_i-\mu)",
         "! put all that is summed in brackets", None),
        (r"\operatorname{trace} \left( \Sigma^{-1}\sum_{i=1}^n(x_i-\mu)(x_i-\mu)^T\right)", "v: mu; m: Sigma x",
         lambda v: sum((x - v.mu) @ inv(v.Sigma) @ (x - v.mu) for x in v.x)),
    ],
    "https://www.physicsforums.com/members/bakav.321803/recent-content": [
        ("det(A+O'XO)", "m: A O X", lambda v: det(v.A + v.O.T @ v.X @ v.O)),
    ],
    "https://kiwix.cwells.dev/content/math.stackexchange.com_en_all_2025-08/questions/3132667/ridge-regression-objective-function-gradient": [
        (r"f (W) = \|XW - Y\|_F^2 + \lambda \|W\|_F^2", "s: lambda; m: X W Y",
         lambda v: norm(v.X @ v.W - v.Y) ** 2 + v.lambda_ * norm(v.W) ** 2),
        (r"\nabla f (W) = 2 \lambda W + 2X^T(XW - Y)", "s: lambda; m: W X Y",
         lambda v: 2 * v.lambda_ * v.W + 2 * v.X.T @ (v.X @ v.W - v.Y)),
    ],
    QUESTIONS + "derivative-of-an-l-2-norm-with-respect-to-a-matrix-1917335": [
        (r"\sum_{j=0}^n \|W^T x_j - y_j\|_{2}^{2} + \lambda \|W\|_F^2", "s: lambda; m: W x y",
         lambda v: norm(v.x @ v.W - v.y) ** 2 + v.lambda_ * norm(v.W) ** 2),
        (r"(XX^T + \lambda I)^{-1}XY^T", "s: lambda; m: X Y; i: I",
         lambda v: inv(v.X @ v.X.T + v.lambda_ * np.eye(len(v.X))) @ v.X @ v.Y.T),
    ],
    QUESTIONS + "help-in-understanding-matrix-differentiation-laws-used-in-stochastic-gradient-descent-3114577": [
        ("‖XW−Y‖^2_F", "m: X W Y", lambda v: norm(v.X @ v.W - v.Y) ** 2),
        (r"tr(W^⊤X^⊤XW−Y^⊤XW−W^⊤X^⊤Y+Y^⊤Y)", "m: W X Y", None),
        (r"2 \, \mathrm X^{\top} \left( \mathrm X \mathrm W - \mathrm Y \right)", "m: X W Y",
         lambda v: 2 * v.X.T @ (v.X @ v.W - v.Y)),
    ],
    QUESTIONS + "derivation-of-vector-norm-475658": [
        (r"F(A) = \sum_{i} \left \| Y_{i} - AB_{i} \right \|^{2} + \lambda \left \| A - C \right \|^{2}",
         "s: lambda; m: Y A B C", lambda v: norm(v.Y - v.B @ v.A.T) ** 2 + v.lambda_ * norm(v.A - v.C) ** 2),
    ],
    QUESTIONS + "gradient-of-h-mapsto-a-w-h-text-f-2-2363203": [
        (r"f (H) = \| A − W H \|_{\text{F}}^2", "m: A W H", lambda v: norm(v.A - v.W @ v.H) ** 2),
        (r"-2 \operatorname{tr} ((A-WH)^T W\Delta)", "m: A W H Delta",
         lambda v: -2 * tr((v.A - v.W @ v.H).T @ v.W @ v.Delta)),
    ],
    "https://imathworks.com/math/hessian-of-the-log-sum-exp-with-affine-input": [
        (r"f(x) = log(\sum_{i=1}^{m} exp(K(a_i^Tx + b_i)))", "s: K; v: x b; m: a",
         lambda v: logsumexp(v.K * (v.a @ v.x + v.b))),
        (r"{\rm Tr}(A^TB)", "m: A B", lambda v: tr(v.A.T @ v.B)),
        (r"\sum_{i=1}^m \sum_{j=1}^n A_{ij} B_{ij}", "m: A B", lambda v: np.sum(v.A * v.B)),
    ],
    QUESTIONS + "how-to-calculate-frac-partial-2-partial-theta-2-bigg-frac-1-n-sum-i-1-n-exp-y-i-theta-t-x-i-bigg-3212258": [
        (r"f(\theta) = \frac{1}{n} \sum_{i=1}^{n} \exp(-Y_i (\theta^T X_i))", "v: theta Y; m: X",
         lambda v: np.mean(exp(-v.Y * (v.X @ v.theta)))),
    ],
    QUESTIONS + "testing-function-convexity-2522145": [
        (r"f(x) = \ln \left(\sum\limits_{i=1}^n e^{x_i}\right)", "v: x", lambda v: logsumexp(v.x)),
    ],
    "https://imathworks.com/math/math-the-second-derivative-of-logleftsumlimits_i1nex_iright-seems-negative-but-i-have-to-prove-the-function-is-convex": [
        (r"\log \left(\sum_{i=1}^{n} e^{x_i}\right)", "v: x", lambda v: logsumexp(v.x)),
        (r"Q(u)=\sum_it_iu_i^2\cdot\sum_it_i-\left(\sum_it_iu_i\right)^2", "v: t u", None),
    ],
    "https://huggingface.co/datasets/nvidia/Nemotron-CC-Math-v1": [
        (r"F(\mathbf{a})=L\sum_{i,j}a_{i}a_{j}K_{ij} + \sum_{i}\max(0, 1-y_i \sum_{j}a_jK_{ij})", "s: L; v: a y; m: K",
         lambda v: v.L * v.a @ v.K @ v.a + np.sum(np.maximum(0, 1 - v.y * (v.K @ v.a)))),
        (r"\arg \min \log |C| + \text{Tr}[C^{-1} xx^T]", "v: x; m: C",
         lambda v: log(det(v.C)) + v.x @ inv(v.C) @ v.x),
        (r"\ln P(y|x, \theta) = -\frac{1}{2}\ln|K| - \frac{1}{2}y^tK^{-1}y - \frac{N}{2}\ln{2\pi}", "v: y; m: K",
         lambda v: -0.5 * log(det(v.K)) - 0.5 * v.y @ inv(v.K) @ v.y - len(v.y) / 2 * log(2 * np.pi)),
    ],
    "https://github.com/Gairola788/AI-Development": [
        ("(1 / (2 * m)) * np.sum((X.dot(theta) - y) ** 2)", "v: theta y; m: X",
         lambda v: np.sum((v.X @ v.theta - v.y) ** 2) / (2 * len(v.y))),
    ],
    "https://medium.com/intuitionmath/the-gradients-of-linear-regression-cost-function-1a42b98ab0ef": [
        ("J(theta) = (1/2m) * (X * theta — y)^T * (X * theta — y)", "! can be read in two ways; write /(2*m)", None),
    ],
    QUESTIONS + "derivative-of-product-of-2-inverse-matrices-549161": [
        (r"a^T X^{-T}X^{-1}a", "v: a; m: X", lambda v: norm(inv(v.X) @ v.a) ** 2),
    ],
    QUESTIONS + "derivative-of-a-ta-x-1-b-with-respect-to-x-4719748": [
        (r"a^TA^{-1}b", "v: a b; m: A", lambda v: v.a @ inv(v.A) @ v.b),
        (r"- A^{-T}ab^T A^{-T}", "v: a b; m: A", lambda v: -inv(v.A).T @ np.outer(v.a, v.b) @ inv(v.A).T),
    ],
    QUESTIONS + "i-m-looking-for-a-proof-of-derivative-of-an-inverse-matrix-1225701": [
        (r"x^TA^{-1}x", "v: x; m: A", lambda v: v.x @ inv(v.A) @ v.x),
        (r"-A^{-T}xx^{T}A^{-T} \tag{1}", "v: x; m: A", lambda v: -inv(v.A).T @ np.outer(v.x, v.x) @ inv(v.A).T),
    ],
    "https://kiwix.lukehooper.xyz/content/math.stackexchange.com_en_all_2024-10/questions/3330806/": [
        (r"-\left( X^{-1}\right) ^{T}ab^{T}\left( X^{-1}\right) ^{T}", "v: a b; m: X",
         lambda v: -inv(v.X).T @ np.outer(v.a, v.b) @ inv(v.X).T),
    ],
    "https://math.stackexchange.com/questions/2587409/matrix-factorization-als-missing-entries": [
        (r"\sum_{u,i}x_u^T(\lambda I + y_iy_i^T)x_u -(2r_{u,i})x_u^Ty_i + (\lambda ||y_i||^2 + r_{u,i}^2)",
         "! put all that is summed in brackets", None),
    ],
    "https://cs.stackexchange.com/questions/110052/computing-analytic-gradients-for-nn-cost-function-with-1-hidden-layer": [
        (r"1/(1+exp(-x))", "s: x", lambda v: sigmoid(v.x)),
    ],
    QUESTIONS + "solving-for-gradient-of-frobenius-norm-term-915703": [
        (r"\arg \min_{B} \frac{\mu}{2} \|A - BD + C\|^2_F", "s: mu; m: A B D C",
         lambda v: v.mu / 2 * norm(v.A - v.B @ v.D + v.C) ** 2),
        (r"\tfrac{\mu}{2}\left(\|A+C-BD\|_F^2 + \|\delta B \cdot D\|_F^2 \right)", "s: mu delta; m: A C B D",
         lambda v: v.mu / 2 * (norm(v.A + v.C - v.B @ v.D) ** 2 + norm(v.delta * v.B @ v.D) ** 2)),
    ],
    QUESTIONS + "gradient-of-an-optimization-function-frobenius-norm-and-hadamard-product-3962624": [
        (r"\tfrac 12(w:w)", "! write out what stands for a function", None),
        (r"\rho p + Q^T\big(u\circ u\circ(Qp-r)\big)", "s: rho; v: p u r; m: Q",
         lambda v: v.rho * v.p + v.Q.T @ (v.u * v.u * (v.Q @ v.p - v.r))),
    ],
    "https://isolution.pro/q/ma16679608/adama-ru-seki-no-l-1-norumu-no-shirube-kansu": [
        (r"f(B)=\lambda\Vert W \bigodot B \Vert_1 + \frac{\rho}{2}\Vert A-B \Vert_F^2 + tr(\Delta^T(A-B))",
         "s: lambda rho; m: W B A Delta", lambda v: (
            v.lambda_ * abs(v.W * v.B).sum() + v.rho / 2 * norm(v.A - v.B) ** 2 + tr(v.Delta.T @ (v.A - v.B)))),
    ],
    QUESTIONS + "derivatives-of-matrices-in-lagrangian-and-lasso-optimization-with-shrinkage-operators-4444301": [
        (r"\textbf{min}\quad \|A\textbf{x}-\textbf{b}\|_1+\sigma \|\bf x \|_1", "s: sigma; v: x b; m: A",
         lambda v: abs(v.A @ v.x - v.b).sum() + v.sigma * abs(v.x).sum()),
    ],
    "https://kiwix.lukehooper.xyz/content/math.stackexchange.com_en_all_2024-10/questions/3933982/proof-of-admm-special-case": [
        ("f(x)=(1/2)x^TPx+q^Tx+r", "s: r; v: x q; m: P", lambda v: 0.5 * v.x @ v.P @ v.x + v.q @ v.x + v.r),
        (r"x^+:= (P+{\rho}A^TA)^{-1}({\rho}A^Tv-q)", "s: rho; v: v q; m: P A",
         lambda v: inv(v.P + v.rho * v.A.T @ v.A) @ (v.rho * v.A.T @ v.v - v.q)),
        (r"x^{+} = \arg\min_{x} \frac{1}{2} x^TPx + q^Tx + r + \frac{\rho}{2}\| Ax - b - v \|_2^2",
         "s: r rho; v: x q b v; m: P A", lambda v: (
            0.5 * v.x @ v.P @ v.x + v.q @ v.x + v.r + v.rho / 2 * norm(v.A @ v.x - v.b - v.v) ** 2)),
        (r"Px + q + \rho A^T(Ax-b-v)", "s: rho; v: x q b v; m: P A",
         lambda v: v.P @ v.x + v.q + v.rho * v.A.T @ (v.A @ v.x - v.b - v.v)),
    ],
    QUESTIONS + "trouble-with-taking-the-derivative-for-neural-network-2979764": [
        (r"\hat y = \sigma(HW_{out})", "m: H W_out", lambda v: sigmoid(v.H @ v.W_out)),
    ],
    QUESTIONS + "gradient-of-hadamard-product-2263539": [
        (r"\mathrm{trace}(A'(X\circ X-1))", "m: A X", lambda v: tr(v.A.T @ (v.X * v.X - 1))),
    ],
    "https://imathworks.com/math/math-gradient-hadamard-product": [
        (r"\mathbf{1}^T ((A*x) \circ (B*x))", "v: x; m: A B", lambda v: np.sum((v.A @ v.x) * (v.B @ v.x))),
        (r"(A^TB + B^TA)\,x", "v: x; m: A B", lambda v: (v.A.T @ v.B + v.B.T @ v.A) @ v.x),
    ],
    "https://imathworks.com/math/derivative-of-a-trace-with-hadamard-division": [
        (r"Tr\,[AX'(X \oslash B)]", "m: A X B", lambda v: tr(v.A @ v.X.T @ (v.X / v.B))),
        (r"(XA + XA') \oslash B", "m: X A B", lambda v: (v.X @ v.A + v.X @ v.A.T) / v.B),
    ],
    "https://stats.stackexchange.com/questions/280277/covariance-term-in-gradient-of-gaussian-process-marginal-likelihood": [
        (r"\log p(y|X, \theta) = -\frac{1}{2}y^{T} K_y^{-1}y - \frac{1}{2}\log|K_y|-\frac{n}{2}\log2\pi", "v: y; m: K_y",
         lambda v: -0.5 * v.y @ inv(v.K_y) @ v.y - 0.5 * log(det(v.K_y)) - len(v.y) / 2 * log(2 * np.pi)),
    ],
    "https://www.onenoughtone.com/learn/gp-hyperparameter-learning/2": [
        (r"\mathcal{L}(\boldsymbol{\theta}) = \log p(\mathbf{y} | \mathbf{X}, \boldsymbol{\theta}) = -\frac{1}{2}\mathbf{y}^\top \mathbf{K}_y^{-1} \mathbf{y} - \frac{1}{2}\log |\mathbf{K}_y| - \frac{n}{2}\log(2\pi)",
         "v: y; m: K_y",
         lambda v: -0.5 * v.y @ inv(v.K_y) @ v.y - 0.5 * log(det(v.K_y)) - len(v.y) / 2 * log(2 * np.pi)),
    ],
    "https://docs.scipy.org/doc/scipy-1.4.1/reference/generated/scipy.optimize.curve_fit.html": [
        ("sum((r / sigma) ** 2)", "s: sigma; v: r", lambda v: np.sum((v.r / v.sigma) ** 2)),
        ("a * np.exp(-b * x) + c", "s: a b c; v: x", lambda v: v.a * exp(-v.b * v.x) + v.c),
    ],
    "https://moorepants.github.io/resonance/03-2020/curve_fitting.html": [
        (r"\dot{\theta} = A \cos \omega t", "s: A omega t", lambda v: v.A * np.cos(v.omega * v.t)),
        ("amplitude * np.cos(frequency * times)", "s: amplitude frequency; v: times",
         lambda v: v.amplitude * np.cos(v.frequency * v.times)),
    ],
    "https://scipy-lectures.org/advanced/mathematical_optimization/auto_examples/plot_curve_fitting.html": [
        ("np.cos(omega * t + phi)", "s: omega t phi", lambda v: np.cos(v.omega * v.t + v.phi)),
    ],
    "https://tensorflow.org/federated/api_docs/python/tff/learning/optimizers/build_adam": [
        ("beta_1 * acc + (1 - beta_1) * g", "s: beta_1; v: acc g", lambda v: v.beta_1 * v.acc + (1 - v.beta_1) * v.g),
        ("beta_2 * s + (1 - beta_2) * g**2", "s: beta_2; v: s g", lambda v: v.beta_2 * v.s + (1 - v.beta_2) * v.g**2),
        ("lr * sqrt(1 - beta_2**t) / (1 - beta_1**t)", "s: lr beta_2 t beta_1",
         lambda v: v.lr * sqrt(1 - v.beta_2**v.t) / (1 - v.beta_1**v.t)),
        ("w - normalized_lr * acc / (sqrt(s) + eps)", "s: normalized_lr eps; v: w acc s",
         lambda v: v.w - v.normalized_lr * v.acc / (sqrt(v.s) + v.eps)),
    ],
    "https://rdrr.io/cran/ngme2/man/adam.html": [
        (r"m_t = \beta_1 m_{t-1} + (1 - \beta_1) g_t", "s: beta_1; v: m_t_minus_1 g_t",
         lambda v: v.beta_1 * v.m_t_minus_1 + (1 - v.beta_1) * v.g_t),
        (r"v_t = \beta_2 v_{t-1} + (1 - \beta_2) g_t^2", "s: beta_2 v_t_minus_1 g_t",
         lambda v: v.beta_2 * v.v_t_minus_1 + (1 - v.beta_2) * v.g_t**2),
        (r"x_{t+1} = x_t - \text{stepsize} * \frac{\hat{m_t}}{\sqrt{\hat{v_t}} + \epsilon}",
         "s: stepsize epsilon; v: x_t m_hat_t v_hat_t", None),
    ],
    "https://mxnet.apache.org/versions/1.6/api/r/docs/api/mx.symbol.adam_update.html": [
        ("m = beta1*m0 + (1-beta1)*grad; w - learning_rate * m / (sqrt(v) + epsilon)",
         "s: beta1 learning_rate epsilon; v: m0 grad w v", None),
        (r"W_{t-1} - \alpha \frac{ m_t }{ \sqrt{ v_t } + \epsilon }", "s: W_t_minus_1 alpha m_t v_t epsilon",
         lambda v: v.W_t_minus_1 - v.alpha * v.m_t / (sqrt(v.v_t) + v.epsilon)),
    ],
    "https://pastebin.com/FnQG5Vp4": [
        ("v * rho2 + np.square(grad) * (1 - rho2)", "s: rho2; v: v grad",
         lambda v: v.v * v.rho2 + v.grad**2 * (1 - v.rho2)),
    ],
    QUESTIONS + "hessian-of-the-rayleigh-quotient-frac-langle-x-ax-rangle-langle-x-x-rangle-4797858": [
        (r"f(x):=\frac{\langle x,Ax\rangle}{\langle x,x\rangle}", "v: x; m: A", lambda v: v.x @ v.A @ v.x / (v.x @ v.x)),
    ],
    QUESTIONS + "how-to-calculate-hessian-of-ax-x-x-x-4303336": [
        (r"\frac{\langle Ax, x \rangle}{\langle x, x \rangle}", "v: x; m: A", lambda v: v.x @ v.A @ v.x / (v.x @ v.x)),
        (r"\frac{2Ax}{\langle x, x \rangle} - \frac{2x\langle Ax, x \rangle}{\langle x, x \rangle^2}", "v: x; m: A",
         lambda v: 2 * v.A @ v.x / (v.x @ v.x) - 2 * v.x * (v.x @ v.A @ v.x) / (v.x @ v.x) ** 2),
    ],
    "https://math.bot/q/gradient-hessian-quadratic-form-FftoCGQ6": [
        ("f(x) = x^T Q x", "v: x; m: Q", lambda v: v.x @ v.Q @ v.x),
    ],
    "https://sunhaozhe.github.io/blogs/2019/10/03/matrix-calculus": [
        (r"L = - \sum_i y_i \log p_i", "v: y p", lambda v: -np.sum(v.y * log(v.p))),
        (r"u^\intercal A", "v: u; m: A", lambda v: v.u @ v.A),
    ],
    "https://math.stackexchange.com/questions/2074217/how-to-compute-the-gradient-of-the-softmax-function-w-r-t-matrix": [
        (r"z = h\cdot W + b", "v: h b; m: W", lambda v: v.h @ v.W + v.b),
    ],
    "https://quant.stackexchange.com/questions/70876/portfolio-optimization-problem": [
        (r"L = \frac{\vec{w}^TA\vec{w}}{\vec{w}^TB\vec{w}} - \lambda(\vec{w}^T\vec{1} - 1)", "s: lambda; v: w; m: A B",
         lambda v: v.w @ v.A @ v.w / (v.w @ v.B @ v.w) - v.lambda_ * (v.w.sum() - 1)),
    ],
    "https://github.com/chaitanya6512/Machine-Learning": [
        ("-(1/m) * np.sum(y * np.log(y_pred) + (1 -y) * np.log(1-y_pred))", "v: y y_pred",
         lambda v: -np.mean(v.y * log(v.y_pred) + (1 - v.y) * log(1 - v.y_pred))),
    ],
    "https://github.com/Fedmug/kbtu-ml-book": [
        (r"J(\theta) = -\left[y \log(\hat{y}) + (1-y) \log(1-\hat{y})\right]", "s: y y_hat",
         lambda v: -(v.y * log(v.y_hat) + (1 - v.y) * log(1 - v.y_hat))),
        (r"J(\theta) = -\frac{1}{m}\sum_{i=1}^{m}\left[ y^{(i)}\log(\hat{y}^{(i)}) + (1-y^{(i)})\log(1-\hat{y}^{(i)}) \right]",
         "v: y y_hat", lambda v: -np.mean(v.y * log(v.y_hat) + (1 - v.y) * log(1 - v.y_hat))),
    ],
    "https://github.com/sympy/sympy/issues/28615": [
        ("sqrt(Trace(A.T*A))", "m: A", lambda v: norm(v.A)),
    ],
    "https://github.com/simondlevy/TinyEKF/blob/master/python/tinyekf/__init__.py": [
        (r"P_k = F_{k-1} P_{k-1} F^T_{k-1} + Q_{k-1}", "m: F_k_minus_1 P_k_minus_1 Q_k_minus_1", None),
        (r"G_k = P_k H^T_k (H_k P_k H^T_k + R)^{-1}", "m: P_k H_k R",
         lambda v: v.P_k @ v.H_k.T @ inv(v.H_k @ v.P_k @ v.H_k.T + v.R)),
        ("np.dot(F, P_post).dot(F.T) + Q", "m: F P_post Q", lambda v: v.F @ v.P_post @ v.F.T + v.Q),
        ("np.dot(P_pre.dot(H.T), np.linalg.inv(H.dot(P_pre).dot(H.T) + R))", "m: P_pre H R",
         lambda v: v.P_pre @ v.H.T @ inv(v.H @ v.P_pre @ v.H.T + v.R)),
    ],
    "https://www.cnblogs.com/redufa/p/18474112": [
        ("np.dot(np.dot(A,  P), A.T) + Q", "m: A P Q", lambda v: v.A @ v.P @ v.A.T + v.Q),
        ("z - np.dot(H,  x)", "v: z x; m: H", lambda v: v.z - v.H @ v.x),
        ("P - np.dot(np.dot(K,  H), P)", "m: P K H", lambda v: v.P - v.K @ v.H @ v.P),
    ],
}
